package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSaysWhereItWrote: the path is absolute, and it does not get into the JSON object.
func TestSaysWhereItWrote(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)

	o := command(nil, append(small, "--html", "page.html", "--json")...)
	require.Equal(t, 0, o.status, o.err)
	assert.Equal(t, "sketchlimit: wrote "+filepath.Join(here, "page.html")+"\n", o.err)
	assert.FileExists(t, "page.html")
	assert.True(t, json.Valid([]byte(o.out)))

	o = command(nil, small...)
	require.Equal(t, 0, o.status, o.err)
	assert.Empty(t, o.err, "nothing was written")

	o = command(nil, "report", "--html", filepath.Join("missing", "page.html"))
	assert.Equal(t, 1, o.status)
	assert.NotContains(t, o.err, "wrote")
}

// TestVersionFlag: tests are built without the revision, unless -buildvcs=true asks for
// it.
func TestVersionFlag(t *testing.T) {
	o := command(nil, "--version")
	require.Equal(t, 0, o.status, o.err)
	assert.Regexp(t, `^sketchlimit (\(devel\)|v\d\S+)\n$`, o.out)
	assert.Empty(t, o.err)
}
