package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// What is of interest for snapshots: generations, cells of all widths, with and without a
// heavy table, times.
var snapshotConfigs = map[string]sketchlimit.Config{
	"sliding":     {Limit: 100},
	"fixed":       {Limit: 20, Algorithm: sketchlimit.FixedWindow},
	"sub-windows": {Limit: 300, SubWindows: 4},
	"limit 1":     {Limit: 1, MemoryBytes: 32 << 10},
	"limit 15":    {Limit: 15},
	"limit 1e5":   {Limit: 100_000},
	"bucket":      {Limit: 100, Algorithm: sketchlimit.TokenBucket},
	"burst":       {Limit: 10, Burst: 1000, Algorithm: sketchlimit.TokenBucket},
	"MapHash":     {Limit: 100, Hash: sketchlimit.MapHash()},
	"XXHash":      {Limit: 100, Hash: sketchlimit.XXHash(0)},
	"one shard":   {Limit: 3, Plan: &sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 2, Depth: 2, Width: 32, CellBits: 4}},
}

const snapshotWindow = 10 * time.Second

// snapshotHeader is the bytes of a header, which 8 of its sum follow.
const (
	snapshotHeader = 240
	snapshotShards = snapshotHeader + 8
)

// snapshotLimiter returns a limiter whose seed is drawn, and its clock in ns.
func snapshotLimiter(t testing.TB, c sketchlimit.Config) (*sketchlimit.Limiter, *atomic.Int64) {
	t.Helper()
	now := new(atomic.Int64)
	now.Store(1e18)
	c.Window, c.Clock = snapshotWindow, func() time.Time { return time.Unix(0, now.Load()) }
	if c.MemoryBytes == 0 && c.Plan == nil {
		c.MemoryBytes = 64 << 10
	}
	l, err := sketchlimit.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l, now
}

// used lets a limiter decide for four windows and a bit.
func used(t testing.TB, l *sketchlimit.Limiter, now *atomic.Int64, requests int) {
	r := rand.New(rand.NewPCG(1, 2))
	for range requests {
		l.Take(keyName(int64(r.ExpFloat64()*100)), 1+r.IntN(3))
		now.Add(int64(snapshotWindow) * 43 / 10 / int64(requests))
	}
	require.NotZero(t, l.Stats().Admitted)
}

func snapshot(t testing.TB, l *sketchlimit.Limiter) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := l.WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	return b.Bytes()
}

// A restored limiter answers as the original does, at the time of the snapshot and at any
// later one, and goes on to do so.
func TestSnapshot(t *testing.T) {
	for name, c := range snapshotConfigs {
		t.Run(name, func(t *testing.T) {
			l, now := snapshotLimiter(t, c)
			used(t, l, now, 5000)
			saved := snapshot(t, l)
			require.LessOrEqual(t, len(saved), l.MemoryBytes())
			var told [3]int // denied, some used, none used
			for _, later := range []float64{0, 0.3, 0.69, 0.7, 1, 1.7, 2, 30} {
				restored, clock := snapshotLimiter(t, c)
				clock.Store(now.Load() + int64(later*float64(snapshotWindow)))
				n, err := restored.ReadFrom(iotest.OneByteReader(bytes.NewReader(saved)))
				require.NoError(t, err)
				require.EqualValues(t, len(saved), n)
				require.Equal(t, saved, snapshot(t, restored), "nothing is lost or added")
				for i := range int64(300) {
					d := l.Do(sketchlimit.Request{Time: time.Unix(0, clock.Load()), Key: keyName(i), Peek: true})
					require.Equal(t, d, restored.Peek(keyName(i)), "%v windows later", later)
					switch {
					case !d.Allowed:
						told[0]++
					case d.ResetAfter > 0:
						told[1]++
					default:
						told[2]++
					}
				}
				for i := range int64(300) {
					allowed := restored.Peek(keyName(i)).Allowed
					require.Equal(t, allowed, restored.Allow(keyName(i)), "%v windows later", later)
				}
			}
			require.NotZero(t, told[0]+told[1], "too little was counted to tell")
			require.NotZero(t, told[2], "nothing ages")

			restored, clock := snapshotLimiter(t, c)
			clock.Store(now.Load())
			_, err := restored.ReadFrom(bytes.NewReader(saved))
			require.NoError(t, err)
			for i := range int64(5000) {
				now.Add(int64(snapshotWindow) / 1000)
				clock.Store(now.Load())
				require.Equal(t, l.Take(keyName(i%77), 1), restored.Take(keyName(i%77), 1), "decision %d", i)
			}
		})
	}
}

