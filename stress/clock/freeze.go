//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

const (
	window   = time.Second
	idleFor  = 20 * time.Millisecond
	stopsFor = 2200 * time.Millisecond
	never    = time.Duration(-1)
)

// freeze stops a process in rounds, and judges what it decides.
func freeze(rounds int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-frozen")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	defer in.Close() // which ends it
	answers := bufio.NewReader(out)
	var firsts, wrong, starved, traffic, late int
	var ours, bare []time.Duration
	for round := range rounds {
		busy := round%2 == 1
		fmt.Fprintln(in, busy)
		if _, err := answers.ReadString('\n'); err != nil { // it is ready
			return err
		}
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(stopsFor)
		goesOn := time.Now().UnixNano()
		fmt.Fprintln(in, goesOn) // is there to be read when it goes on
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		var denied, asked int
		var stale, tick time.Duration
		var ticked bool
		if _, err := fmt.Fscanln(answers, &denied, &asked, &stale, &tick, &ticked); err != nil {
			return err
		}
		if ticked {
			firsts, wrong = firsts+asked, wrong+denied
		} else {
			starved++
		}
		if !busy || stale == never || tick == never {
			continue
		}
		traffic++
		ours, bare = append(ours, stale), append(bare, tick)
		if stale > max(2*tick, sketchlimit.Resolution) {
			late++
		}
	}
	fmt.Printf("%d rounds of SIGSTOP for %v, windows of %v:\n", rounds, stopsFor, window)
	fmt.Printf("- idle for %v before: %d of %d first decisions by the window of before; a bare ticker did not tick meanwhile in %d rounds\n",
		idleFor, wrong, firsts, starved)
	fmt.Printf("- under traffic, %d rounds: decisions by the window of before until %s after the stop, a bare ticker ticks %s after it; later than twice that in %d\n",
		traffic, spread(ours), spread(bare), late)
	if wrong > 0 || late > 0 {
		return errors.New("decisions by the window of before")
	}
	return nil
}

// spread returns the median and the greatest of durations.
func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "never"
	}
	slices.Sort(d)
	return fmt.Sprintf("%v (at most %v)", d[len(d)/2].Round(time.Microsecond), d[len(d)-1].Round(time.Microsecond))
}

// beFrozen plays rounds until its input ends. A line says whether a limiter is asked
// all the time, and the next one, in unix ns, when the process goes on.
func beFrozen(in io.Reader, out io.Writer) {
	kinds := []sketchlimit.Config{
		{Limit: 5, Algorithm: sketchlimit.FixedWindow}, {Limit: 5},
		{Limit: 5, SubWindows: 2}, {Limit: 5, Algorithm: sketchlimit.TokenBucket},
	}
	var idle []*sketchlimit.Limiter
	for _, c := range kinds {
		c.Window, c.Keys = window, 1000
		idle = append(idle, limiter(c))
	}
	traffic := limiter(sketchlimit.Config{Limit: 1, Window: window, Keys: 1000, Algorithm: sketchlimit.FixedWindow})
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		busy := lines.Text() == "true"
		b := &bareTicker{stop: make(chan struct{}), ended: make(chan struct{}, 2)}
		running := 1
		go b.tick()
		if busy {
			running++
			go b.ask(traffic)
		}
		for _, l := range idle {
			for l.Allow("k") {
			}
		}
		before := b.ticks.Load()
		time.Sleep(idleFor)
		ticked := b.ticks.Load() > before+1 // one may have been due before
		fmt.Fprintln(out, "ready")
		if !lines.Scan() {
			return
		}
		denied := 0
		for _, l := range idle {
			if !l.Allow("k") {
				denied++
			}
		}
		var goesOn int64
		if _, err := fmt.Sscan(strings.TrimSpace(lines.Text()), &goesOn); err != nil {
			panic(err)
		}
		time.Sleep(100 * time.Millisecond)
		close(b.stop)
		for range running {
			<-b.ended
		}
		fmt.Fprintln(out, denied, len(idle), int64(b.stale(goesOn)), int64(b.ticked(goesOn)), ticked)
	}
}

// bareTicker is what goes on bareTicker the idle limiters.
type bareTicker struct {
	stop      chan struct{}
	ended     chan struct{}
	ticks     atomic.Int64
	lastTick  time.Time // the first after a gap
	lastWrong time.Time // decision by the window of before, after a gap
	gap       time.Time // the first decision after it
}

// tick is the bare ticker.
func (b *bareTicker) tick() {
	defer func() { b.ended <- struct{}{} }()
	ticker := time.NewTicker(sketchlimit.Resolution)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-b.stop:
			return
		case <-ticker.C:
			now := time.Now()
			b.ticks.Add(1)
			if now.Sub(last) > stopsFor/2 {
				b.lastTick = now
			}
			last = now
		}
	}
}

// ask asks the limiter at full speed.
func (b *bareTicker) ask(l *sketchlimit.Limiter) {
	defer func() { b.ended <- struct{}{} }()
	last, admitted := time.Now(), false
	for {
		select {
		case <-b.stop:
			return
		default:
		}
		now := time.Now()
		ok := l.Allow("k")
		after := time.Now()
		if after.Sub(last) > stopsFor/2 {
			b.gap, admitted = after, false
		}
		switch {
		case ok:
			admitted = true
		case !admitted && !b.gap.IsZero() && after.Sub(now) < stopsFor/2: // or else it may have been decided before
			b.lastWrong = now
		}
		last = after
	}
}

// stale returns for how long after a time decisions went by the window of before.
func (b *bareTicker) stale(from int64) time.Duration {
	switch {
	case b.gap.IsZero():
		return never
	case b.lastWrong.IsZero():
		return 0
	}
	return max(0, b.lastWrong.Sub(time.Unix(0, from)))
}

// ticked returns how long after a time the bare ticker ticked.
func (b *bareTicker) ticked(from int64) time.Duration {
	if b.lastTick.IsZero() {
		return never
	}
	return b.lastTick.Sub(time.Unix(0, from))
}
