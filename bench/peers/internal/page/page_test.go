package page

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplaceChangesNothingElse(t *testing.T) {
	before := "# Title\n\n<!-- peers:begin -->\nold\n<!-- peers:end -->\ntext\n<!-- latency:begin --><!-- latency:end -->\nend"
	after, err := Replace([]byte(before), "peers", "| a |\n")
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n<!-- peers:begin -->\n| a |\n<!-- peers:end -->\ntext\n<!-- latency:begin --><!-- latency:end -->\nend", string(after))
	after, err = Replace(after, "latency", "b\n")
	require.NoError(t, err)
	assert.Equal(t, "# Title\n\n<!-- peers:begin -->\n| a |\n<!-- peers:end -->\ntext\n<!-- latency:begin -->\nb\n<!-- latency:end -->\nend", string(after))
	again, err := Replace(after, "latency", "b\n")
	require.NoError(t, err)
	assert.Equal(t, string(after), string(again))
}

func TestReplaceNeedsItsMarkers(t *testing.T) {
	for document, want := range map[string]string{
		"":                     "marker <!-- peers:begin -->: found 0 times, must be there once",
		"<!-- peers:begin -->": "marker <!-- peers:end -->: found 0 times, must be there once",
		"<!-- peers:begin --><!-- peers:begin --><!-- peers:end -->":   "marker <!-- peers:begin -->: found 2 times, must be there once",
		"<!-- peers:end --><!-- peers:begin -->":                       "marker <!-- peers:end -->: must come after <!-- peers:begin -->",
		"<!-- latency:begin --><!-- latency:end --><!-- peers:end -->": "marker <!-- peers:begin -->: found 0 times, must be there once",
	} {
		_, err := Replace([]byte(document), "peers", "text")
		assert.EqualError(t, err, want, "%q", document)
	}
}

func TestGrouped(t *testing.T) {
	assert.Equal(t, "999", Grouped(999))
	assert.Equal(t, "1,000,000", Grouped(1e6))
	assert.Equal(t, "60,000", Grouped(60_000))
}

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	require.NoError(t, os.WriteFile(path, []byte("<!-- a:begin --><!-- a:end -->"), 0o600))
	_, err := Open(path, "a", "b")
	require.EqualError(t, err, path+": marker <!-- b:begin -->: found 0 times, must be there once")
	_, err = Open(path+"x", "a")
	require.ErrorIs(t, err, os.ErrNotExist)
	r, err := Open(path, "a")
	require.NoError(t, err)
	require.Equal(t, "![c](p/x.png)\n\n", r.Picture("c", filepath.Join(filepath.Dir(path), "p", "x.png")))
	require.Empty(t, r.Picture("c", ""))
	require.NoError(t, r.Write("a", "text\n"))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "<!-- a:begin -->\ntext\n<!-- a:end -->", string(after))
	require.EqualError(t, r.Write("b", ""), path+": marker <!-- b:begin -->: found 0 times, must be there once")

	none, err := Open("", "a")
	require.NoError(t, err)
	require.Empty(t, none.Picture("c", "x.png"))
	require.NoError(t, none.Write("a", "text"))
}
