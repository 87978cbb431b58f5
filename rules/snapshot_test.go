package rules_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

const kept = `
domain: api
descriptors:
  - {key: fixed, rate_limit: {unit: hour, requests_per_unit: 5, keys: 1000}}
  - {key: sliding, rate_limit: {unit: hour, requests_per_unit: 5, algorithm: sliding_window, memory: 64KiB}}
  - {key: bucket, rate_limit: {unit: hour, requests_per_unit: 5, algorithm: token_bucket, keys: 1000}}
  - {key: shared, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: open, rate_limit: {unlimited: true}}
`

// restarted returns rules of a text that begin with what others have saved.
func (l *loaded) restarted(t *testing.T, folder, text string) (*loaded, error) {
	t.Helper()
	next := &loaded{clock: l.clock, file: l.file}
	next.write(t, text)
	var err error
	next.Rules, err = rules.Options{
		MaxMemoryBytes: 64 << 20, SharedBytes: 1 << 20, OverrideBytes: 64 << 10, Clock: l.clock.read,
	}.Load(l.file)
	require.NoError(t, err)
	return next, next.Restore(folder)
}

func (l *loaded) left(t *testing.T, keys ...string) (left []int) {
	t.Helper()
	for _, key := range keys {
		left = append(left, l.Do("api", ask(0, key+"=ann")).Statuses[0].Remaining)
	}
	return left
}

func TestSnapshots(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "counts")
	empty := &loaded{clock: &clock{time.Unix(0, 0)}, file: filepath.Join(t.TempDir(), "rules.yaml")}
	l, err := empty.restarted(t, folder, kept)
	require.ErrorIs(t, err, fs.ErrNotExist)
	all := []string{"fixed", "sliding", "bucket", "shared"}
	own := rules.Ask{Descriptor: descriptor("user=ann"), N: 3, Override: &rules.Override{Limit: 7, Window: time.Hour}}
	for i, key := range all {
		require.True(t, l.Do("api", ask(i+1, key+"=ann"), own).Admitted || i > 1)
	}
	require.NoError(t, l.Save(folder))
	require.NoError(t, l.Save(folder))
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 1+4+7, "what was saved before is gone")

	next, err := l.restarted(t, folder, kept)
	require.NoError(t, err)
	require.Equal(t, []int{4, 3, 5, 5}, next.left(t, all...))
	own.N = 0
	require.Equal(t, 1, next.Do("api", own).Statuses[0].Remaining)
	require.Equal(t, l.MemoryBytes(), next.MemoryBytes())

	// Another limit, size or rule after the restart.
	changed := strings.NewReplacer("5, keys: 1000", "9, keys: 2000", "memory: 64KiB", "memory: 32KiB", "key: bucket", "key: other").Replace(kept)
	next, err = l.restarted(t, folder, changed)
	require.NoError(t, err)
	require.Equal(t, []int{8, 3, 5}, next.left(t, "fixed", "sliding", "other"))
	require.NoError(t, next.Save(folder), "with former limiters")
	next, err = l.restarted(t, folder, changed)
	require.NoError(t, err)
	require.Equal(t, []int{8, 3, 5}, next.left(t, "fixed", "sliding", "other"))
	next, err = l.restarted(t, folder, kept)
	require.NoError(t, err)
	require.Equal(t, []int{4, 3, 5}, next.left(t, "fixed", "sliding", "bucket"))

	// One file is damaged; all others are restored.
	require.NoError(t, l.Save(folder))
	files, err = os.ReadDir(folder)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(folder, files[0].Name()), 100))
	next, err = l.restarted(t, folder, kept)
	require.ErrorIs(t, err, sketchlimit.ErrSnapshot)
	require.ErrorContains(t, err, "rules: api.fixed: ")
	require.Equal(t, []int{5, 3}, next.left(t, "fixed", "sliding"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "index.json"), []byte("[{"), 0o600))
	_, err = l.restarted(t, folder, kept)
	require.ErrorContains(t, err, "rules: index.json: ")

	require.NoError(t, l.Save(folder))
	l.clock.now = l.clock.now.Add(2 * time.Hour)
	next, err = l.restarted(t, folder, kept)
	require.NoError(t, err)
	require.Equal(t, []int{5, 5, 5, 5}, next.left(t, all...))
}

// An index that asks for more memory than there may be does not get it.
func TestSnapshotOfTooMuch(t *testing.T) {
	folder := t.TempDir()
	l, err := (&loaded{clock: &clock{time.Unix(0, 0)}, file: filepath.Join(t.TempDir(), "rules.yaml")}).restarted(t, folder, kept)
	require.Error(t, err)
	require.NoError(t, l.Save(folder))
	index := filepath.Join(folder, "index.json")
	text, err := os.ReadFile(index)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, []byte(strings.Replace(string(text), `"Keys":1000`, `"Keys":100000000`, 1)), 0o600))
	_, err = l.restarted(t, folder, kept)
	require.ErrorContains(t, err, "bytes, must be at most 67108864")
}

// Saves while requests come and rules change lose nothing that was admitted before.
func TestSavesUnderLoad(t *testing.T) {
	folder := t.TempDir()
	l, err := (&loaded{clock: &clock{time.Unix(0, 0)}, file: filepath.Join(t.TempDir(), "rules.yaml")}).restarted(t, folder, kept)
	require.Error(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 2000 {
			l.Do("api", ask(1, "fixed=ann"), ask(1, "shared=bob"))
		}
	})
	for i := range 5 {
		l.write(t, strings.Replace(kept, "keys: 1000", []string{"keys: 1000", "keys: 2000"}[i%2], 1))
		require.NoError(t, l.Reload())
		require.NoError(t, l.Save(folder))
	}
	wg.Wait()
	require.NoError(t, l.Save(folder))
	next, err := l.restarted(t, folder, kept)
	require.NoError(t, err)
	require.Equal(t, []int{0}, next.left(t, "fixed"))
}

// A save writes nothing where a link in its folder points, and removes what one that
// was killed has left.
func TestSaveFollowsNoLinks(t *testing.T) {
	folder, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
	for _, name := range []string{"index.json", "index.json.new", "index.json.tmp1"} {
		if err := os.Symlink(victim, filepath.Join(folder, name)); err != nil {
			t.Skip(err)
		}
	}
	l, err := rules.Options{MaxMemoryBytes: 64 << 20}.New(rules.File{Name: "rules.yaml", Data: []byte(kept)})
	require.NoError(t, err)
	require.NoError(t, l.Save(folder))
	text, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
	info, err := os.Lstat(filepath.Join(folder, "index.json"))
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
	left, err := filepath.Glob(filepath.Join(folder, "index.json.tmp*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
