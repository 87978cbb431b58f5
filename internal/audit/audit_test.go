package audit

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

const (
	quota  = 10
	minute = int64(time.Minute)
)

// limiter is an exact one of keys by their hashes, which grants some a unit too many.
type limiter interface {
	take(h uint64, at, n, limit, more int64) bool
}

type exactly[S any] struct {
	kind kind[S]
	keys map[uint64]*S
}

func (l *exactly[S]) take(h uint64, at, n, limit, more int64) bool {
	s := l.keys[h]
	if s == nil {
		fresh := l.kind.initial(make([]int64, l.kind.words()))
		s = &fresh
		l.keys[h] = s
	}
	if n > limit || !l.kind.fits(l.kind.used(s, at), max(0, n-more), limit) {
		return false
	}
	l.kind.spend(s, at, n, limit)
	return true
}

// audited is a limiter and its audit.
type audited struct {
	*Audit
	limiter limiter
}

var names = []string{"fixed", "sliding", "slots", "bucket"}

func newAudited(t testing.TB, name string, bytes int) audited {
	var l audited
	switch name {
	case "fixed":
		w := exactmath.NewFixedWindow(quota, minute)
		l = audited{Window(quota, minute, 1, bytes), &exactly[exactmath.WindowCount]{fixed{window[exactmath.WindowCount]{&w, quota}}, map[uint64]*exactmath.WindowCount{}}}
	case "sliding":
		w := exactmath.NewSlidingWindow(quota, minute)
		l = audited{Window(quota, minute, 2, bytes), &exactly[exactmath.WindowPair]{sliding{window[exactmath.WindowPair]{&w, quota}}, map[uint64]*exactmath.WindowPair{}}}
	case "slots":
		w := exactmath.NewSlots(quota, minute/6, 6)
		l = audited{Window(quota, minute/6, 7, bytes), &exactly[exactmath.Ring]{slots{window[exactmath.Ring]{&w, quota}, 6}, map[uint64]*exactmath.Ring{}}}
	case "bucket":
		g, err := exactmath.NewGCRA(quota, minute, quota)
		require.NoError(t, err)
		l = audited{Bucket(quota, minute, quota, minute, bytes), &exactly[exactmath.Arrival]{&bucket{g, quota, quota}, map[uint64]*exactmath.Arrival{}}}
	}
	l.Start()
	return l
}

// take asks the limiter, which denies some wrongly, and tells the audit.
func (l audited) take(h uint64, at, n, limit, more int64, wrongly bool) (admitted bool) {
	admitted = !wrongly && l.limiter.take(h, at, n, limit, more)
	if l.Sampled(h) {
		l.Count(Event{Hash: h, At: at, N: n, Limit: limit, Admitted: admitted})
	}
	return admitted
}

// requests calls f for random requests of keys over some minutes.
func requests(seed uint64, keys, n, minutes int, f func(i int, h uint64, at int64)) {
	r, hash := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	hashes := make([]uint64, keys)
	for i := range hashes {
		hashes[i] = hash.Uint64()
	}
	for i := range n {
		f(i, hashes[r.IntN(keys)], 1_700_000_000*int64(time.Second)+int64(i)*int64(minutes)*minute/int64(n))
	}
}

// Of an exact limiter no audit complains, whatever requests cost and at whatever
// limits; and what it has counted for all keys is about what they have done, also where
// the slice halves meanwhile.
func TestExactLimiterHasNoFaults(t *testing.T) {
	for _, name := range names {
		for _, keys := range []int{20, 20_000} {
			t.Run(fmt.Sprint(name, keys), func(t *testing.T) {
				l, r := newAudited(t, name, 32<<10), rand.New(rand.NewPCG(3, 4))
				units := 0
				requests(1, keys, 200_000, 4, func(_ int, h uint64, at int64) {
					n, limit := 1+r.Int64N(3), quota-r.Int64N(2)*r.Int64N(quota)
					if l.take(h, at, n, limit, 0, false) {
						units += int(n)
					}
				})
				c := l.Counts()
				require.Zero(t, c.Denied)
				require.Zero(t, c.Over)
				require.Equal(t, c.Exact, c.Admitted)
				require.Positive(t, c.Requests)
				require.InEpsilon(t, units, float64(c.Admitted), 0.2)
				if keys == 20 {
					require.EqualValues(t, units, c.Admitted)
					require.Equal(t, 1., l.Share())
				} else {
					require.Less(t, l.Share(), 0.1)
				}
			})
		}
	}
}

