package topkeys_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/topkeys"
)

var epoch = time.Unix(0, 0)

func build(t testing.TB, keys int) *topkeys.Top {
	t.Helper()
	top, err := topkeys.New(keys, time.Minute)
	require.NoError(t, err)
	return top
}

// shown is a report as "policy/key count-error".
func shown(r topkeys.Report) string {
	list := []string{fmt.Sprintf("%d others %d:", r.Total, r.Others)}
	for _, c := range r.Counts {
		list = append(list, fmt.Sprintf("%s/%s %d-%d", c.Policy, c.Key, c.Count, c.Error))
	}
	return strings.Join(list, " ")
}

func TestSteps(t *testing.T) {
	top := build(t, 2)
	for _, c := range []struct {
		at    int // seconds
		add   string
		n     uint64
		since int
		want  string
	}{
		{0, "", 0, 0, "0 others 0:"},
		{0, "p/a", 3, 0, "3 others 0: p/a 3-0"},
		{1, "q/a", 1, 0, "4 others 1: p/a 3-0 q/a 1-0"},
		{1, "p/b", 1, 0, "5 others 2: p/a 3-0 p/b 2-1"},
		{1, "p/b", 5, 0, "10 others 3: p/b 7-1 p/a 3-0"},
		{59, "p/c", 1, 0, "11 others 4: p/b 7-1 p/c 4-3"},
		{60, "", 0, 60, "0 others 0:"},
		{61, "p/c", 1, 60, "1 others 0: p/c 1-0"},
		{59, "p/c", 1, 60, "2 others 0: p/c 2-0"}, // a step back counts in the window reached
		{600, "p/d", 2, 600, "2 others 0: p/d 2-0"},
		{-600, "p/e", 0, 600, "2 others 0: p/d 2-0 p/e 0-0"},
	} {
		now := epoch.Add(time.Duration(c.at) * time.Second)
		if policy, key, ok := strings.Cut(c.add, "/"); ok {
			top.AddAt(now, policy, []byte(key), c.n)
		}
		r := top.ReportAt(now)
		require.Equal(t, c.want, shown(r), "at %d", c.at)
		require.EqualValues(t, c.since, r.Since.Unix())
	}
}

// A sum that would pass the highest uint64 stays there: it never falls.
func TestAdd_CountsNeverFall(t *testing.T) {
	top := build(t, 2)
	for range 3 {
		top.AddAt(epoch, "p", []byte("a"), math.MaxUint64/2)
	}
	top.AddAt(epoch, "p", []byte("b"), 1)
	top.AddAt(epoch, "p", []byte("c"), math.MaxUint64)
	const most = uint64(math.MaxUint64)
	require.Equal(t, fmt.Sprintf("%d others %d: p/a %d-0 p/c %d-1", most, most, most, most), shown(top.ReportAt(epoch)))
}

func TestErrors(t *testing.T) {
	for _, keys := range []int{-1, 0, 1<<20 + 1} {
		_, err := topkeys.New(keys, time.Second)
		require.EqualError(t, err, fmt.Sprintf("topkeys: keys %d, must be 1 … 1048576", keys))
	}
	_, err := topkeys.New(1, 0)
	require.EqualError(t, err, "topkeys: window 0s, must be above 0")
}

// A policy and a key are told apart from another policy and key of the same bytes, and
// long keys from others that begin alike, though they look alike.
func TestKeysAreApart(t *testing.T) {
	top := build(t, 9)
	long := bytes.Repeat([]byte("x"), topkeys.KeyBytes)
	for _, c := range []struct{ policy, key string }{
		{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}, {"p", string(long)}, {"p", string(long) + "y"},
	} {
		top.AddAt(epoch, c.policy, []byte(c.key), 1)
	}
	r := top.ReportAt(epoch)
	require.Len(t, r.Counts, 6)
	require.Equal(t, r.Counts[4], r.Counts[5])
	require.Equal(t, long, r.Counts[5].Key)
}

// The promises of a report against exact counts, none if they hold.
func broken(r topkeys.Report, exact map[string]uint64, places int) string {
	sum, seen := uint64(0), map[string]bool{}
	for i, c := range r.Counts {
		key := string(c.Key)
		seen[key] = true
		sum += c.Count
		switch {
		case c.Count < exact[key] || c.Count-c.Error > exact[key]:
			return fmt.Sprintf("%s has %d, told %d-%d", key, exact[key], c.Count, c.Error)
		case c.Error > r.Total/uint64(places):
			return fmt.Sprintf("error %d of %d in %d places", c.Error, r.Total, places)
		case i > 0 && c.Count > r.Counts[i-1].Count:
			return "not in order"
		}
	}
	for key, n := range exact {
		if !seen[key] && n > r.Others {
			return fmt.Sprintf("%s has %d and is not told; others have %d at most", key, n, r.Others)
		}
	}
	if sum != r.Total {
		return fmt.Sprintf("sum %d of %d", sum, r.Total)
	}
	return ""
}

func TestBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, places := range []int{1, 2, 7, 100} {
		top, exact := build(t, places), map[string]uint64{}
		lossy := map[string]uint64{} // a Top without what a key may have had before
		for i := range 20_000 {
			key := fmt.Sprint(int(math.Exp(rng.Float64() * 7))) // about Zipf 1 over 1100 keys
			n := uint64(1 + rng.IntN(3))
			exact[key] += n
			top.AddAt(epoch, "p", []byte(key), n)
			if _, ok := lossy[key]; !ok && len(lossy) == places {
				for least := range lossy {
					delete(lossy, least)
					break
				}
			}
			lossy[key] += n
			if i%997 == 0 {
				require.Empty(t, broken(top.ReportAt(epoch), exact, places))
			}
		}
		r := top.ReportAt(epoch)
		require.Empty(t, broken(r, exact, places))
		r.Counts = r.Counts[:0]
		for key, n := range lossy {
			r.Counts = append(r.Counts, topkeys.Count{Policy: "p", Key: []byte(key), Count: n})
		}
		require.NotEmpty(t, broken(r, exact, places), "a Top that forgets must be found out")
	}
}

func TestConcurrently(t *testing.T) {
	top := build(t, 10)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				top.AddAt(epoch, "p", []byte{byte(i % 20)}, 1)
				if i%100 == 0 {
					top.ReportAt(epoch)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 4000, top.ReportAt(epoch).Total)
}

func TestMemory(t *testing.T) {
	testkit.OneGoroutine(t)
	const places = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	top := build(t, places)
	key := make([]byte, 200)
	for i := range 3 * places {
		key[0], key[1], key[2] = byte(i), byte(i>>8), byte(i>>16)
		top.AddAt(epoch, "p", key, 1)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perPlace := (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / places
	t.Logf("%.0f bytes a place", perPlace)
	require.Less(t, perPlace, 180.)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		key[3]++
		top.AddAt(epoch, "p", key, 1)
	}))
}

func BenchmarkAdd(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("places=1000/keys=%d", keys), func(b *testing.B) {
			top, i := build(b, 1000), 0
			for b.Loop() {
				i = (i + 7919) % keys
				top.AddAt(epoch, "p", []byte{byte(i), byte(i >> 8), byte(i >> 16)}, 1)
			}
		})
	}
}
