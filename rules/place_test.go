package rules

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// Counts are found again by the place of their rule, in other files and another order,
// and before a request comes. A rule that has changed begins anew, and a place that
// only reads alike is another one.
func TestSnapshotsByPlace(t *testing.T) {
	folder := t.TempDir()
	path := func(r *Rule) string { return filepath.Join(folder, url.PathEscape(r.Place())) }
	var mu sync.Mutex
	errors := map[string]error{}
	options := Options{
		MaxMemoryBytes: 64 << 20, OverrideBytes: 1 << 20, Clock: func() time.Time { return time.Unix(1e9, 0) },
		Built: func(r *Rule) {
			err := r.Limiter().Load(path(r))
			mu.Lock()
			defer mu.Unlock()
			errors[r.String()] = err
		},
	}
	text := func(s string) File { return File{"f.yaml", []byte("domain: api\ndescriptors:\n" + s)} }
	const (
		client  = "- {key: client, rate_limit: {unit: day, requests_per_unit: 2}}\n"
		all     = "- {key: all, value: x, rate_limit: {unit: day, requests_per_unit: 2}}\n"
		blocked = "- {key: blocked, rate_limit: {unit: day, requests_per_unit: 0}}\n"
		changed = "- {key: all, value: x, rate_limit: {unit: day, requests_per_unit: 3}}\n"
	)
	before, err := options.New(text(client + all + blocked))
	require.NoError(t, err)
	own := Ask{Descriptor{{"x", "y"}}, 1, &Override{Limit: 1, Window: time.Hour}}
	ask := func(r *Rules, key, value string) bool {
		return r.Do("api", Ask{Descriptor{{key, value}}, 2, nil}).Admitted
	}
	require.True(t, ask(before, "client", "ann"))
	require.True(t, ask(before, "all", "x"))
	require.True(t, before.Do("api", own).Admitted)
	for _, r := range before.Counting() {
		require.ErrorIs(t, errors[r.String()], fs.ErrNotExist)
		require.NoError(t, r.Limiter().Save(path(r)))
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 2+len(spans))
	require.Nil(t, before.All()[2].Limiter(), "it does not count")

	after, err := options.New()
	require.NoError(t, err)
	require.NoError(t, after.Replace(text(changed+client)))
	require.NoError(t, errors["api.client"])
	require.ErrorIs(t, errors["api.all_x"], sketchlimit.ErrSnapshotMismatch)
	require.False(t, ask(after, "client", "ann"))
	require.True(t, ask(after, "client", "bob"))
	require.True(t, ask(after, "all", "x"))
	require.False(t, after.Do("api", own).Admitted)
	clear(errors)
	require.NoError(t, after.Replace(text(client+changed)))
	require.Empty(t, errors, "they go on counting")

	one, err := options.New(text("- {key: a, value: b_c, rate_limit: {unit: day, requests_per_unit: 2}}"))
	require.NoError(t, err)
	other, err := options.New(text("- {key: a_b, value: c, rate_limit: {unit: day, requests_per_unit: 2}}"))
	require.NoError(t, err)
	require.Equal(t, one.All()[0].String(), other.All()[0].String())
	require.NotEqual(t, one.All()[0].Place(), other.All()[0].Place())
}
