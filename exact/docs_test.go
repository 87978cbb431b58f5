package exact

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The rows of docs/algorithms.md on waiting are what the algorithms say.
func TestDocsRowsOnWaiting(t *testing.T) {
	page, err := os.ReadFile("../docs/algorithms.md")
	require.NoError(t, err)
	four := func(limit int, window time.Duration) []Limiter {
		return []Limiter{
			must(NewSlidingWindow(limit, window)), must(NewSlots(limit, window, 6)),
			must(NewFixedWindow(limit, window)), must(NewGCRA(limit, window, limit)),
		}
	}
	for _, minutes := range []int{0, 7, 14} {
		row := fmt.Sprintf("| 12:%02d |", minutes)
		at := noon.Add(time.Duration(minutes) * time.Minute)
		for _, l := range four(5, 15*time.Minute) {
			require.True(t, l.TakeAt(at, "key", 5).Allowed)
			row += fmt.Sprintf(" %v, %v |", l.PeekAt(at, "key", 1).RetryAfter, l.PeekAt(at, "key", 5).RetryAfter)
		}
		require.Contains(t, string(page), "\n"+row+"\n")
	}
	for _, limit := range []int{1, 2, 5, 100} {
		row := fmt.Sprintf("| %d |", limit)
		for _, l := range four(limit, time.Minute) {
			admitted, sent := 0, 100*limit
			for i := range sent {
				if l.TakeAt(noon.Add(time.Duration(i)*time.Minute/time.Duration(limit)), "key", 1).Allowed {
					admitted++
				}
			}
			row += fmt.Sprintf(" %.0f %% |", 100*float64(admitted)/float64(sent))
		}
		require.Contains(t, string(page), "\n"+row+"\n")
	}
}

// The code of docs/recipes.md is that of the examples.
func TestDocsRecipesAreTheExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/recipes.md")
	require.NoError(t, err)
	examples, err := os.ReadFile("recipes_test.go")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```go\n")[1:]
	checked := 0
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "exact.New") {
			continue // httplimit checks it
		}
		checked++
		for line := range strings.Lines(block) {
			require.Contains(t, string(examples), line)
		}
	}
	require.Equal(t, 3, checked)
}
