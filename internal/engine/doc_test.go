package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocListsEveryFile(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if file != "doc.go" && !strings.HasSuffix(file, "_test.go") {
			require.True(t, regexp.MustCompile(`\b`+file+`\b`).Match(doc), file)
		}
	}
}
