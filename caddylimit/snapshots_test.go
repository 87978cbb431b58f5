package caddylimit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
)

// closing is a storage that a config closes when it ends, as those over a database do.
type closing struct {
	Root   string `json:"root"`
	closed atomic.Bool
}

func (*closing) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.storage.closing", New: func() caddy.Module { return new(closing) }}
}

func (c *closing) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	d.NextArg()
	c.Root = d.Val()
	return nil
}

func (c *closing) CertMagicStorage() (certmagic.Storage, error) {
	return &closingFiles{certmagic.FileStorage{Path: c.Root}, c}, nil
}

func (c *closing) Cleanup() error {
	c.closed.Store(true)
	return nil
}

type closingFiles struct {
	certmagic.FileStorage
	of *closing
}

func (f *closingFiles) Store(ctx context.Context, key string, value []byte) error {
	if f.of.closed.Load() {
		return errors.New("closed")
	}
	return f.FileStorage.Store(ctx, key, value)
}

// Counts outlive a stop also where the storage closes with the config: before or after
// the zones, as it happens.
func TestStorageCloses(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	config := limit("key a\nwindow 1h\nevents 100\nkeys 10", "storage closing "+s.storage)
	for range 10 {
		s.load(config)
		s.want(200, 10, "GET", "/")
		require.NoError(t, caddy.Stop())
	}
	s.load(config)
	s.want(429, 1, "GET", "/")
	require.NotContains(t, written.text(), "counts were not")
}

// So they do where a config has followed another, and then all ends.
func TestStorageClosesAfterReload(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	for turn := range 3 {
		s.load(limit("key a\nwindow 1h\nevents 100\nkeys 10", "storage closing "+s.storage))
		s.want(200, 10, "GET", "/")
		s.load(limit("key a\nwindow 1h\nevents 100\nkeys 10", "jitter 1\nstorage closing "+s.storage))
		s.want(200, 10, "GET", "/")
		require.NoError(t, caddy.Stop())
		s.load(limit("key a\nwindow 1h\nevents 100\nkeys 10", "storage closing "+s.storage))
		require.Equal(t, 80-20*turn, current()["api"].limiters[0].Peek("a").Remaining)
	}
	require.NotContains(t, written.text(), "counts were not")
}

// killed returns a copy of the snapshots once former limiters are among them, as a
// process finds them that starts after this one was killed.
func killed(t *testing.T, storage string) string {
	require.Eventually(t, func() bool {
		files, err := filepath.Glob(filepath.Join(storage, storageRoot, "*", "*"+formersKey))
		require.NoError(t, err)
		return len(files) == 1
	}, 30*time.Second, 10*time.Millisecond)
	left := ""
	require.Eventually(t, func() bool { // what is being written has another name at first, which may go meanwhile
		left = t.TempDir()
		err := os.CopyFS(left, os.DirFS(storage))
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
		return err == nil
	}, 30*time.Second, time.Millisecond)
	return left
}

// Who kills the process at once after a reload with another limit gets no fresh quota
// by it.
func TestSnapshotAtReload(t *testing.T) {
	for _, algorithm := range []string{"sliding", "fixed", "bucket"} {
		t.Run(algorithm, func(t *testing.T) {
			advance := setTime(t, minute)
			s := newServer(t)
			config := func(events int) string {
				return limit(fmt.Sprintf("key a\nwindow 1h\nkeys 10\nalgorithm %s\nevents %d", algorithm, events))
			}
			s.load(config(10))
			s.want(200, 6, "GET", "/")
			s.load(config(20))
			left := killed(t, s.storage)
			require.NoError(t, caddy.Stop())

			s.storage = left
			s.load(config(20))
			s.want(200, 14, "GET", "/")
			s.want(429, 1, "GET", "/")
			require.NoError(t, caddy.Stop())
			advance(2 * time.Hour) // from here on, nothing of it matters
			s.load(config(20))
			require.Nil(t, current()["api"].limiters[0].formers.Load())
			s.want(200, 20, "GET", "/")
			require.NotContains(t, written.text(), "counts were not")
		})
	}
}

// So it is with what a former config counts while its server ends.
func TestSnapshotAtEndOfFormer(t *testing.T) {
	setTime(t, minute)
	handler := func(events int, storage string) *Handler {
		ctx, err := caddy.ProvisionContext(&caddy.Config{Admin: &caddy.AdminConfig{Disabled: true}})
		require.NoError(t, err)
		h := &Handler{
			Zones:      map[string]*Zone{"api": {Key: "a", MaxEvents: events, Window: caddy.Duration(time.Hour)}},
			StorageRaw: fmt.Appendf(nil, `{"module": "file_system", "root": %q}`, storage),
		}
		require.NoError(t, h.Provision(ctx))
		return h
	}
	admitted := func(h *Handler) (n int) {
		for r, _ := request(); h.ServeHTTP(httptest.NewRecorder(), r, nothing{}) == nil; {
			n++
		}
		return n
	}
	storage := t.TempDir()
	first := handler(10, storage)
	second := handler(25, storage)
	require.Equal(t, 10, admitted(first))
	require.NoError(t, first.Cleanup())
	left := killed(t, storage)
	require.NoError(t, second.Cleanup())
	third := handler(25, left)
	require.Equal(t, 15, admitted(third))
	require.NoError(t, third.Cleanup())
}

// A shorter interval does not wait for the one before.
func TestSnapshotIntervalChanges(t *testing.T) {
	s := newServer(t)
	s.load(limit("key a\nwindow 1h\nevents 10\nkeys 10", "snapshot_interval 1h"))
	s.want(200, 1, "GET", "/")
	require.Empty(t, s.kept())
	s.load(limit("key a\nwindow 1h\nevents 10\nkeys 10", "snapshot_interval 1s"))
	require.Eventually(t, func() bool { return len(s.kept()) == 1 }, 30*time.Second, 10*time.Millisecond)
}

// Snapshots of a zone that is gone are deleted after a day, and those of other
// instances, which may have it, after a month.
func TestSnapshotsOfZonesThatAreGone(t *testing.T) {
	s := newServer(t)
	s.load(limit("key a\nwindow 7d\nevents 10\nkeys 10"))
	s.want(200, 1, "GET", "/")
	require.NoError(t, caddy.Stop())
	old := func(file string, age time.Duration) string {
		require.NoError(t, os.Chtimes(file, time.Time{}, time.Now().Add(-age)))
		return file
	}
	other := func(name string, age time.Duration) string {
		file := filepath.Join(filepath.Dir(s.kept()[0]), name)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		return old(file, age)
	}
	const day = 24 * time.Hour
	own := s.kept()[0]
	abandoned := other("abandoned", 31*day)
	present := old(own, 13*day)
	s.load(limit("key a\nwindow 7d\nevents 10\nkeys 10")) // whose counts may matter for two windows
	require.Eventually(t, func() bool {
		_, err := os.Stat(abandoned)
		return errors.Is(err, os.ErrNotExist)
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, caddy.Stop())
	require.FileExists(t, present)

	another := other("another", 29*day)
	old(own, 2*day)
	s.load("sketch_rate_limit {\nzone another {\nkey a\nwindow 1h\nevents 10\n}\n}")
	require.Eventually(t, func() bool {
		_, err := os.Stat(own)
		return errors.Is(err, os.ErrNotExist)
	}, 30*time.Second, 10*time.Millisecond)
	require.FileExists(t, another)
}
