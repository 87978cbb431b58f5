package metrics

import (
	"context"
	"iter"
	"math"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/metrics/refresh"
)

// Limiter is a source of Stats: a [sketchlimit.Limiter], or a Rule of package rules. It
// must be safe for concurrent use.
type Limiter interface {
	Stats() sketchlimit.Stats
	Counters() sketchlimit.Stats // without what reads the cells
	MemoryBytes() int
}

// reading is a limiter's state at one time.
type reading struct {
	sketchlimit.Stats                    // its counters, of now
	cells             *sketchlimit.Stats // what was read of its cells last; nil: nothing yet
	bytes             int
	dropped           uint64
}

// ofCells returns a gauge that is computed from the cells; it is left out until they
// were read.
func ofCells(name, unit, help string, value func(*sketchlimit.Stats) float64) Of[*reading] {
	return ofLimiter(name, unit, Gauge, help, func(r *reading) float64 {
		if r.cells == nil {
			return math.NaN()
		}
		return value(r.cells)
	})
}

// dropper is a Limiter that may have dropped counts, as a Rule of package rules.
type dropper interface{ Dropped() uint64 }

func ofLimiter(name, unit string, kind Kind, help string, value func(*reading) float64) Of[*reading] {
	return Of[*reading]{Metric{name, help, unit, kind, []string{"limiter"}}, value}
}

var limiterTable = []Of[*reading]{
	ofLimiter("admitted_units", "{unit}", Counter, "Units admitted.",
		func(r *reading) float64 { return float64(r.Admitted) }),
	ofLimiter("denied_units", "{unit}", Counter, "Units denied, also where nobody heeds it: in shadow mode.",
		func(r *reading) float64 { return float64(r.Denied) }),
	ofLimiter("overdraft_units", "{unit}", Counter,
		"Units charged although they were not free; they are among those admitted.",
		func(r *reading) float64 { return float64(r.Overdraft) }),
	ofLimiter("too_low_requests", "{request}", Counter,
		"Requests with a limit below the lowest that the limiter is made for: all denied.",
		func(r *reading) float64 { return float64(r.TooLow) }),
	ofLimiter("dropped_counts", "{time}", Counter,
		"Times that counts of a rule were let go while they mattered, when it was changed: keys may have a fresh quota.",
		func(r *reading) float64 { return float64(r.dropped) }),
	ofLimiter("rotations", "{rotation}", Counter, "Times that a new generation has begun.",
		func(r *reading) float64 { return float64(r.Rotations) }),
	ofCells("false_denial_rate", "{denial}/{request}",
		"Chance, 0 to 1, that a key which the limiter has never seen is denied a request of mean cost now.",
		func(s *sketchlimit.Stats) float64 { return s.FalseDenialRate }),
	ofLimiter("audited_requests", "{request}", Counter,
		"Requests of light keys, which by the exact algorithm had used less than half of their limit, as a sample of the keys tells.",
		func(r *reading) float64 { return float64(r.Audit.Requests) }),
	ofLimiter("audited_units", "{unit}", Counter, "Units of these requests.",
		func(r *reading) float64 { return float64(r.Audit.Units) }),
	ofLimiter("audited_false_denials", "{request}", Counter, "Those of these requests that were denied wrongly.",
		func(r *reading) float64 { return float64(r.Audit.Denied) }),
	ofLimiter("audited_admitted_units", "{unit}", Counter, "Units admitted, as the sample tells.",
		func(r *reading) float64 { return float64(r.Audit.Admitted) }),
	ofLimiter("audited_exact_units", "{unit}", Counter, "Units that the exact algorithm alone would have admitted, as the sample tells.",
		func(r *reading) float64 { return float64(r.Audit.Exact) }),
	ofLimiter("audited_over_admitted_units", "{unit}", Counter,
		"Units of keys in the sample that were admitted beyond the limit: 0, or the limiter has a fault.",
		func(r *reading) float64 { return float64(r.Audit.OverAdmitted) }),
	ofLimiter("audited_share_ratio", "1", Gauge, "Share, 0 to 1, of all keys that are sampled and count now.",
		func(r *reading) float64 { return r.Audit.Share }),
	ofLimiter("mean_cost_units", "{unit}", Gauge, "Mean units of the requests admitted lately.",
		func(r *reading) float64 { return r.MeanCost }),
	ofCells("distinct_keys", "{key}", "Estimate of the keys admitted in the current generation.",
		func(s *sketchlimit.Stats) float64 { return s.DistinctKeys }),
	ofCells("bloom_fill_ratio", "1", "Share, 0 to 1, of bits set in the current Bloom filters.",
		func(s *sketchlimit.Stats) float64 { return s.BloomFill }),
	ofCells("sketch_fill_ratio", "1", "Share, 0 to 1, of cells above 0 in the current sketches.",
		func(s *sketchlimit.Stats) float64 { return s.SketchFill }),
	ofLimiter("outside_plan", "", Gauge,
		"1 while the limiter is not used as it was made for, see Stats.OutsidePlan; otherwise 0.",
		func(r *reading) float64 {
			if r.cells == nil && !r.OutsidePlan {
				return math.NaN()
			}
			return One(r.OutsidePlan || r.cells.OutsidePlan)
		}),
	ofLimiter("over_capacity", "", Gauge,
		"1 while a limiter with Overload DenyProven meets more than it was made for and denies only keys proven over it; else 0.",
		func(r *reading) float64 { return One(r.OverCapacity.Active) }),
	ofLimiter("over_capacity_times", "{time}", Counter, "Times that this has begun.",
		func(r *reading) float64 { return float64(r.OverCapacity.Times) }),
	ofLimiter("over_capacity_units", "{unit}", Counter,
		"Units admitted by shards over capacity, until they were exact again: no more than that was over-admitted.",
		func(r *reading) float64 { return float64(r.OverCapacity.Units) }),
	ofLimiter("memory", "By", Sum, "Memory that the limiter takes.",
		func(r *reading) float64 { return float64(r.bytes) }),
}

// Limiters returns the Source of limiters by name. It ranges over them anew at each
// read; names must differ. For package rules, pass the result of rules.Rules.Counting.
//
// Counts come from [sketchlimit.Limiter.Counters]. Metrics that need the cells are read
// at once for limiters of 2 MiB in all. For other limiters they are read in the
// background, one after another, in at most a tenth of a core, and left out until then.
func Limiters[L Limiter](limiters iter.Seq2[string, L]) *Source {
	var queue refresh.Queue
	cells := map[string]*refresh.Value[*sketchlimit.Stats]{} // by name
	return NewSource(All(limiterTable), func(context.Context) (list []Sample, _ error) {
		now, before := queue.Start(), cells
		cells = make(map[string]*refresh.Value[*sketchlimit.Stats], len(before))
		for name, l := range limiters {
			r := reading{Stats: l.Counters(), bytes: l.MemoryBytes()}
			if cells[name] = before[name]; cells[name] == nil {
				cells[name] = new(refresh.Value[*sketchlimit.Stats])
			}
			r.cells, _ = refresh.Get(&now, cells[name], r.bytes, func() *sketchlimit.Stats {
				stats := l.Stats()
				return &stats
			})
			if d, ok := any(l).(dropper); ok {
				r.dropped = d.Dropped()
			}
			list = Append(list, limiterTable, &r, name)
		}
		return list, nil
	})
}
