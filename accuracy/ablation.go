package accuracy

import (
	"context"
	"time"
)

// Ablation is what the arrangements of [Ablate] have in common.
type Ablation struct {
	Limit       int           `json:"limit"`
	Window      time.Duration `json:"window_ns"`
	MemoryBytes int           `json:"memory_bytes"` // for everything, the same in every row
	Seed        uint64        `json:"seed"`
}

// AblationRow is one arrangement: what it changes from the row above, and how it
// did.
type AblationRow struct {
	Step   string `json:"step"`   // "published", "sketch_only", "conservative", "narrow_cells", "doorkeeper", "sketchlimit"
	Change string `json:"change"` // in words
	Layout string `json:"layout"` // "Bloom 64 KiB + 4 × 12288 cells of 32 bits"
	Verdict
}

// Ablate takes the arrangement that is often published and improves it step by
// step, all at equal memory and all with fixed windows, so that one exact
// algorithm judges them all. Every arrangement hashes with xxhash and a seed of
// its own for each row: the arrangement is what is compared, not the hash.
func Ablate(ctx context.Context, src Source, a Ablation, o Options) ([]AblationRow, error) {
	panic("todo")
}