// A limiter that grants a hundredth of the keys a unit too many is noticed within a
// window of 100,000 requests.
func TestUnitsTooManyAreNoticed(t *testing.T) {
	var log bytes.Buffer
	var lines sync.Mutex
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(locked{&log, &lines}, nil)))
	for _, name := range names {
		for seed := range uint64(10) {
			l := newAudited(t, name, map[bool]int{true: 256 << 10, false: 64 << 10}[name == "slots"])
			requests(seed, 5000, 100_000, 1, func(_ int, h uint64, at int64) {
				l.take(h, at, 1, quota, int64(b2i(h%100 == 0)), false)
			})
			require.Positive(t, l.Counts().Over, "%s %d", name, seed)
		}
	}
	require.Eventually(t, func() bool {
		lines.Lock()
		defer lines.Unlock()
		return bytes.Count(log.Bytes(), []byte("\n")) == len(names)*10
	}, 10*time.Second, time.Millisecond, "a line for each limiter")
}

// locked is a writer that can be read meanwhile.
type locked struct {
	io.Writer
	*sync.Mutex
}

func (l locked) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Writer.Write(p)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The interval holds the rate of all keys, which an audit of them all counts: where the
// slice has halved often and where never, and where the rate rises meanwhile. The
// denials of a key come together: a key is denied wrongly all the time or never.
func TestRateIsThatOfAllKeys(t *testing.T) {
	outside, all := 0, 0
	for _, name := range names {
		for _, keys := range []int{300, 10_000} {
			for seed := range uint64(10) {
				few, whole := newAudited(t, name, 16<<10), newAudited(t, name, 16<<20)
				requests(seed, keys, 12*keys, 3, func(i int, h uint64, at int64) {
					wrongly := h%1000 < uint64(100*i/(12*keys))
					admitted := few.take(h, at, 1, quota, 0, wrongly)
					whole.Count(Event{Hash: h, At: at, N: 1, Limit: quota, Admitted: admitted})
				})
				require.Equal(t, 1., whole.Share())
				c, truth := few.Counts(), whole.Counts()
				rate, low, high := c.Rate()
				actual, _, _ := truth.Rate()
				require.Greater(t, actual, 0.01, "%s, %d keys, seed %d: %+v", name, keys, seed, truth)
				if all++; actual < low || actual > high {
					outside++
					t.Logf("%s, %d keys: %.3g, audited %.3g, %.3g … %.3g", name, keys, actual, rate, low, high)
				}
				if keys > 1000 && name != "slots" { // of which few keys are sampled
					require.InEpsilon(t, truth.Exact-truth.Admitted, float64(c.Exact-c.Admitted), 0.6, "lost")
				}
			}
		}
	}
	require.LessOrEqual(t, outside, 1, "of %d: one in a thousand is", all)
}

func TestRate(t *testing.T) {
	rate, low, high := Counts{}.Rate()
	require.Equal(t, [3]float64{0, 0, 1}, [3]float64{rate, low, high})
	// some are requests of as many keys, of which some were denied, so many at a time.
	some := func(requests, denied uint64, together float64) Counts {
		return Counts{Requests: requests, Denied: denied, Squares: Squares{
			requestsSquared: float64(requests), requestsDenied: float64(denied), deniedSquared: float64(denied) * together, weightsSquared: float64(requests),
		}}
	}
	for _, c := range []struct {
		Counts
		low, high float64 // of Poisson's law, both tails 0.0005
	}{
		{some(1_000_000, 0, 1), 0, 7.601e-6},
		{some(1_000_000, 1, 1), 0.0005e-6, 10.00e-6},
		{some(1_000_000, 10, 1), 2.699e-6, 25.26e-6},
		{some(1_000_000, 100, 1), 70.33e-6, 137.4e-6},
	} {
		_, low, high := c.Rate()
		require.InDelta(t, c.low, low, 0.03*c.low+1e-9)
		require.InEpsilon(t, c.high, high, 0.05)
	}
	_, low, high = some(1_000_000, 100, 10).Rate()
	require.InEpsilon(t, 26.99e-6, low, 0.05)
	require.InEpsilon(t, 252.6e-6, high, 0.05)
}

// The slice opens when fewer keys come, and what it opens for counts two windows later.
func TestSliceOpens(t *testing.T) {
	l := newAudited(t, "sliding", 8<<10)
	base := 1_700_000_040 * int64(time.Second)
	at := func(w int) int64 { return base + int64(w)*minute }
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		l.take(r.Uint64(), at(0), 1, quota, 0, false)
	}
	narrow := l.Share()
	require.Less(t, narrow, 0.05)
	keys := make([]uint64, 10)
	for i := range keys {
		keys[i] = r.Uint64()
	}
	shares := []float64{}
	for w := range 14 {
		for _, h := range keys {
			for range 5 {
				l.take(h, at(w+1), 1, quota, 0, false)
			}
		}
		l.Reach(at(w + 1)) // it may be that none of the keys is in the slice
		shares = append(shares, l.Share())
	}
	require.Equal(t, narrow, shares[0])
	require.IsIncreasing(t, append([]float64{0}, dedup(shares)...))
	require.Equal(t, 1., shares[len(shares)-1])
	c := l.Counts()
	require.Zero(t, c.Over+c.Denied, "no key is judged by a part of what it has used")
}

