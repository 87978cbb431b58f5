package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tally is the requests of a run by key and window, and by crowd.
func tally(t *testing.T, traffic traffic, seed uint64) (byKey []map[int]int, units []int) {
	byKey = make([]map[int]int, 1+traffic.last()/slots)
	for i := range byKey {
		byKey[i] = make(map[int]int)
	}
	units = make([]int, len(byKey))
	last, ended := momentAt(0), 0
	traffic.each(seed, func(r request) {
		require.False(t, r.at.time.Before(last.time), "times go forward")
		require.Equal(t, ended, int(r.at.time.Sub(begin)/slot), "in its slot")
		last = r.at
		byKey[r.at.generation][r.key]++
		units[r.at.generation] += r.cost
	}, func(s int) {
		require.Equal(t, ended, s)
		ended++
	})
	require.Equal(t, traffic.last(), ended)
	return byKey, units
}

// Crowds send their requests, evenly to their keys, when they are to.
func TestTrafficHasItsRates(t *testing.T) {
	traffic := traffic{
		planned:  []crowd{{0, 1000, 20, 1, 0}, {3000, 10, 300, 1, 0}},
		overload: []crowd{{0, 3000, 40, 5, 0}, {3000, 10, 300, 1, 0}, {3010, 20, 3000, 1, 1500}},
		start:    300, keys: 3030, abusers: 3000,
	}
	byKey, units := tally(t, traffic, 1)
	require.Len(t, units, 10)
	light, heavy, late := 40.*3000, 300.*10, 3000.*20
	plannedUnits := 20.*1000 + heavy
	for window, want := range []float64{
		plannedUnits, .3*plannedUnits + .7*(light+heavy), light + heavy + .2*late, light + heavy + late,
		light + heavy + late, light + heavy + late, .3*(light+heavy+late) + .7*plannedUnits, plannedUnits, plannedUnits,
		.3 * plannedUnits,
	} {
		assert.InDelta(t, want, units[window], 10, "window %d", window)
	}
	for key := range 3030 {
		want := 8.
		switch {
		case key >= 3010:
			want = 3000
		case key >= 3000:
			want = 300
		}
		// A Poisson count of 8 is above 40 with a chance of 1e-15, and the others
		// within ten deviations.
		assert.InDelta(t, want, byKey[4][key], max(32, 10*math.Sqrt(want)), "key %d", key)
	}
	assert.Len(t, byKey[0], 1010, "the planned keys")
	again, _ := tally(t, traffic, 1)
	assert.Equal(t, byKey, again)
	other, _ := tally(t, traffic, 2)
	assert.NotEqual(t, byKey, other)
}

// A crowd's requests of a slot lie among those of the others.
func TestTrafficIsInterleaved(t *testing.T) {
	crowds := []crowd{{0, 10, 10_000, 1, 0}, {10, 10, 10_000, 1, 0}}
	traffic := traffic{planned: crowds, overload: crowds, keys: 20}
	changes, requests, former := 0, 0, 0
	traffic.each(1, func(r request) {
		if requests++; r.key/10 != former {
			changes, former = changes+1, r.key/10
		}
	}, func(int) {})
	assert.InDelta(t, 0.5, float64(changes)/float64(requests), 0.01)
}

// Keys send as many requests in a row as they are to, whoever sends between.
func TestRequestsInARow(t *testing.T) {
	usual := row{kind: byUnits, load: 4, abusers: 0.01, times: 3}
	inRows := usual
	inRows.burst = bursts{5, 20}
	assert.Equal(t, usual.String()+", 5 in a row, abusers 20 in a row", inRows.String())
	traffic := inRows.traffic(1. / 1024)
	var runs, requests, former [3]int // of innocent keys, and of both halves of the abusers
	traffic.each(1, func(r request) {
		who := 0
		if r.key >= traffic.abusers {
			who = 1 + (r.key-traffic.abusers)*2/(traffic.keys-traffic.abusers)
		}
		if requests[who]++; r.key != former[who] {
			runs[who]++
			former[who] = r.key
		}
	}, func(int) {})
	for who, want := range []float64{5, 20, 20} {
		assert.InEpsilon(t, want, float64(requests[who])/float64(runs[who]), 0.1)
	}
	same := usual.traffic(1. / 1024)
	assert.Equal(t, same.load(1./1024), traffic.load(1./1024))
}

func TestPhases(t *testing.T) {
	traffic := traffic{start: 700}
	for slot, want := range map[int]phase{
		0: planned, 1699: planned, 1700: early, 1799: early, 1800: late, 6699: late, 6700: after, 9699: after,
	} {
		assert.Equal(t, want, traffic.phaseOf(slot), "slot %d", slot)
	}
	assert.Equal(t, 9700, traffic.last())
	assert.Equal(t, moment{begin.Add(90 * time.Second), 1, 30 * time.Second}, momentAt(90*time.Second))
}

func TestNamesAreDistinct(t *testing.T) {
	seen := make(map[string]bool)
	for key := range 100_000 {
		seen[strings.Clone(name(new([nameBytes]byte), key))] = true
	}
	assert.Len(t, seen, 100_000)
}

// Rows bring the load that they say, and innocents stay innocent.
func TestRowsBringTheirLoad(t *testing.T) {
	const scale = 1. / 16
	rows := append(allRows(), mainRows()...)
	for _, r := range append(rows, quickRows()...) {
		traffic := r.traffic(scale)
		innocents, abusers, end := 0., 0, 0
		for _, c := range traffic.overload {
			require.Equal(t, end, c.first, "%v: crowds follow each other", r)
			end += c.keys
			if c.first < traffic.abusers {
				require.True(t, c.units < limit/2 || r.kind == byFlood, "%v", r)
				innocents += float64(c.keys) * c.units
			} else {
				require.Greater(t, c.units, float64(limit), "%v", r)
				abusers += c.keys
			}
		}
		require.Equal(t, traffic.keys, end, "%v", r)
		if r.kind == byFlood {
			continue
		}
		assert.InDelta(t, r.load*headroom*plannedKeys*plannedUse*scale, innocents, 100, "%v", r)
		assert.InDelta(t, r.abusers*float64(traffic.abusers), float64(abusers), 2, "%v", r)
		const plan = headroom * plannedUse * plannedKeys * scale
		assert.InDelta(t, r.load+r.abusers*limit*float64(traffic.abusers)/plan, traffic.load(scale), 0.01, "%v", r)
		units := 0.
		for _, c := range traffic.planned {
			units += float64(c.keys) * min(c.units, limit)
		}
		assert.InDelta(t, 0.5, units/plan, 0.03, "%v: planned", r)
	}
	flood := row{kind: byFlood, flooders: 1e6, asks: 300, abusers: 0.01, times: 3}.traffic(scale)
	assert.Equal(t, 62_500, flood.abusers)
	assert.InDelta(t, 0.5+2.5, flood.load(scale), 0.1)
}

func TestRowsAreDistinct(t *testing.T) {
	for _, rows := range [][]row{mainRows(), allRows(), quickRows()} {
		seen := make(map[string]bool)
		for _, r := range rows {
			assert.False(t, seen[r.String()], "%v", r)
			seen[r.String()] = true
		}
	}
	assert.Equal(t, "×4 by keys, 0.3 % ask 30 ×, from 70 %",
		row{load: 4, abusers: 0.003, times: 30, start: 70}.String())
	assert.Equal(t, "flood 65 k × 300, 1 % ask 3 ×, from 0 %, fixed",
		row{algorithm: 1, kind: byFlood, flooders: 65_536, asks: 300, abusers: 0.01, times: 3}.String())
}
