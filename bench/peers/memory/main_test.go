package main

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README describes the picture by today's figures.
func TestReadmeDescribesThePicture(t *testing.T) {
	f, err := readFigures("../../../notes")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(string(readme)), " "), "!["+f.description()+"](docs/memory.png)")
}

// The picture is what the program draws. Other processors may round differently.
func TestPictureIsCurrent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.png")
	var out, errOut strings.Builder
	require.NoError(t, execute([]string{"-notes", "../../../notes", "-plot", file}, &out, &errOut))
	require.Contains(t, out.String(), "Memory for a million keys")
	drawn, shown := decode(t, file), decode(t, "../../../docs/memory.png")
	require.Equal(t, shown.Bounds(), drawn.Bounds())
	if runtime.GOARCH == "amd64" {
		require.Equal(t, shown, drawn, "draw docs/memory.png again, as doc.go says")
	}
}

func decode(t *testing.T, file string) image.Image {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	m, err := png.Decode(f)
	require.NoError(t, err)
	return m
}

func TestFiguresAreFound(t *testing.T) {
	peers := [][]string{
		{"limiter", "1e6 keys", "bytes a key at 1e6 / 1e7 keys", "GC"},
		{"---", "---", "---", "---"},
		{"throttled v2.15.0, memstore", "9 × (1 / 2)", "76 / 82 × (80 / 69)", "1 s"},
		{"x/time/rate v0.14.0", "1 × (1 / 1)", "unknown", "1 s"},
	}
	bytes, err := bytesPerKey(peers, "throttled")
	require.NoError(t, err)
	require.EqualValues(t, 80, bytes)
	for _, name := range []string{"x/time/rate", "thrott", "limiter"} {
		_, err = bytesPerKey(peers, name)
		require.EqualError(t, err, `peers.md: no bytes a key of "`+name+`"`)
	}

	fourways := [][]string{{"a", "1.5 MiB", "2 MiB", "29.12 %", "0.009 %"}, {"b", "1.5 MiB", "2 MiB", "much", "0"}}
	o, err := attackOn(fourways, "a")
	require.NoError(t, err)
	require.Equal(t, outcome{quiet: 1.5, end: 2, passed: 29.12, refused: 0.009}, o)
	_, err = attackOn(fourways, "b")
	require.ErrorContains(t, err, `parsing "much"`)
	_, err = attackOn(fourways, "c")
	require.EqualError(t, err, `fourways.md: no row "c"`)
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"file"}, `unexpected argument "file"`},
		{[]string{"-notes", "nowhere"}, "no such file"},
		{[]string{"-notes", "../../../notes", "-plot", "nowhere/a.png"}, "no such file"},
	} {
		var out, errOut strings.Builder
		require.ErrorContains(t, execute(c.args, &out, &errOut), c.want)
	}
}
