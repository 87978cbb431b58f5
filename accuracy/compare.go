package accuracy

import (
	"context"
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy/internal/ledger"
	"github.com/sketchlimit/sketchlimit/exact"
)

// AlgorithmRow is one exact algorithm beside the sliding log, both without any
// sketch. Counts are requests unless named otherwise.
type AlgorithmRow struct {
	Algorithm        string  `json:"algorithm"` // as people call it: "fixed window", "sliding window, 6 slots"
	Requests         uint64  `json:"requests"`
	AdmittedRequests uint64  `json:"admitted_requests"`
	AdmittedUnits    uint64  `json:"admitted_units"`
	LetThrough       uint64  `json:"let_through"`   // admitted, though the log would refuse after the same admitted history
	RefusedEarly     uint64  `json:"refused_early"` // refused, though the log would admit after the same admitted history; each retry counts
	PeakLoad         float64 `json:"peak_load"`     // most units admitted to one key within any span of one window / limit; above 1 is too many
	PeakTenth        float64 `json:"peak_tenth"`    // the same within any tenth of a window / limit: an even flow is 0.1
	Sample           Sample  `json:"sample"`        // the keys that all of this is of
}

// Compare runs the exact algorithms with the same limit and window over src, each on
// its own: sliding log, fixed window, sliding window, sliding window of 6 slots
// (5 … 2 if that cuts window evenly and 6 does not), and with a burst of limit GCRA,
// the token bucket whose tokens flow in evenly, which is the same by another
// arithmetic, and the one that is filled up once a window; GCRA with a burst of a
// tenth of limit. The sliding log comes first.
//
// Memory grows with the units admitted in a window. The algorithms judge each key by
// itself, so of a stream of more than Options.SampleAbove requests they are given the
// keys of a [Sample] alone.
func Compare(ctx context.Context, src Source, limit int, window time.Duration, o Options) ([]AlgorithmRow, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	runs, err := algorithms(limit, window)
	if err != nil {
		return nil, err
	}
	if _, err := firstTime(src); err != nil {
		return nil, err
	}
	keys, err := sampleOf(ctx, src, o.SampleAbove)
	if err != nil {
		return nil, err
	}
	var lanes []lane
	for _, r := range runs {
		r.keys = keys
		lanes = append(lanes, r)
	}
	if err := walk(ctx, src, window, o, lanes, nil); err != nil {
		return nil, err
	}
	rows := make([]AlgorithmRow, len(runs))
	for i, r := range runs {
		rows[i] = r.row
		rows[i].PeakLoad = float64(r.ledger.Peak) / float64(limit)
		rows[i].PeakTenth = float64(r.tenths.Peak) / float64(limit)
		rows[i].Sample = keys.of(r.row.Requests, r.all)
	}
	return rows, nil
}

// slotsOf is the number of slots, six at best, that window can be cut into evenly.
func slotsOf(window time.Duration) int {
	for slots := 6; slots > 2; slots-- {
		if window%time.Duration(slots) == 0 {
			return slots
		}
	}
	return 2
}

func algorithms(limit int, window time.Duration) (runs []*algorithmRun, err error) {
	slots := slotsOf(window)
	for _, a := range []struct {
		name  string
		build func() (exact.Limiter, error)
	}{
		{"sliding log", func() (exact.Limiter, error) { return exact.NewSlidingLog(limit, window) }},
		{"fixed window", func() (exact.Limiter, error) { return exact.NewFixedWindow(limit, window) }},
		{"sliding window", func() (exact.Limiter, error) { return exact.NewSlidingWindow(limit, window) }},
		{fmt.Sprintf("sliding window, %d slots", slots), func() (exact.Limiter, error) { return exact.NewSlots(limit, window, slots) }},
		{"GCRA", func() (exact.Limiter, error) { return exact.NewGCRA(limit, window, limit) }},
		{"GCRA, a tenth as burst", func() (exact.Limiter, error) { return exact.NewGCRA(limit, window, max(1, limit/10)) }},
		{"token bucket", func() (exact.Limiter, error) { return exact.NewTokenBucket(limit, window, limit) }},
		{"token bucket, in portions", func() (exact.Limiter, error) { return exact.NewDiscreteBucket(limit, window, limit) }},
	} {
		r := &algorithmRun{row: AlgorithmRow{Algorithm: a.name}, ledger: ledger.New(window), tenths: ledger.New(max(1, window/10))}
		if r.algorithm, err = a.build(); err != nil {
			return nil, err
		}
		if r.log, err = exact.NewSlidingLog(limit, window); err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// algorithmRun is one algorithm before a sliding log that knows what it has admitted.
// It is a lane.
type algorithmRun struct {
	row            AlgorithmRow
	all            uint64 // requests, of keys in the sample or not
	keys           keySample
	algorithm, log exact.Limiter
	ledger, tenths *ledger.Ledger // of a window, of a tenth of one
}

func (a *algorithmRun) run(batch []Request) {
	a.all += uint64(len(batch))
	for _, r := range batch {
		if !a.keys.has(r.Key) {
			continue
		}
		would := a.log.PeekAt(r.Time, r.Key, r.Cost).Allowed
		did := a.algorithm.TakeAt(r.Time, r.Key, r.Cost).Allowed
		a.row.Requests++
		if did {
			a.log.Charge(r.Time, r.Key, r.Cost)
			a.ledger.Add(r.Time, r.Key, r.Cost)
			a.tenths.Add(r.Time, r.Key, r.Cost)
			a.row.AdmittedRequests++
			a.row.AdmittedUnits += uint64(r.Cost)
		}
		switch {
		case did && !would:
			a.row.LetThrough++
		case !did && would:
			a.row.RefusedEarly++
		}
	}
}

func (a *algorithmRun) reset() {
	a.row, a.all = AlgorithmRow{Algorithm: a.row.Algorithm}, 0
	a.ledger.Peak, a.tenths.Peak = 0, 0
}
