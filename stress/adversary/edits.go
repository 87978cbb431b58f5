package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// ruler is the rules under test, or broken ones.
type ruler interface {
	Do(domain string, asks ...rules.Ask) rules.Answer
	Replace(files ...rules.File) error
	Save(folder string) error
	Restore(folder string) error
	MemoryBytes() int
	All() []*rules.Rule
}

func newRuler(o rules.Options, f rules.File) (ruler, error) {
	r, err := o.New(f)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// edited is a rule whose limit is edited again and again, beside exact books.
type edited struct {
	*trial
	rules     ruler
	options   rules.Options
	clock     atomic.Int64
	algorithm sketchlimit.Algorithm
	window    time.Duration
	limits    []int // one after another, each within a factor of two of the one before
	at        int
	book      *oracle
	lost      bool // counts were let go, which the rules have counted
	tight     bool // a former limiter has room beside the present one, a second has not
}

func newEdited(t *trial) (*edited, error) {
	e := &edited{trial: t, algorithm: anyAlgorithm(t.Rand)}
	e.window = []time.Duration{time.Second, 90 * time.Second, time.Minute, time.Hour, 24 * time.Hour}[t.IntN(5)]
	e.clock.Store(1_700_000_000_000_000_000 + t.Int64N(1<<50))
	limit := 2 + t.IntN(200)
	for range 20 {
		e.limits = append(e.limits, limit)
		limit = min(max(2, (limit+1)/2+t.IntN(1+limit+limit/2)), 2*limit, 500)
	}
	c := sketchlimit.Config{Limit: slices.Max(e.limits), Window: e.window, Algorithm: e.algorithm}
	e.book = newOracle(c, nil)
	e.options = rules.Options{MaxMemoryBytes: 64 << 20, Clock: func() time.Time { return at(e.clock.Load()) }}
	t.made = fmt.Sprintf("  %v, window %v, limits %v", e.algorithm, e.window, e.limits)
	var err error
	if e.rules, err = t.b.make.rules(e.options, e.text()); err != nil || t.IntN(2) == 0 {
		return e, err
	}
	e.tight = true
	e.options.MaxMemoryBytes = 2*e.rules.MemoryBytes() + e.rules.MemoryBytes()/2
	t.made += fmt.Sprintf(", MaxMemoryBytes %d", e.options.MaxMemoryBytes)
	e.rules, err = t.b.make.rules(e.options, e.text())
	return e, err
}

func (e *edited) limit() int { return e.limits[e.at] }

func (e *edited) text() rules.File {
	algorithm := [...]string{sketchlimit.FixedWindow: "fixed_window", sketchlimit.SlidingWindow: "sliding_window", sketchlimit.TokenBucket: "token_bucket"}
	return rules.File{Name: "edited.yaml", Data: fmt.Appendf(nil,
		"domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: %v, requests_per_unit: %d, algorithm: %s, memory: 32KiB}\n",
		e.window, e.limit(), algorithm[e.algorithm])}
}

func (e *edited) ask(key, n int) bool {
	return e.rules.Do("d", rules.Ask{N: n, Descriptor: rules.Descriptor{{Key: "k", Value: fmt.Sprint(key)}}}).Admitted
}

// free is what a key has left of the limit in force; of a bucket, of the highest: what
// has flowed back is known for that.
func (e *edited) free(key int) int64 {
	limit := e.limit()
	if e.algorithm == sketchlimit.TokenBucket {
		limit = slices.Max(e.limits)
	}
	return e.book.free(e.clock.Load(), key, int64(limit))
}

// dropped reports whether counts were let go, and counted as such. That may be where
// memory is tight, and only of a bucket: one of less than half of its highest limit
// does not go on in the same memory.
func (e *edited) dropped() bool {
	n := e.rules.All()[0].Dropped()
	if n > 0 && !(e.tight && e.algorithm == sketchlimit.TokenBucket) {
		e.fail("dropped", "Dropped %d", n)
	}
	e.lost = e.lost || n > 0
	return e.lost
}

// playEdits asks, edits, saves and restores, one after another.
func playEdits(t *trial) {
	e, err := newEdited(t)
	if err != nil {
		t.fail("setup", "%v", err)
		return
	}
	defer e.dropped()
	for e.at < len(e.limits)-1 {
		switch t.steps++; t.IntN(12) {
		case 0, 1:
			e.edit()
		case 2:
			if t.IntN(3) == 0 {
				e.restart()
			}
		case 3:
			e.clock.Add(t.Int64N(1 + int64(e.window)/20))
			if t.IntN(6) == 0 {
				e.clock.Add(t.Int64N(2 * int64(e.window)))
			}
		default:
			key, n := t.IntN(3), 1+t.IntN(1+e.limit()/3)
			admitted := e.ask(key, n)
			e.note("%d: %d units of key %d: %v", e.clock.Load(), n, key, admitted)
			if !admitted {
				continue
			}
			if free := e.free(key); int64(n) > free && !e.dropped() {
				t.fail("over-admission", "%d units of key %d admitted at limit %d, the books have %d", n, key, e.limit(), free)
			}
			e.book.charge(e.clock.Load(), key, int64(n), e.book.limit)
		}
	}
}

func (e *edited) edit() {
	e.at++
	e.note("%d: limit %d", e.clock.Load(), e.limit())
	if err := e.rules.Replace(e.text()); err != nil {
		e.fail("edit", "%v", err)
	}
}

// restart goes on with new rules of a snapshot, sometimes under another limit than that
// of the snapshot.
func (e *edited) restart() {
	e.dropped() // new rules do not know of it
	folder, err := os.MkdirTemp("", "adversary")
	if err == nil {
		defer os.RemoveAll(folder)
		err = e.rules.Save(folder)
	}
	if err == nil {
		e.at += e.IntN(2)
		e.rules, err = e.b.make.rules(e.options, e.text())
	}
	if err == nil {
		err = e.rules.Restore(folder)
	}
	if e.note("%d: restored, limit %d", e.clock.Load(), e.limit()); err != nil {
		e.fail("snapshot", "%v", err)
	}
}

// playEdited edits while goroutines ask, in one window: together they get no more than
// the highest limit of a key.
func playEdited(t *trial) {
	e, err := newEdited(t)
	if err != nil {
		t.fail("setup", "%v", err)
		return
	}
	const keys = 3
	var admitted [keys]atomic.Int64
	var done atomic.Bool
	var c crew
	for range t.b.workers {
		r := newRand(t.Uint64())
		c.start(func() {
			for !done.Load() {
				if key, n := r.IntN(keys), 1+r.IntN(3); e.ask(key, n) {
					admitted[key].Add(int64(n))
				}
			}
		})
	}
	for e.at < len(e.limits)-1 {
		for range t.IntN(10) {
			runtime.Gosched()
		}
		e.edit()
	}
	done.Store(true)
	c.Wait()
	for _, p := range c.panics {
		t.fail("panic", "%v", p)
	}
	t.steps += len(e.limits)
	e.dropped()
	for key := range keys {
		if n, most := admitted[key].Load(), slices.Max(e.limits); n > int64(most) && !e.dropped() {
			t.fail("over-admission", "%d units of key %d admitted in a window, the highest limit was %d", n, key, most)
		}
	}
}
