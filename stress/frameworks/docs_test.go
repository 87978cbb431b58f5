package frameworks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each line of code that docs/frameworks.md shows is one of an example that is run.
func TestDocsShowExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/frameworks.md")
	require.NoError(t, err)
	examples, err := filepath.Glob("../../contrib/*/*_test.go")
	require.NoError(t, err)
	older, err := filepath.Glob("../../examples/adapters/*_test.go")
	require.NoError(t, err)
	run := map[string]bool{"...": true}
	for _, name := range append(examples, older...) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			run[strings.TrimSpace(line)] = true
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 6)
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			require.True(t, run[strings.TrimSpace(line)], line)
		}
	}
}
