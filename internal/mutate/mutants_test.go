package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every mutant's place is found once in the file that it names: code that changes takes its mutants along.
func TestEveryMutantHasItsPlace(t *testing.T) {
	for _, m := range slices.Concat(mutants, ofRules, ofServers) {
		source, err := os.ReadFile(filepath.Join("..", "..", m.file))
		require.NoError(t, err, m.name)
		require.Equal(t, 1, strings.Count(string(source), m.from), "%s: %q in %s", m.name, m.from, m.file)
		require.NotEqual(t, m.from, m.to, m.name)
	}
}