// The bytes of a snapshot are the same on every machine and from version to version.
func TestSnapshotFormat(t *testing.T) {
	c := snapshotConfigs["one shard"]
	c.Seed = 7
	l, _ := snapshotLimiter(t, c)
	require.True(t, l.Take("key", 3).Allowed)
	b := snapshot(t, l)
	require.Equal(t, "sklimit\x05\a", string(b[:9]))
	require.Len(t, b, 8*(3+6+8+8+1+4)+8+8*(1+2*(8+4))+8)
	require.EqualValues(t, 1e18/snapshotWindow, binary.LittleEndian.Uint64(b[snapshotShards:]), "generation")
	require.Equal(t, uint64(0xba74fc2f8c12e367), xxhash.Sum64(b))
	require.Equal(t, xxhash.Sum64(append(b[:snapshotHeader:snapshotHeader], b[snapshotShards:len(b)-8]...)), binary.LittleEndian.Uint64(b[len(b)-8:]))
}

// What is refused says why, and the limiter is as it was.
func TestSnapshotRefused(t *testing.T) {
	c := sketchlimit.Config{Limit: 100}
	l, now := snapshotLimiter(t, c)
	used(t, l, now, 1000)
	saved := snapshot(t, l)
	byXX, _ := snapshotLimiter(t, sketchlimit.Config{Limit: 100, Hash: sketchlimit.XXHash(0)})
	patched := func(at int, b byte) []byte { // with the sum of the header put right
		p := bytes.Clone(saved)
		p[at] ^= b
		binary.LittleEndian.PutUint64(p[snapshotHeader:], xxhash.Sum64(p[:snapshotHeader]))
		return p
	}
	for _, tt := range []struct {
		name string
		from []byte
		into sketchlimit.Config
		want error
		text string
	}{
		{"empty", nil, c, sketchlimit.ErrSnapshot, "ends after 0 bytes"},
		{"text", bytes.Repeat([]byte("text"), 999), c, sketchlimit.ErrSnapshot, "begins with 74 65"},
		{"cut", saved[:len(saved)-1], c, sketchlimit.ErrSnapshot, "ends after"},
		{"goes on", append(bytes.Clone(saved), 0), c, sketchlimit.ErrSnapshot, "goes on after"},
		{"header", patched(snapshotHeader, 0)[:247], c, sketchlimit.ErrSnapshot, "ends after 247"},
		{"version", patched(7, 1), c, sketchlimit.ErrSnapshotMismatch, ": version 4, must be 5"},
		{"generation", patched(snapshotShards+7, 0x80), c, sketchlimit.ErrSnapshot, "generation"},
		{"sum", patched(3000, 1), c, sketchlimit.ErrSnapshot, "wrong sum"},
		{"seed", saved, sketchlimit.Config{Limit: 100, Seed: 5}, sketchlimit.ErrSnapshotMismatch, ""},
		{"xxhash", saved, sketchlimit.Config{Limit: 100, Hash: sketchlimit.XXHash(5)}, sketchlimit.ErrSnapshotMismatch, "another hash, key or seed"},
		{"into xxhash", saved, sketchlimit.Config{Limit: 100, Hash: sketchlimit.XXHash(0)}, sketchlimit.ErrSnapshotMismatch, "Hash must be KeyedHash(Seed)"},
		{"of xxhash", snapshot(t, byXX), c, sketchlimit.ErrSnapshotMismatch, "Hash must be XXHash(Seed)"},
		{"hash", saved, sketchlimit.Config{Limit: 100, Hash: sketchlimit.MapHash()}, sketchlimit.ErrSnapshotMismatch, ""},
		{"limit", saved, sketchlimit.Config{Limit: 101}, sketchlimit.ErrSnapshotMismatch, ": Limit 100, must be 101"},
		{"algorithm", saved, sketchlimit.Config{Limit: 100, Algorithm: sketchlimit.TokenBucket}, sketchlimit.ErrSnapshotMismatch, "Generations 2, must be 1; Burst 0, must be 100"},
		{"dimensions", saved, sketchlimit.Config{Limit: 100, MemoryBytes: 96 << 10}, sketchlimit.ErrSnapshotMismatch, "(Keys, FalseDenialRate, MemoryBytes or Plan differ): "},
		{"too large", saved, sketchlimit.Config{Limit: 100, MemoryBytes: 16 << 10, MaxMemoryBytes: 32 << 10}, sketchlimit.ErrSnapshotMismatch, "must be at most"},
		{"no plan", patched(8*(3+6+2), 0xff), sketchlimit.Config{Limit: 100, MemoryBytes: 16 << 10, MaxMemoryBytes: 1 << 20}, sketchlimit.ErrSnapshotMismatch, "Plan.BloomProbes 254"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			into, clock := snapshotLimiter(t, tt.into)
			clock.Store(now.Load())
			before := snapshot(t, into)
			_, err := into.ReadFrom(bytes.NewReader(tt.from))
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.text)
			require.Equal(t, before, snapshot(t, into))
		})
	}

	early, clock := snapshotLimiter(t, c)
	clock.Store(now.Load() - 3*int64(snapshotWindow))
	_, err := early.ReadFrom(bytes.NewReader(saved))
	require.ErrorIs(t, err, sketchlimit.ErrSnapshot)
	require.ErrorContains(t, err, "of 2001-09-09 01:47:20 +0000 UTC")

	before := snapshot(t, l)
	_, err = l.ReadFrom(bytes.NewReader(saved))
	require.ErrorIs(t, err, sketchlimit.ErrSnapshot)
	require.Equal(t, before, snapshot(t, l))

	fails := errors.New("fails")
	_, err = early.ReadFrom(io.MultiReader(bytes.NewReader(saved[:5000]), iotest.ErrReader(fails)))
	require.ErrorIs(t, err, fails)
	require.NotErrorIs(t, err, sketchlimit.ErrSnapshot, "it may be read another time")
}

