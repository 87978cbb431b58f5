package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// built returns a limiter of a kind, by its place among ours and the peers, for 20
// keys, or 10 entries of the LRU.
func built(t *testing.T, kind kindOf) limiter {
	scale := 1e-5
	if kind.name == peers[0].name {
		scale = 10.5 / lruEntries
	}
	l, err := kind.build(setup{sketchlimit.SlidingWindow, kind.overload, scale, 1})
	require.NoError(t, err)
	return l
}

// admitted is how many of some requests a limiter admits to a key at a time.
func admitted(l limiter, at moment, key string, requests int) (n int) {
	for range requests {
		if l.take(at, key, 1) {
			n++
		}
	}
	return n
}

func TestLimitersAdmitTheLimit(t *testing.T) {
	for _, kind := range append(append([]kindOf{}, ours...), peers...) {
		l, at := built(t, kind), momentAt(window/2)
		assert.Equal(t, limit, admitted(l, at, "a", 3*limit), kind.name)
		assert.Equal(t, limit/2, admitted(l, at, "b", limit/2), kind.name)
		assert.False(t, l.take(at, "b", limit/2+1), kind.name)
		assert.True(t, l.take(at, "b", limit/2), kind.name)
		if s, ok := l.(sketch); ok {
			require.NoError(t, s.Close())
		}
	}
}

// When there are more keys than entries, each of the others goes wrong in its own way.
func TestLimitersWhenFull(t *testing.T) {
	at := momentAt(0)
	for i, want := range []struct{ again, newcomer, held int }{
		{again: limit, newcomer: limit, held: 10},
		{again: 0, newcomer: 3 * limit, held: 20},
		{again: 0, newcomer: 0, held: 20},
		{again: 0, newcomer: limit, held: 52},
	} {
		bytesOf.lru, bytesOf.table, bytesOf.rates = 1, 1, 1
		l, name := built(t, peers[i]), peers[i].name
		require.Equal(t, limit, admitted(l, at, "first", 3*limit), name)
		for key := range 50 {
			l.take(at, strconv.Itoa(key), 1)
		}
		assert.Equal(t, want.newcomer, admitted(l, at, "newcomer", 3*limit), name)
		assert.Equal(t, want.again, admitted(l, at, "first", 3*limit), name)
		assert.Equal(t, want.held, l.memory(), name)
	}
}

// A full table has room again when what it holds is two windows old.
func TestTableForgetsOldWindows(t *testing.T) {
	l := built(t, peers[2])
	for key := range 20 {
		require.True(t, l.take(momentAt(0), strconv.Itoa(key), 1))
	}
	require.False(t, l.take(momentAt(window), "new", 1))
	assert.True(t, l.take(momentAt(2*window), "new", 1))
}

func TestBytesOfEntries(t *testing.T) {
	require.NoError(t, measureBytes())
	for name, bytes := range map[string]int{"LRU": bytesOf.lru, "table": bytesOf.table, "x/time/rate": bytesOf.rates} {
		assert.Greater(t, bytes, 40, name)
		assert.Less(t, bytes, 400, name)
	}
}

// This library never admits too much within its plan, and says what it takes.
func TestSketchIsJudged(t *testing.T) {
	const scale = 1. / 1024
	within := row{load: 1, abusers: 0.01, times: 3}
	deny := 0.
	for _, kind := range ours {
		l, err := kind.build(setup{within.algorithm, kind.overload, scale, 1})
		require.NoError(t, err)
		j := newJudge(within.algorithm, within.traffic(scale), []limiter{l})
		require.NoError(t, j.run(1))
		o := j.outcomes()[0]
		assert.Zero(t, o.over)
		assert.Less(t, denials([]outcome{o}, late), 1e-4)
		if kind.overload == sketchlimit.Deny {
			deny = o.excess.mean
			assert.InDelta(t, 1, deny, 0.02)
		}
		assert.InDelta(t, deny, o.excess.mean, 0.01, "within the plan both are the same but for the rounding of their sizes")
		assert.Greater(t, o.memory, 2*plannedKeys/1024)
		assert.Greater(t, o.entries, 10)
		assert.True(t, o.state.Since.Equal(time.Time{}), "it spares nobody")
	}
}