func dedup(x []float64) (unlike []float64) {
	for i, v := range x {
		if i == 0 || v != x[i-1] {
			unlike = append(unlike, v)
		}
	}
	return unlike
}

// After a restart nothing is judged until what nobody has seen counts no more.
func TestForget(t *testing.T) {
	for _, name := range names {
		l := newAudited(t, name, 8<<10)
		base := 1_700_000_040 * int64(time.Second)
		for range quota { // before the restart
			l.limiter.take(1, base+minute/2, 1, quota, 0)
		}
		l.Forget()
		for i := range int64(200) {
			l.take(1, base+minute/2+i*minute/20+i/100*5*minute, 1, quota, 0, false) // a bucket is to be full once
		}
		c := l.Counts()
		require.Zero(t, c.Denied+c.Over, name)
		require.Positive(t, c.Exact, name)

		next := newAudited(t, name, 8<<10)
		next.Follow(l.Audit)
		require.Equal(t, c, next.Counts())
		require.False(t, l.Sampled(1), "the former one has ended")
	}
}

// After a restart a bucket's key is taken to have used all it may, until that would
// have flowed back. That is not to come back with a clock that steps back, and a key
// that counts then weighs as all of the slice do.
func TestForgottenBucketWhoseClockStepsBack(t *testing.T) {
	l := newAudited(t, "bucket", 8<<10)
	base := 1_700_000_040 * int64(time.Second)
	l.Forget()
	l.Count(Event{Hash: 1, At: base, N: quota, Limit: quota}) // denied
	require.Zero(t, l.Counts().Keys)
	l.Count(Event{Hash: 1, At: base + 2*minute, N: quota, Limit: quota}) // denied again, and sure now
	require.Equal(t, 1., l.Share())
	require.EqualValues(t, 1, l.Counts().Keys)
	l.Count(Event{Hash: 1, At: base + minute/2, N: quota, Limit: quota, Admitted: true})
	require.Zero(t, l.Counts().Over)
	l.Count(Event{Hash: 1, At: base + minute/2, N: 1, Limit: quota, Admitted: true})
	require.EqualValues(t, 1, l.Counts().Over)
}

// Charges are no decisions, and count as far as a limiter counts them.
func TestCharges(t *testing.T) {
	for _, name := range names {
		l := newAudited(t, name, 8<<10)
		base := 1_700_000_040 * int64(time.Second)
		l.Count(Event{Hash: 5, At: base, N: 100 * quota, Limit: quota, Charge: true})
		require.Zero(t, l.Counts().Requests)
		l.Count(Event{Hash: 5, At: base, N: 1, Limit: quota, Admitted: true})
		require.EqualValues(t, 1, l.Counts().Over, name)
		l.Count(Event{Hash: 5, At: base + 3*minute, N: 1, Limit: quota, Admitted: true})
		require.EqualValues(t, 1, l.Counts().Over, name)
		l.Count(Event{Hash: 6, At: base, N: 1, Held: quota, Limit: quota, Admitted: true, Use: Later})
		require.EqualValues(t, 2, l.Counts().Over, "%s: held units are in use", name)
	}
}

func TestCountAllocatesNothing(t *testing.T) {
	for _, name := range names {
		l, h := newAudited(t, name, 16<<10), uint64(0)
		require.Zero(t, testing.AllocsPerRun(5000, func() {
			h += 0x9e3779b97f4a7c15
			if l.Sampled(h) {
				l.Count(Event{Hash: h, At: int64(h >> 20), N: 1, Limit: quota, Admitted: true})
			}
		}), name)
	}
}

func TestNoMemorySamplesNothing(t *testing.T) {
	for _, bytes := range []int{-1, 0, 500} {
		a := Window(quota, minute, 2, bytes)
		a.Start()
		require.Zero(t, a.Bytes())
		require.Zero(t, a.Share())
		require.False(t, a.Sampled(0) || a.Sampled(math.MaxUint64))
		a.Forget()
		require.Equal(t, Counts{}, a.Counts())
	}
	require.Zero(t, Bucket(1<<30, math.MaxInt64/3, 1<<30, 1, 1<<20).Bytes(), "it cannot be counted exactly")
}

// Goroutines that share an audit, each with keys of its own, count all that they do.
func TestConcurrentUse(t *testing.T) {
	a := Window(quota, minute, 2, 64<<10)
	a.Start()
	var all sync.WaitGroup
	for g := range uint64(8) {
		all.Go(func() {
			l := newAudited(t, "sliding", 0)
			l.Audit = a
			requests(g+100, 500, 20_000, 3, func(_ int, h uint64, _ int64) { l.take(h, 1_700_000_000*int64(time.Second), 1, quota, 0, false) })
			a.Lately()
		})
	}
	all.Wait()
	c := a.Counts()
	require.Zero(t, c.Over+c.Denied)
	require.Positive(t, c.Requests)
}
