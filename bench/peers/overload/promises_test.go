package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sketchlimit/sketchlimit"
)

// kept returns what came of a limiter that keeps every promise.
func kept(o sketchlimit.Overload) outcome {
	k := outcome{innocents: [phases]uint64{1000, 1000, 10_000, 1000}, excess: excess{1, 1, 1}, keys: 50}
	k.entries = 100
	if o == sketchlimit.Deny {
		k.switched, k.denied[late] = math.NaN(), 5000
	} else {
		k.switched, k.spared, k.state = 0.4, 100, sketchlimit.OverCapacity{Units: 100}
	}
	return k
}

// Where Deny denies few, there is nothing to spare anybody from: DenyProven must only
// not be worse.
func TestSpareIsHeldAgainstDenyWhereDenyDeniesFew(t *testing.T) {
	few := func(o sketchlimit.Overload, denied uint64) []outcome {
		k := kept(o)
		k.innocents[late], k.denied[late] = 10_000, denied
		return []outcome{k}
	}
	for _, c := range []struct {
		deny, spare uint64
		want        []string
	}{
		{100, 100, nil},
		{100, 110, nil},
		{100, 111, []string{": DenyProven denied 1.1e-02 of innocents' requests after the first tenth, must be ≤ 1.1e-02"}},
		{101, 100, []string{": DenyProven denied 1.0e-02 of innocents' requests after the first tenth, must be ≤ 1.0e-04"}},
		{0, 1, nil},
		{0, 2, []string{": DenyProven denied 2.0e-04 of innocents' requests after the first tenth, must be ≤ 1.0e-04"}},
	} {
		r := result{row: row{load: 1.3, abusers: 0.01, times: 3}, load: 1.3, heavy: 0.01,
			outcomes: [][]outcome{few(sketchlimit.Deny, c.deny), few(sketchlimit.DenyProven, c.spare)}}
		for i := range c.want {
			c.want[i] = r.row.String() + c.want[i]
		}
		grave, others := r.broken()
		assert.Empty(t, grave)
		assert.Equal(t, c.want, others)
	}
}

// Each of these breaks one promise of a row that keeps them all.
func TestBrokenPromisesAreNamed(t *testing.T) {
	const deny, spare = sketchlimit.Deny, sketchlimit.DenyProven
	for _, c := range []struct {
		load    float64
		heavy   float64
		limiter sketchlimit.Overload
		spoil   func(*outcome)
		grave   bool
		want    string
	}{
		{2, 0.01, spare, func(o *outcome) {}, false, ""},
		{2, 0.01, deny, func(o *outcome) { o.over = 7 }, true,
			"sketchlimit, Deny admitted 7 units beyond the limit while it spared nobody"},
		{2, 0.01, spare, func(o *outcome) { o.over = 1 }, true,
			"sketchlimit, DenyProven admitted 1 units beyond the limit while it spared nobody"},
		{2, 0.01, spare, func(o *outcome) { o.spared = 103 }, true,
			"sketchlimit, DenyProven admitted 3 units too much that Stats does not count"},
		{2, 0.01, spare, func(o *outcome) { o.switched = math.NaN() }, true, "DenyProven was never over capacity"},
		{1.9, 0.01, spare, func(o *outcome) { o.switched = math.NaN() }, false, ""},
		{1, 0.01, spare, func(o *outcome) {}, false, "DenyProven was over capacity within the plan"},
		{1, 0.02, spare, func(o *outcome) {}, false, ""},
		{2, 0.01, spare, func(o *outcome) { o.switched = -0.01 }, true, "DenyProven was over capacity before the overload"},
		{2, 0.01, deny, func(o *outcome) { o.denied[late] = 20 }, false,
			"Deny denied 2.0e-03 of innocents' requests, more than 1e-2 was expected"},
		{2, 0.01, spare, func(o *outcome) { o.denied[early] = 2 }, false,
			"DenyProven denied 2.0e-03 of innocents' requests in the first tenth, must be ≤ 1e-3"},
		{2, 0.01, spare, func(o *outcome) { o.denied[late] = 2 }, false,
			"DenyProven denied 2.0e-04 of innocents' requests after the first tenth, must be ≤ 1.0e-04"},
		{1.3, 0.01, spare, func(o *outcome) { o.denied[late] = 2 }, false,
			"DenyProven denied 2.0e-04 of innocents' requests after the first tenth, must be ≤ 1.0e-04"},
		{2, 0.01, spare, func(o *outcome) { o.excess.mean = 1.5 }, false,
			"abusers got 1.50 times what is theirs, must be at most 1.3 with 0.50 abusers an entry"},
		{2, 0.01, spare, func(o *outcome) { o.excess.mean, o.keys = 1.5, 51 }, false, ""},
		{2, 0.01, spare, func(o *outcome) { o.excess.mean, o.keys = 3.5, 100 }, false,
			"abusers got 3.50 times what is theirs, must be at most 3 with 1.00 abusers an entry"},
		{2, 0.01, spare, func(o *outcome) { o.excess.mean, o.keys = 9, 101 }, false, ""},
		{2, 0.01, spare, func(o *outcome) { o.lasting = true }, false,
			"DenyProven may admit too much 3 windows after the overload"},
	} {
		r := result{row: row{load: c.load, abusers: 0.01, times: 3}, load: c.load, heavy: c.heavy}
		for _, setting := range []sketchlimit.Overload{deny, spare} {
			good, other := kept(setting), kept(setting)
			if setting == c.limiter {
				c.spoil(&other)
				good.innocents, good.denied = [phases]uint64{}, [phases]uint64{} // nobody beside those of the other
				good.excess.mean = other.excess.mean
			}
			r.outcomes = append(r.outcomes, []outcome{good, other})
		}
		got, rest := r.broken()
		if !c.grave {
			got, rest = rest, got
		}
		assert.Empty(t, rest)
		if c.want == "" {
			assert.Empty(t, got)
		} else {
			assert.Equal(t, []string{r.row.String() + ": " + c.want}, got)
		}
	}
}
