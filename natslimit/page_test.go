package natslimit

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPage: the lines of docs/machines.md that use this package are those of the example,
// which compiles.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/machines.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	found := false
	for _, part := range strings.Split(string(page), "```go\n")[1:] {
		code, _, _ := strings.Cut(part, "```")
		if !strings.Contains(code, "natslimit.NewSynced(") {
			continue
		}
		found = true
		require.Contains(t, string(example), "\t"+strings.ReplaceAll(strings.TrimSpace(code), "\n", "\n\t"))
		require.LessOrEqual(t, strings.Count(code, "\n"), 10)
	}
	require.True(t, found)
}