// A clock that stands a bit behind the snapshot's is waited for, and nothing
// over-admitted.
func TestSnapshotFromABitLater(t *testing.T) {
	c := sketchlimit.Config{Limit: 10}
	l, _ := snapshotLimiter(t, c)
	require.True(t, l.Take("k", 10).Allowed)
	restored, clock := snapshotLimiter(t, c)
	clock.Add(-2 * int64(snapshotWindow))
	_, err := restored.ReadFrom(bytes.NewReader(snapshot(t, l)))
	require.NoError(t, err)
	require.Equal(t, 3*snapshotWindow+snapshotWindow/10, restored.Take("k", 1).RetryAfter)
	clock.Add(2 * int64(snapshotWindow))
	require.Zero(t, restored.Peek("k").Remaining)
	clock.Add(int64(snapshotWindow + snapshotWindow/2))
	require.Equal(t, 5, restored.Peek("k").Remaining)
}

// corrupted returns a snapshot that is damaged somehow.
func corrupted(r *rand.Rand, b []byte) []byte {
	whole := b
	b = bytes.Clone(b)
	i, j := r.IntN(len(b)), r.IntN(len(b))
	switch r.IntN(6) {
	case 0:
		b[i] ^= 1 << r.IntN(8)
	case 1:
		return b[:i]
	case 2: // a block of zeros, such as a file system leaves behind
		clear(b[min(i, j) : max(i, j)+1])
		if bytes.Equal(b, whole) { // it was zeros
			b[i] = 1
		}
	case 3:
		for k := range b[i:min(i+8, len(b))] {
			b[i+k] ^= byte(1 + r.IntN(255))
		}
	case 4:
		return append(b, b[:1+i]...)
	case 5: // in the header
		b[r.IntN(snapshotShards)] ^= byte(1 + r.IntN(255))
	}
	return b
}

var corruptions = flag.Int("corruptions", 2000, "how many damaged snapshots TestSnapshotCorrupted tries")

