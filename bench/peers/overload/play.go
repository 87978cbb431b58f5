package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// bench is what is to be measured.
type bench struct {
	rows     []row
	scale    float64
	seeds    int             // the other limiters play with the first one only
	alone    bool            // without the other limiters
	stored   *store          // runs that have been played before, or nil
	workers  int             // runs at a time
	ctx      context.Context // once it is done, no run begins
	progress io.Writer
}

// result is what came of a row.
type result struct {
	row      row
	load     float64     // units that keys may use in the overload, over those of the plan
	heavy    float64     // keys that ask for more than the limit, over all keys of the plan
	outcomes [][]outcome // by limiter, ours first, and seed
}

// run is a row with a seed.
type run struct{ row, seed int }

// play plays all runs, seed by seed, the largest first. Every run has limiters of its
// own, so their order does not matter. When it is told to end before, seeds that not
// all rows have played are dropped.
func (b *bench) play() ([]result, error) {
	results := make([]result, len(b.rows))
	var runs []run
	for i, r := range b.rows {
		t := r.traffic(b.scale)
		results[i] = result{row: r, load: t.load(b.scale), heavy: t.heavy(b.scale), outcomes: make([][]outcome, len(b.kinds(0)))}
		for l := range ours {
			results[i].outcomes[l] = make([]outcome, b.seeds)
		}
		for seed := range b.seeds {
			runs = append(runs, run{i, seed})
		}
	}
	slices.SortStableFunc(runs, func(x, y run) int {
		return cmp.Or(cmp.Compare(x.seed, y.seed), cmp.Compare(b.size(y), b.size(x)))
	})
	ended, err := b.each(runs, func(r run, outcomes []outcome) {
		for l, o := range outcomes {
			if l < len(ours) {
				results[r.row].outcomes[l][r.seed] = o
			} else {
				results[r.row].outcomes[l] = []outcome{o}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if b.seeds = ended / len(b.rows); b.seeds == 0 {
		return nil, errors.New("interrupted before every row had played once")
	}
	for i := range results {
		for l := range ours {
			results[i].outcomes[l] = results[i].outcomes[l][:b.seeds]
		}
	}
	return results, nil
}

// size is about how long a run takes: with the other limiters, four times as long.
func (b *bench) size(r run) float64 {
	t := b.rows[r.row].traffic(b.scale)
	size := 0.0
	for i := range t.overload {
		size += t.overload[i].requests()
	}
	if len(b.kinds(r.seed)) > len(ours) {
		size *= 4
	}
	return size
}

// each plays runs, some at a time, and hands over what came of them one after another.
// It returns how many have ended: the first ones.
func (b *bench) each(runs []run, done func(run, []outcome)) (ended int, failed error) {
	var (
		mu      sync.Mutex // guards all below, and the results
		workers sync.WaitGroup
		begun   int
	)
	work := func() {
		for {
			mu.Lock()
			if failed != nil || begun == len(runs) || b.ctx.Err() != nil {
				mu.Unlock()
				return
			}
			r := runs[begun]
			begun++
			mu.Unlock()
			start := time.Now()
			id := identity{b.rows[r.row].String(), b.scale, r.seed}
			outcomes, known := b.stored.played(id, len(b.kinds(r.seed)))
			var err error
			if !known {
				outcomes, err = b.one(r)
			}
			mu.Lock()
			if err == nil && !known {
				err = b.stored.add(id, outcomes)
			}
			if err != nil {
				failed = err
			} else {
				ended++
				done(r, outcomes)
				fmt.Fprintf(b.progress, "%d of %d: %v, seed %d: %.1f s\n",
					ended, len(runs), b.rows[r.row], r.seed+1, time.Since(start).Seconds())
			}
			mu.Unlock()
		}
	}
	for range b.workers {
		workers.Go(work)
	}
	workers.Wait()
	return ended, failed
}

// one plays a run.
func (b *bench) one(r run) ([]outcome, error) {
	row, seed := b.rows[r.row], uint64(r.seed+1)
	var limiters []limiter
	for _, k := range b.kinds(r.seed) {
		l, err := k.build(setup{row.algorithm, k.overload, b.scale, seed})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		limiters = append(limiters, l)
	}
	j := newJudge(row.algorithm, row.traffic(b.scale), limiters)
	if err := j.run(seed); err != nil {
		return nil, err
	}
	return j.outcomes(), nil
}

// kinds returns those of the limiters that play with a seed, by its number.
func (b *bench) kinds(seed int) []kindOf {
	if seed > 0 || b.alone {
		return ours
	}
	return slices.Concat(ours, peers)
}

// load returns the units that keys use in a window of the overload, divided by those of
// the plan.
func (t *traffic) load(scale float64) (units float64) {
	for _, c := range t.overload {
		units += float64(c.keys) * min(c.units, limit)
	}
	return units / (plannedKeys * scale * plannedUse * headroom)
}

// heavy is the keys that ask for more than the limit, over all keys of the plan.
func (t *traffic) heavy(scale float64) float64 {
	return float64(t.keys-t.abusers) / (plannedKeys * scale)
}
