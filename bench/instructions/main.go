// Command instructions counts the processor instructions of one call of a limiter, by
// valgrind's callgrind: on shared machines times differ by a tenth from one run to the
// next, and instructions by less than one.
//
//	go run ./bench/instructions [-base commit]
//
// It builds itself once more and runs that under callgrind, which counts what happens
// inside the function measured. An empty call is counted as well and taken off. With
// -base it does the same in a temporary worktree of that commit, and prints both
// figures and the difference; a commit that lacks the API used here has no column.
//
// Limiters keep their default clock, as users' do: the goroutine that makes the calls
// is locked to its thread, and callgrind counts by thread, so the goroutine that reads
// the clock is left out. Without the lock figures differ by hundreds from run to run,
// with it by less than one, on a busy machine as well. The seed is fixed, and the
// window is chosen so that the present is the middle of one: none ends during a run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/bench/internal/basetree"
)

const (
	keys  = 1 << 20
	calls = 1 << 16 // of one row
)

// row is a line of the table: what one call does.
type row struct {
	name string
	call func(key string)
}

// rows returns what is counted, by limiters that have seen their traffic. The first is
// the empty call.
func rows() []row {
	now := time.Now()
	window := time.Duration(2 * now.UnixNano() / 40001) // a day and a quarter; now is the middle of the 20,001st
	limiter := func(c sketchlimit.Config) *sketchlimit.Limiter {
		c.Window, c.Seed = window, 1
		l, err := sketchlimit.New(c)
		if err != nil {
			log.Fatal(err)
		}
		return l
	}
	sliding := limiter(sketchlimit.Config{Limit: 100, MemoryBytes: 4 << 20})
	bucket := limiter(sketchlimit.Config{Limit: 100, MemoryBytes: 8 << 20, Algorithm: sketchlimit.TokenBucket}) // room for all keys
	each(keys, func(key string) { sliding.TakeAt(now.Add(-window), key, 1) })
	each(keys, func(key string) { sliding.Allow(key) })
	each(keys, func(key string) { bucket.Allow(key) })

	const none = -1 // for AuditBytes: in a limiter of one key it is in the sample
	denied := limiter(sketchlimit.Config{Limit: 100, MemoryBytes: 64 << 10, AuditBytes: none})
	admitted := limiter(sketchlimit.Config{Limit: 1<<31 - 1, MemoryBytes: 64 << 10, AuditBytes: none})
	deniedSampled := limiter(sketchlimit.Config{Limit: 100, MemoryBytes: 64 << 10})
	admittedSampled := limiter(sketchlimit.Config{Limit: 1<<31 - 1, MemoryBytes: 64 << 10})
	hot := limiter(sketchlimit.Config{Limit: 2_000_000, MemoryBytes: 64 << 10, AuditBytes: none})
	for age := range time.Duration(3) { // it has an entry, which has counted the previous generation as a whole
		for range 100 {
			hot.TakeAt(now.Add((age-2)*window), names[0], 5000)
		}
	}
	for range 1000 {
		for _, l := range []*sketchlimit.Limiter{denied, admitted, deniedSampled, admittedSampled} {
			l.Allow(names[0])
		}
	}
	return []row{
		{"nothing", func(string) {}},
		{"Allow", func(key string) { sliding.Allow(key) }},
		{"Take", func(key string) { sliding.Take(key, 1) }},
		{"Do with a time", func(key string) { sliding.Do(sketchlimit.Request{Key: key, Time: now}) }},
		{"Allow, token bucket", func(key string) { bucket.Allow(key) }},
		{"Allow, one key, denied", func(string) { denied.Allow(names[0]) }},
		{"Allow, one key, admitted", func(string) { admitted.Allow(names[0]) }},
		{"Allow, one key with an entry", func(string) { hot.Allow(names[0]) }},
		{"Allow, one sampled key, denied", func(string) { deniedSampled.Allow(names[0]) }},
		{"Allow, one sampled key, admitted", func(string) { admittedSampled.Allow(names[0]) }},
	}
}