func TestSnapshotCorrupted(t *testing.T) {
	c := sketchlimit.Config{Limit: 100, MemoryBytes: 16 << 10}
	l, now := snapshotLimiter(t, c)
	used(t, l, now, 1000)
	saved := snapshot(t, l)
	into, clock := snapshotLimiter(t, c)
	clock.Store(now.Load())
	before := snapshot(t, into)
	r := rand.New(rand.NewPCG(3, 4))
	for range *corruptions {
		b := corrupted(r, saved)
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		_, err := into.ReadFrom(bytes.NewReader(b))
		runtime.ReadMemStats(&end)
		require.Error(t, err)
		require.LessOrEqual(t, end.TotalAlloc-start.TotalAlloc, uint64(len(b)+into.MemoryBytes()+16<<10), "%v", err)
	}
	require.Equal(t, before, snapshot(t, into))
	_, err := into.ReadFrom(bytes.NewReader(saved))
	require.NoError(t, err)
	t.Logf("%d damaged snapshots refused", *corruptions)
}

// What a snapshot is made to say, sums put right, is refused or restored as it is, and no
// decision panics afterwards.
func FuzzReadFrom(f *testing.F) {
	var configs []sketchlimit.Config
	for _, name := range slices.Sorted(maps.Keys(snapshotConfigs)) {
		c := snapshotConfigs[name]
		c.Seed, c.MemoryBytes = 1, 0
		switch {
		case c.Hash != nil:
			continue
		case c.Plan == nil:
			c.Plan = &sketchlimit.Plan{Shards: 2, BloomBytes: 64, BloomProbes: 2, Depth: 2, Width: 16, CellBits: 32}
			if c.Algorithm == sketchlimit.TokenBucket {
				c.Plan = &sketchlimit.Plan{Shards: 2, Depth: 8, Width: 2, CellBits: 32}
			} else if c.SubWindows == 0 {
				c.Plan.HeavyEntries, c.Plan.PromoteAt = 16, 2
			}
		}
		configs = append(configs, c)
		l, now := snapshotLimiter(f, c)
		used(f, l, now, 100)
		f.Add(uint8(len(configs)-1), snapshot(f, l))
	}
	f.Fuzz(func(t *testing.T, config uint8, b []byte) {
		l, now := snapshotLimiter(t, configs[int(config)%len(configs)])
		b = bytes.Clone(b)
		if len(b) >= snapshotShards {
			binary.LittleEndian.PutUint64(b[snapshotHeader:], xxhash.Sum64(b[:snapshotHeader]))
			rest := append(bytes.Clone(b[:snapshotHeader]), b[snapshotShards:len(b)-8]...)
			binary.LittleEndian.PutUint64(b[len(b)-8:], xxhash.Sum64(rest))
		}
		before := snapshot(t, l)
		if _, err := l.ReadFrom(bytes.NewReader(b)); err != nil {
			require.Equal(t, before, snapshot(t, l))
			return
		}
		binary.LittleEndian.PutUint64(b[192:], 0) // of a predecessor that is not there
		require.Equal(t, b[snapshotShards:len(b)-8], snapshot(t, l)[snapshotShards:len(b)-8])
		for i := range int64(20) {
			l.Stats()
			l.Take(keyName(i), 1)
			l.Peek(keyName(i + 1))
			now.Add(int64(snapshotWindow) / 3)
		}
	})
}

// Decisions go on while a snapshot is written; what was admitted before is in it.
func TestSnapshotMeanwhile(t *testing.T) {
	const keys = 1000
	c := sketchlimit.Config{Limit: 100_000, MemoryBytes: 1 << 20}
	l, _ := snapshotLimiter(t, c)
	var admitted [keys]atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i = (i + 1) % keys {
				select {
				case <-stop:
					return
				default:
				}
				if l.Take(keyName(int64(i)), 1).Allowed {
					admitted[i].Add(1)
				}
			}
		})
	}
	for range 20 {
		var before [keys]int64
		for i := range before {
			before[i] = admitted[i].Load()
		}
		restored, _ := snapshotLimiter(t, c)
		_, err := restored.ReadFrom(bytes.NewReader(snapshot(t, l)))
		require.NoError(t, err)
		for i, n := range before {
			require.LessOrEqual(t, restored.Peek(keyName(int64(i))).Remaining, c.Limit-int(n), "key %d", i)
		}
	}
	require.NotZero(t, admitted[keys-1].Load())
}

