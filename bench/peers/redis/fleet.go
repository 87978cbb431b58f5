package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

const (
	fleetSize   = 8 // processes
	fleetRounds = 25
	fleetLasts  = 200 * time.Millisecond
)

// turn is what all processes of the fleet do at the same time.
type turn struct{ which, keys, callers int }

// fleet prints how many decisions 8 processes get a second, together. They ask one
// contender after another, in turns.
func fleet(w io.Writer, addr string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	process := make([]func(turn) (int, error), fleetSize)
	for i := range process {
		cmd := exec.Command(self, "-worker", "fleet", "-addr", addr)
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		defer cmd.Wait()
		defer in.Close() // which ends it
		lines := bufio.NewReader(out)
		process[i] = func(t turn) (decided int, err error) {
			fmt.Fprintln(in, t.which, t.keys, t.callers)
			_, err = fmt.Fscanln(lines, &decided)
			return decided, err
		}
	}
	all, err := fleetContenders(addr)
	if err != nil {
		return err
	}
	rates := map[turn][]float64{}
	for range fleetRounds {
		for _, keys := range []int{1, manyNames} {
			for _, callers := range []int{1, 16} {
				for _, which := range rand.Perm(len(all)) {
					t := turn{which, keys, callers}
					rate, err := together(process, t)
					if err != nil {
						return err
					}
					rates[t] = append(rates[t], rate)
				}
			}
		}
	}
	printFleet(w, all, rates)
	return nil
}

func printFleet(w io.Writer, all []contender, rates map[turn][]float64) {
	fmt.Fprintln(w, "| 8 processes | one key, 1 caller each | 16 callers each | 100,000 keys, 1 caller each | 16 callers each |\n|---|---|---|---|---|")
	for which, c := range all {
		fmt.Fprintf(w, "| %s |", c.name)
		for _, keys := range []int{1, manyNames} {
			for _, callers := range []int{1, 16} {
				this := slices.Clone(rates[turn{which, keys, callers}])
				times := slices.Clone(this) // redis_rate's of the same round
				for round, first := range rates[turn{0, keys, callers}] {
					times[round] /= first
				}
				slices.Sort(this)
				slices.Sort(times)
				fmt.Fprintf(w, " %.1f k/s, %.2f × |", this[len(this)/2]/1000, times[len(times)/2])
			}
		}
		fmt.Fprintln(w)
	}
}

// together lets all processes do the same and returns their decisions a second.
func together(process []func(turn) (int, error), t turn) (float64, error) {
	decided, errs := make([]int, len(process)), make([]error, len(process))
	start := time.Now()
	var all sync.WaitGroup
	for i := range process {
		all.Go(func() { decided[i], errs[i] = process[i](t) })
	}
	all.Wait()
	sum := 0
	for i, n := range decided {
		if errs[i] != nil {
			return 0, fmt.Errorf("process %d: %w", i, errs[i])
		}
		sum += n
	}
	return float64(sum) / time.Since(start).Seconds(), nil
}

func fleetContenders(addr string) ([]contender, error) {
	s, err := stricts(addr, manyNames, limit, time.Minute)
	return append([]contender{rate(addr, time.Minute)}, s...), err
}

// fleetWork is one of the processes. It connects before it is asked.
func fleetWork(addr string) error {
	all, err := fleetContenders(addr)
	if err != nil {
		return err
	}
	for {
		var t turn
		if _, err := fmt.Scanln(&t.which, &t.keys, &t.callers); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		took, err := ask(all[t.which], t.callers, t.keys, fleetLasts)
		if err != nil {
			return err
		}
		fmt.Println(len(took))
	}
}
