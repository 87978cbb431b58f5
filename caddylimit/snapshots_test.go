package caddylimit

import (
	"context"
	"errors"
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

// Counts outlive a stop also where the storage closes with the config: before or after the zones, as it happens.
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

// A shorter interval does not wait for the one before.
func TestSnapshotIntervalChanges(t *testing.T) {
	s := newServer(t)
	s.load(limit("key a\nwindow 1h\nevents 10\nkeys 10", "snapshot_interval 1h"))
	s.want(200, 1, "GET", "/")
	require.Empty(t, s.kept())
	s.load(limit("key a\nwindow 1h\nevents 10\nkeys 10", "snapshot_interval 1s"))
	require.Eventually(t, func() bool { return len(s.kept()) == 1 }, 30*time.Second, 10*time.Millisecond)
}

// Snapshots of a zone that is gone are deleted after a day, and those of other instances, which may have it, after a
// month.
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
