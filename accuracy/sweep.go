package accuracy

import (
	"context"
	"errors"
	"fmt"

	"github.com/sketchlimit/sketchlimit"
)

// SweepPoint is a limiter at one size.
type SweepPoint struct {
	AskedBytes int `json:"asked_bytes"` // Verdict.MemoryBytes is what it took
	Verdict
	WrongedKeys            int     `json:"wronged_keys"`
	LiveFalseDenialRateMax float64 `json:"live_false_denial_rate_max"`
	Sample                 Sample  `json:"sample"` // the keys judged
}

// Sweep measures the limiter that c describes at each of the sizes in bytes, in
// one pass over src. FalseDenialRate and Plan of c are left aside.
//
// Each size needs a judge of its own: memory grows with keys × sizes. Of a stream of
// more than Options.SampleAbove requests, the limiters see every request, but only the
// keys of a [Sample] are judged and counted, over-admissions included.
func Sweep(ctx context.Context, src Source, c sketchlimit.Config, bytes []int, o Options) ([]SweepPoint, error) {
	if len(bytes) == 0 {
		return nil, fmt.Errorf("accuracy: sweep: no sizes, must be at least one")
	}
	var contests []Contest
	for _, b := range bytes {
		sized := c
		sized.MemoryBytes, sized.FalseDenialRate, sized.Plan = b, 0, nil
		contests = append(contests, NewContest(sized))
	}
	trials, lone, err := race(ctx, src, contests, o)
	if err != nil {
		return nil, err
	}
	points := make([]SweepPoint, len(bytes))
	for i, t := range trials {
		points[i] = SweepPoint{bytes[i], t.verdict(lone), len(t.deniedKeys), t.liveMax, t.sample()}
	}
	return points, nil
}

// race runs several limiters over src side by side. They share limit, window and the
// kind of their oracle, so that one lone oracle serves them all.
func race(ctx context.Context, src Source, contests []Contest, o Options) (_ []*trial, _ *lone, err error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	first, err := firstTime(src)
	if err != nil {
		return nil, nil, err
	}
	keys, err := sampleOf(ctx, src, o.SampleAbove)
	if err != nil {
		return nil, nil, err
	}
	alone, err := newLone(contests[0], keys)
	if err != nil {
		return nil, nil, err
	}
	lanes := []lane{alone}
	var trials []*trial
	defer func() {
		for _, t := range trials {
			err = errors.Join(err, t.close())
		}
	}()
	for _, c := range contests {
		t, err := newTrial(c, first)
		if err != nil {
			return nil, nil, err
		}
		t.keys = keys
		trials, lanes = append(trials, t), append(lanes, t)
	}
	tally := func(batch []Request) {
		for _, t := range trials {
			t.tally(batch, alone)
		}
	}
	if err := walk(ctx, src, contests[0].Window, o, lanes, tally); err != nil {
		return nil, nil, err
	}
	for _, t := range trials {
		t.look(true)
	}
	return trials, alone, nil
}
