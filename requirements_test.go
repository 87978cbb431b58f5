package sketchlimit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever imports the limiter gets these modules and no more.
func TestRootRequirements(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	var direct []string
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); strings.HasPrefix(line, "\t") && !strings.Contains(line, "// indirect") {
			direct = append(direct, f[0])
		}
	}
	require.Equal(t, []string{
		"github.com/bits-and-blooms/bitset",
		"github.com/cespare/xxhash/v2",
		"github.com/stretchr/testify",
	}, direct)
}