// writerFunc is a function that writes.
type writerFunc func(b []byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

// No lock is held while a snapshot is written, however long that takes: every shard
// decides.
func TestSnapshotToASlowWriter(t *testing.T) {
	l, _ := snapshotLimiter(t, sketchlimit.Config{Limit: 100, MemoryBytes: 1 << 20})
	writes, shards := 0, l.Plan().Shards
	n, err := l.WriteTo(writerFunc(func(b []byte) (int, error) {
		writes++
		for i := range int64(20 * shards) { // one is left out with a chance of 2e-9 × shards
			require.True(t, l.Take(keyName(i), 1).Allowed)
		}
		return len(b), nil
	}))
	require.NoError(t, err)
	require.Greater(t, writes, 2)
	require.Greater(t, int(n), 900<<10)

	fails := errors.New("fails")
	n, err = l.WriteTo(writerFunc(func(b []byte) (int, error) { return 7, fails }))
	require.ErrorIs(t, err, fails)
	require.EqualValues(t, 7, n)
}

func TestSaveAndLoad(t *testing.T) {
	c := sketchlimit.Config{Limit: 10}
	l, _ := snapshotLimiter(t, c)
	path := filepath.Join(t.TempDir(), "limiter")
	require.ErrorIs(t, l.Load(path), fs.ErrNotExist)
	for n := range 3 {
		require.True(t, l.Take("k", 2).Allowed)
		require.NoError(t, l.Save(path))
		restored, _ := snapshotLimiter(t, c)
		require.NoError(t, restored.Load(path))
		require.Equal(t, 8-2*n, restored.Peek("k").Remaining)
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1)
		info, err := entries[0].Info()
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
	}
	require.NoError(t, os.Truncate(path, 1000))
	require.ErrorIs(t, l.Load(path), sketchlimit.ErrSnapshot)
	require.ErrorIs(t, l.Save(filepath.Join(t.TempDir(), "no", "folder")), fs.ErrNotExist)
}

// What somebody has put where Save used to write, or at the path itself, is neither
// followed nor written to, and its mode is not kept.
func TestSaveFollowsNoLinkAndKeepsNoMode(t *testing.T) {
	l, _ := snapshotLimiter(t, sketchlimit.Config{Limit: 10})
	folder := t.TempDir()
	path, other := filepath.Join(folder, "limiter"), filepath.Join(folder, "other")
	require.NoError(t, os.WriteFile(other, []byte("mine"), 0o644))
	for _, name := range []string{path + ".tmp", path} {
		if err := os.Symlink(other, name); err != nil {
			t.Skip(err)
		}
	}
	check := func() {
		require.NoError(t, l.Save(path))
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode(), "a file of its own that only the owner may read")
		require.NoError(t, l.Load(path))
	}
	check()
	kept, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "mine", string(kept))

	require.NoError(t, os.Chmod(path, 0o666))
	require.NoError(t, os.Remove(path+".tmp"))
	require.NoError(t, os.WriteFile(path+".tmp", nil, 0o666))
	check()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing is left over, and nothing of others removed")
}

// Temporary files of killed saves go with a later save; younger ones, which may be
// those of another process, and what has another name stay. A save that fails leaves
// nothing.
func TestSaveRemovesWhatKilledSavesLeft(t *testing.T) {
	l, _ := snapshotLimiter(t, sketchlimit.Config{Limit: 10})
	folder := t.TempDir()
	path := filepath.Join(folder, "limiter")
	for _, name := range []string{"limiter.tmp123", "limiter.tmp124", "limiter.tmp", "limiter.tmpfile", "other.tmp123"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
		if name != "limiter.tmp124" {
			require.NoError(t, os.Chtimes(filepath.Join(folder, name), time.Time{}, time.Now().Add(-2*time.Hour)))
		}
	}
	require.NoError(t, l.Save(path))
	names := func() (names []string) {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	left := []string{"limiter", "limiter.tmp", "limiter.tmp124", "limiter.tmpfile", "other.tmp123"}
	require.Equal(t, left, names())

	require.NoError(t, os.Mkdir(filepath.Join(folder, "limits"), 0o700))
	require.Error(t, l.Save(filepath.Join(folder, "limits")), "a folder cannot be replaced")
	require.Equal(t, append(left[:4:4], "limits", "other.tmp123"), names())
}
