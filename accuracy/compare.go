package accuracy

import (
	"context"
	"time"
)

// AlgorithmRow is one exact algorithm beside the sliding log, both without any
// sketch. Counts are requests unless named otherwise.
type AlgorithmRow struct {
	Algorithm        string  `json:"algorithm"` // as people call it: "fixed window", "slots (6)"
	Requests         uint64  `json:"requests"`
	AdmittedRequests uint64  `json:"admitted_requests"`
	AdmittedUnits    uint64  `json:"admitted_units"`
	LetThrough       uint64  `json:"let_through"`   // admitted, though the log would refuse after the same admitted history
	RefusedEarly     uint64  `json:"refused_early"` // refused, though the log would admit after the same admitted history
	PeakLoad         float64 `json:"peak_load"`     // most units admitted to one key in any span of one window / limit; above 1 is too many
}

// Compare runs the exact algorithms with the same limit and window over src, each
// alone: sliding log, fixed window, sliding window, sliding window of 6 slots,
// token bucket (GCRA) with a burst of limit.
func Compare(ctx context.Context, src Source, limit int, window time.Duration, o Options) ([]AlgorithmRow, error) {
	panic("todo")
}
