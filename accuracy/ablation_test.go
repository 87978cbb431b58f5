package accuracy

import (
	"context"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy/internal/published"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ablate(t *testing.T, src Source, a Ablation) map[string]AblationRow {
	t.Helper()
	rows, err := Ablate(context.Background(), src, a, Options{})
	require.NoError(t, err)
	byStep := make(map[string]AblationRow)
	var steps []string
	for _, r := range rows {
		byStep[r.Step] = r
		steps = append(steps, r.Step)
		assert.Zero(t, r.OverAdmissions, r.Step)
		assert.InEpsilon(t, a.MemoryBytes, r.MemoryBytes, 0.15, r.Step) // a limiter is cut to what the heap hands out
		assert.LessOrEqual(t, r.MemoryBytes, a.MemoryBytes, r.Step)
		assert.NotEmpty(t, r.Layout)
		assert.NotEmpty(t, r.Change)
	}
	assert.Equal(t, []string{"published", "sketch_only", "conservative", "narrow_cells", "Bloom filter", "sketchlimit"}, steps)
	return byStep
}

// Each step helps. Seeds are fixed, so the figures are too: there is no chance in this
// test. The load is chosen so that no step is perfect but the last ones.
func TestEachStepOfTheAblationHelps(t *testing.T) {
	testkit.Computes(t)
	src := source(t, "scan:0.5,exponent=0.9,keys=5000,requests=100000,window=10s")
	r := ablate(t, src, Ablation{Limit: 20, Window: 10 * time.Second, MemoryBytes: 9 << 10})
	better := func(this, than string) {
		t.Helper()
		assert.Less(t, r[this].FalseDenials, r[than].FalseDenials, "%s, not %s", this, than)
		assert.LessOrEqual(t, r[this].LostShare, r[than].LostShare, "%s, not %s", this, than)
	}
	better("sketch_only", "published")
	better("conservative", "sketch_only")
	better("narrow_cells", "conservative")
	better("Bloom filter", "narrow_cells")
	better("sketchlimit", "published")
	for step, row := range r {
		t.Logf("%-13s %.2e %.2e", step, row.FalseDenialRate, row.LostShare)
	}
}

// Costs above one, and the limits where the arrangements change shape: at 1 the
// Bloom filter is all there is, at 15, 16, 255, 256 and 70,000 cells change their width.
// With more memory than keys nobody is wronged, so the arrangements count exactly.
func TestAblationCountsExactlyInAmpleMemory(t *testing.T) {
	for _, limit := range []int{1, 2, 15, 16, 17, 255, 256, 70_000} {
		src := source(t, "uniform,keys=5,requests=6000,cost=3,window=10s,windows=3")
		for step, row := range ablate(t, src, Ablation{Limit: limit, Window: 10 * time.Second, MemoryBytes: 1 << 16}) {
			assert.Zero(t, row.FalseDenials, "limit %d, %s", limit, step)
			assert.Zero(t, row.LostShare, "limit %d, %s", limit, step)
		}
	}
}

// The published code line by line: three of three units pass, the fourth does not, and
// the next window is a new one.
func TestPublishedArrangement(t *testing.T) {
	c := published.Config{Limit: 3, Window: 10 * time.Second, MemoryBytes: 4096, Seed: 1}
	l, err := published.New(c, 4, 32, published.Published)
	require.NoError(t, err)
	for _, step := range []struct {
		seconds float64
		n       int
		want    sketchlimit.Decision
	}{
		{1, 1, sketchlimit.Decision{Allowed: true, Limit: 3, Remaining: 2}},
		{2, 2, sketchlimit.Decision{Allowed: true, Limit: 3, Remaining: 0}},
		{3, 1, sketchlimit.Decision{Allowed: false, Limit: 3, Remaining: 0}},
		{10, 3, sketchlimit.Decision{Allowed: true, Limit: 3, Remaining: 0}},
		{20, 4, sketchlimit.Decision{Allowed: false, Limit: 3, Remaining: 0}},
		{20, 0, sketchlimit.Decision{Allowed: false, Limit: 3, Remaining: 0}},
		{20, 2, sketchlimit.Decision{Allowed: true, Limit: 3, Remaining: 1}},
		{20, 2, sketchlimit.Decision{Allowed: false, Limit: 3, Remaining: 1}},
	} {
		assert.Equal(t, step.want, l.TakeAt(at(step.seconds), "a", step.n), "%v", step)
	}
	assert.Equal(t, "Bloom filter 960 B, 4 × 180 cells of 32 bits", l.Layout())
}
