package accuracy

import (
	"fmt"
	"math"

	"github.com/sketchlimit/sketchlimit/tune"
)

// WorkloadOf is so many windows, of a minute each and with seed 1, of the traffic, even
// and steady, that [tune.Plan] plans for at a limit. A workload has one shape: abusers
// come with even traffic beside them only, and a sample's counts cannot be made up.
func WorkloadOf(t tune.Traffic, limit, windows int) (Workload, error) {
	or(&t.Excess, 3) // as Traffic says, and five requests a key
	abusers := int(math.Round(t.Abusers * float64(t.Keys)))
	or(&t.Requests, int((5*float64(t.Keys)+float64(abusers)*t.Excess*float64(limit))/(1-t.OneHit)))
	w := Workload{Kind: Uniform, Keys: t.Keys, Requests: windows * t.Requests, Windows: windows, Seed: 1, Exponent: t.Exponent}
	switch {
	case len(t.Sample) > 0:
		return Workload{}, fmt.Errorf("accuracy: Traffic.Sample of %d keys, has no workload", len(t.Sample))
	case t.Late:
		return Workload{}, fmt.Errorf("accuracy: Traffic.Late, has no workload: go run ./bench/late")
	case abusers > 0 && (t.Exponent > 0 || t.OneHit > 0):
		return Workload{}, fmt.Errorf("accuracy: Traffic.Abusers %g, goes with even traffic only, not with Exponent or OneHit", t.Abusers)
	case abusers > 0 && abusers == t.Keys:
		return Workload{}, fmt.Errorf("accuracy: Traffic.Abusers %g, must leave other keys", t.Abusers)
	case abusers > 0:
		w.Kind, w.Limit, w.Factor, w.Abusers = Attack, limit, t.Excess, abusers
		w.Keys -= abusers
	case t.OneHit > 0:
		w.Kind, w.OneHit = Scan, t.OneHit
	case t.Exponent > 0:
		w.Kind = Zipf
	}
	return w, nil
}
