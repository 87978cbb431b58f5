package budget_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

// small returns a small budget.
func small(t *testing.T) *bench {
	minute, day := sliding(100, time.Minute), bucket(1000, 24*time.Hour)
	minute.MemoryBytes, day.MemoryBytes = 8<<10, 8<<10
	return with(t, 20, time.Minute, minute, day)
}

// saved returns a small budget with something settled and held, and its snapshot.
func saved(t *testing.T) (b *bench, snapshot []byte) {
	b = small(t)
	b.must("a", 40).Settle(25)
	b.must("a", 30)
	b.must("b", 7)
	b.must("b", 8)
	return b, written(t, b)
}

func written(t *testing.T, b *bench) []byte {
	var file bytes.Buffer
	n, err := b.WriteTo(&file)
	require.NoError(t, err)
	require.EqualValues(t, file.Len(), n)
	return file.Bytes()
}

// A snapshot has what was settled, and what was held counts in full; and nothing
// changes for the budget that wrote it.
func TestSnapshot(t *testing.T) {
	b, file := saved(t)
	require.Equal(t, 45, b.Held("a")+b.Held("b"), "as it was")
	restored := small(t)
	n, err := restored.ReadFrom(bytes.NewReader(file))
	require.NoError(t, err)
	require.EqualValues(t, len(file), n)
	for key, used := range map[string]int{"a": 55, "b": 15, "c": 0} {
		require.Zero(t, restored.Held(key))
		_, d := restored.Do(sketchlimit.Request{Key: key, Peek: true})
		require.Equal(t, 100-used, d.Remaining, key)
	}
	s := restored.Stats()
	require.Equal(t, []any{0, int64(0), uint64(3), uint64(45), uint64(0)}, []any{s.Open, s.Held, s.Expired, s.Settled, s.Overdraft})
	require.NotEqual(t, file, written(t, restored))
}

// What is damaged, cut off or not of such a budget is refused, and the budget is as it
// was: it goes on.
func TestSnapshotsAreRefused(t *testing.T) {
	b, file := saved(t)
	empty, before := small(t), written(t, b)
	refuse := func(text string, damaged []byte) {
		n, err := empty.ReadFrom(bytes.NewReader(damaged))
		require.ErrorIs(t, err, sketchlimit.ErrSnapshot, text)
		require.LessOrEqual(t, n, int64(len(damaged)), text)
	}
	for i := 0; i < len(file); i++ {
		if i > 300 && i < len(file)-300 && i%97 > 0 {
			continue
		}
		refuse(fmt.Sprint("cut off at ", i), file[:i])
		damaged := bytes.Clone(file)
		damaged[i] ^= 1 << (i % 8)
		refuse(fmt.Sprint("byte ", i), damaged)
	}
	refuse("longer", append(bytes.Clone(file), 0))
	refuse("twice", append(bytes.Clone(file), file...))
	require.Equal(t, written(t, small(t)), written(t, empty))

	_, err := b.ReadFrom(bytes.NewReader(file))
	require.ErrorIs(t, err, sketchlimit.ErrSnapshot)
	require.ErrorContains(t, err, "the budget has held or counted units already")
	require.Equal(t, before, written(t, b))
	require.Equal(t, 30, b.Held("a"))
	require.Equal(t, 3, b.Stats().Open)
	charged := small(t)
	charged.Charge("a", 1)
	_, err = charged.ReadFrom(bytes.NewReader(file))
	require.ErrorIs(t, err, sketchlimit.ErrSnapshot)

	one := with(t, 20, time.Minute, fixed(100, time.Minute), bucket(1000, time.Hour))
	for want, other := range map[string]*bench{
		"of 1 limits, must be of 2":  with(t, 20, time.Minute, fixed(100, time.Minute)),
		"Limits[0]":                  with(t, 20, time.Minute, fixed(101, time.Minute), bucket(1000, time.Hour)),
		"Limits[1]":                  with(t, 20, time.Minute, fixed(100, time.Minute), bucket(999, time.Hour)),
		"of more than 25 open holds": full(t),
	} {
		_, err := one.ReadFrom(bytes.NewReader(written(t, other)))
		require.ErrorIs(t, err, sketchlimit.ErrSnapshotMismatch)
		require.ErrorContains(t, err, want)
	}
	for _, n := range []int{0, 5, 22, 50, 300, len(file) - 10, len(file)} {
		_, err := small(t).ReadFrom(io.MultiReader(bytes.NewReader(file[:n]), failing{}))
		require.ErrorIs(t, err, errFailing)
		require.NotErrorIs(t, err, sketchlimit.ErrSnapshot, "%d bytes", n)
	}
}

func full(t *testing.T) *bench {
	b := with(t, 21, time.Minute, fixed(100, time.Minute), bucket(1000, time.Hour))
	for range 26 { // a quarter above InFlight, as many as there is room for
		b.must("a", 1)
	}
	return b
}

// More than InFlight holds may be open, and a snapshot of all of them is restored.
func TestSnapshotOfMoreThanInFlight(t *testing.T) {
	restored := with(t, 21, time.Minute, fixed(100, time.Minute), bucket(1000, time.Hour))
	_, err := restored.ReadFrom(bytes.NewReader(written(t, full(t))))
	require.NoError(t, err)
	require.EqualValues(t, 26, restored.Stats().Settled)
}

type failing struct{}

var errFailing = errors.New("the disk is gone")