var (
	names  [keys]string
	random = rand.New(rand.NewPCG(1, 2))
)

// each calls f with n keys at random.
func each(n int, f func(key string)) {
	for range n {
		f(names[random.Uint32N(keys)])
	}
}

// measured is what callgrind counts, and writes a file after.
//
//go:noinline
func measured(r row) { each(calls, r.call) }

// perform makes the calls of all rows, and prints their names.
func perform() {
	for i := range names {
		names[i] = strconv.FormatInt(1e15+int64(i), 10) // 16 bytes
	}
	for _, r := range rows() {
		for range 8 {
			r.call(names[0]) // the ticker of the default clock starts, whose thread callgrind hardly runs
		}
		time.Sleep(3 * time.Millisecond)
		measured(r)
		fmt.Println(r.name)
	}
}

// result is the instructions of one call, by the names of the rows in their order.
type result struct {
	names   []string
	perCall map[string]float64
}

var total = regexp.MustCompile(`(?m)^totals: (\d+)$`)

// count builds the program in a tree of the repository, and runs it under callgrind.
func count(tree string) (r result, err error) {
	dir, err := os.MkdirTemp("", "instructions")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	binary, out := filepath.Join(dir, "instructions"), filepath.Join(dir, "out")
	if _, err := basetree.Run(quiet, "go", "build", "-C", tree, "-o", binary, "./bench/instructions"); err != nil {
		return r, err
	}
	printed, err := basetree.Run(quiet, "valgrind", "--tool=callgrind", "--toggle-collect=main.measured", "--dump-after=main.measured",
		"--callgrind-out-file="+out, binary, "-perform")
	if err != nil {
		return r, err
	}
	r.names = strings.Split(strings.TrimSpace(printed), "\n")
	r.perCall = map[string]float64{}
	for i, name := range r.names {
		text, err := os.ReadFile(fmt.Sprint(out, ".", i+1))
		m := total.FindSubmatch(text)
		if m == nil {
			return r, errors.Join(fmt.Errorf("callgrind did not count %q", name), err)
		}
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return r, err
		}
		r.perCall[name] = n/calls - r.perCall[r.names[0]]
	}
	r.names = r.names[1:]
	return r, nil
}

// countBase is count for a commit, which gets this program.
func countBase(commit string) (r result, err error) {
	err = basetree.With(commit, "bench/instructions", func(tree string) error {
		r, err = count(tree)
		return err
	})
	return r, err
}

// quiet keeps the collector and preemption from counting: neither is the limiter's.
var quiet = []string{"GOGC=off", "GODEBUG=asyncpreemptoff=1"}

// compare prints the table.
func compare(base string) error {
	if _, err := exec.LookPath("valgrind"); err != nil {
		return fmt.Errorf("%w: install valgrind, which counts", err)
	}
	now, err := count(".")
	if err != nil {
		return err
	}
	var before result
	if base != "" {
		if before, err = countBase(base); err != nil {
			fmt.Printf("%s cannot be counted: %v\n\n", base, err)
			base = ""
		}
	}
	if base == "" {
		fmt.Print("| instructions of one call | |\n|---|---|\n")
	} else {
		fmt.Printf("| instructions of one call | %s | now | difference |\n|---|---|---|---|\n", base)
	}
	for _, name := range now.names {
		if n := now.perCall[name]; base == "" {
			fmt.Printf("| %s | %.1f |\n", name, n)
		} else {
			fmt.Printf("| %s | %.1f | %.1f | %+.1f |\n", name, before.perCall[name], n, n-before.perCall[name])
		}
	}
	return nil
}

func main() {
	log.SetFlags(0)
	base := flag.String("base", "", "commit to compare with")
	performs := flag.Bool("perform", false, "make the calls; for callgrind")
	flag.Parse()
	if *performs {
		runtime.LockOSThread()
		perform()
		return
	}
	if err := compare(*base); err != nil {
		log.Fatal("bench/instructions: ", err)
	}
}
