package accuracy

import (
	"context"

	"github.com/sketchlimit/sketchlimit"
)

// SweepPoint is the limiter at one size.
type SweepPoint struct {
	AskedBytes int `json:"asked_bytes"` // Verdict.MemoryBytes is what it took
	Verdict
	LiveFalseDenialRateMax float64 `json:"live_false_denial_rate_max"`
}

// Sweep measures the limiter that c describes at each of the sizes in bytes, in
// one pass over src. Keys, FalseDenialRate and Plan of c are left aside. Each size
// needs a judge of its own: memory grows with keys × sizes.
func Sweep(ctx context.Context, src Source, c sketchlimit.Config, bytes []int, o Options) ([]SweepPoint, error) {
	panic("todo")
}