func (failing) Read([]byte) (int, error)  { return 0, errFailing }
func (failing) Write([]byte) (int, error) { return 0, errFailing }

func TestSnapshotsThatCannotBeWritten(t *testing.T) {
	b, _ := saved(t)
	_, err := b.WriteTo(failing{})
	require.ErrorIs(t, err, errFailing)
	require.Error(t, b.Save(filepath.Join(t.TempDir(), "no such folder", "file")))
}

// A file is there as a whole, for its owner only; one that is not there says so.
func TestSaveAndLoad(t *testing.T) {
	b, _ := saved(t)
	path := filepath.Join(t.TempDir(), "budget")
	require.ErrorIs(t, b.Load(path), fs.ErrNotExist)
	require.NoError(t, b.Save(path))
	require.NoError(t, b.Save(path), "again")
	info, err := os.Stat(path)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, fs.FileMode(0o600), info.Mode())
	}
	restored := small(t)
	require.NoError(t, restored.Load(path))
	require.EqualValues(t, 45, restored.Stats().Settled)
	require.ErrorIs(t, restored.Load(path), sketchlimit.ErrSnapshot, "it has counted units by now")
	require.NoError(t, os.Truncate(path, info.Size()-1))
	require.ErrorIs(t, small(t).Load(path), sketchlimit.ErrSnapshot)
}

// While goroutines hold and settle, a snapshot has at least what was settled before it
// began and what was held then.
func TestSnapshotsMeanwhile(t *testing.T) {
	b := with(t, 1000, time.Hour, fixed(1<<20, time.Hour))
	for i := range 100 {
		b.must(fmt.Sprint(i), 2).Settle(2)
		b.must(fmt.Sprint(i), 3)
	}
	done, stop := make(chan int), make(chan bool)
	for range 2 {
		go func() {
			n := 0
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- n
					return
				default:
				}
				if h, d := b.Hold(fmt.Sprint(i%100), 1+i%3); d.Allowed {
					h.Settle(1)
					n++
				}
			}
		}()
	}
	file := written(t, b)
	close(stop)
	most := <-done + <-done
	restored := with(t, 1000, time.Hour, fixed(1<<20, time.Hour))
	_, err := restored.ReadFrom(bytes.NewReader(file))
	require.NoError(t, err)
	sum := 0
	for i := range 100 {
		_, d := restored.Do(sketchlimit.Request{Key: fmt.Sprint(i), Peek: true})
		require.GreaterOrEqual(t, 1<<20-d.Remaining, 5)
		sum += 1<<20 - d.Remaining
	}
	require.LessOrEqual(t, sum, 500+4*most)
}

// hostile is the head of a snapshot of one limit whose blocks and sums are as they
// should be, and hold anything.
func hostile(limits byte, holds, limiter []byte) []byte {
	file := append([]byte("sketchlimit budget 1\n"), limits)
	list := func(p []byte) {
		if len(p) > 0 {
			file = append(binary.LittleEndian.AppendUint32(file, uint32(len(p))), p...)
		}
		file = binary.LittleEndian.AppendUint32(file, 0)
	}
	list(holds)
	file = binary.LittleEndian.AppendUint64(file, xxhash.Sum64(holds))
	list(limiter)
	return file
}

// FuzzReadFrom: a snapshot is refused, or restored into a budget that works; either way
// by no more memory than a limiter and its open holds take.
func FuzzReadFrom(f *testing.F) {
	config := budget.Config{Limits: []sketchlimit.Config{{Limit: 100, Window: time.Minute, MemoryBytes: 8 << 10, Seed: 1,
		Clock: func() time.Time { return start }}}, InFlight: 8, HoldFor: time.Minute}
	build := func() *budget.Budget {
		b, err := budget.New(config)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	b := build()
	defer b.Close()
	b.Hold("a", 9)
	h, _ := b.Hold("b", 12)
	h.Settle(5)
	var file bytes.Buffer
	_, err := b.WriteTo(&file)
	require.NoError(f, err)
	limiter, err := sketchlimit.New(config.Limits[0])
	require.NoError(f, err)
	defer limiter.Close()
	var alone bytes.Buffer
	_, err = limiter.WriteTo(&alone)
	require.NoError(f, err)
	f.Add(file.Bytes())
	f.Add(hostile(1, bytes.Repeat([]byte{255}, 8*16), alone.Bytes()))
	f.Add(hostile(1, bytes.Repeat([]byte{0}, 8*16), alone.Bytes()))
	f.Add(hostile(1, bytes.Repeat([]byte{1}, 9*16), alone.Bytes()))
	f.Add(hostile(1, make([]byte, 17), alone.Bytes()))
	f.Add(append([]byte("sketchlimit budget 1\n\x01"), 255, 255, 255, 127))
	f.Add(append([]byte("sketchlimit budget 1\n\x01"), 255, 255, 255, 255))
	f.Add(append(hostile(1, nil, nil)[:34], 255, 255, 255, 127))
	f.Fuzz(func(t *testing.T, file []byte) {
		b := build()
		defer b.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := b.ReadFrom(bytes.NewReader(file))
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		require.LessOrEqual(t, n, int64(len(file)))
		if err != nil {
			require.ErrorIs(t, err, sketchlimit.ErrSnapshot)
			_, d := b.Hold("a", 100)
			require.True(t, d.Allowed)
		}
		b.Hold("c", 3)
		b.Stats()
		require.NoError(t, b.Close())
	})
}
