package main

import (
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
	"github.com/sketchlimit/sketchlimit/topkeys"
)

// The sets of a comparison's fates.
const (
	byToday = iota
	byNew
	byBoth
	onlyToday
	onlyNew
	fates
)

const (
	mostRefused = 1 << 20 // keys that are told apart
	topPlaces   = 4096
	topShown    = 10
)

// tally counts the fates of requests, in memory that is bounded.
type tally struct {
	requests, units [fates]uint64
	hash            sketchlimit.Hash
	keys            map[uint64]uint8 // by whom a key has been refused
	more            bool
	top             [fates]*topkeys.Top // of the last two
	name            []byte              // of a key in them
}

func newTally() *tally {
	t := &tally{hash: sketchlimit.KeyedHash(replaySeed), keys: map[uint64]uint8{}}
	for _, f := range []int{onlyToday, onlyNew} {
		t.top[f], _ = topkeys.New(topPlaces, math.MaxInt64) // never fails
	}
	return t
}

func (t *tally) add(q *whatif.Request, refused [2]bool) {
	today, next := refused[0], refused[1]
	if !today && !next {
		return
	}
	bits := uint8(0)
	for f, is := range [fates]bool{today, next, today && next, today && !next, next && !today} {
		if !is {
			continue
		}
		t.requests[f]++
		t.units[f] += uint64(q.Cost)
		if f <= byNew {
			bits |= 1 << f
		}
		if t.top[f] != nil {
			t.name = accesslog.AppendShort(t.name[:0], q.Key, topkeys.KeyBytes)
			t.top[f].AddAt(time.Unix(1, 0), "", t.name, 1)
		}
	}
	h := t.hash.Sum64(q.Key)
	if before, known := t.keys[h]; known || len(t.keys) < mostRefused {
		t.keys[h] = before | bits
	} else {
		t.more = true
	}
}

func (t *tally) result() *comparison {
	c := &comparison{}
	for f, by := range [fates]string{"today", "new", "both", "today only", "new only"} {
		c.Fates = append(c.Fates, fate{By: by, Requests: t.requests[f], Units: t.units[f], MoreKeys: t.more, Top: shownTop(t.top[f])})
	}
	for _, bits := range t.keys {
		for f, is := range [fates]bool{bits&1 != 0, bits&2 != 0, bits == 3, bits == 1, bits == 2} {
			if is {
				c.Fates[f].Keys++
			}
		}
	}
	return c
}

func shownTop(top *topkeys.Top) (all []whatif.HeavyKey) {
	if top == nil {
		return nil
	}
	for i, c := range top.ReportAt(time.Unix(1, 0)).Counts {
		if i == topShown {
			break
		}
		all = append(all, whatif.HeavyKey{Key: string(c.Key), Requests: c.Count, Error: c.Error})
	}
	return all
}
