package inflight_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sketchlimit/sketchlimit/inflight"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/stretchr/testify/require"
)

func buildInflight(t testing.TB, limit, requests int) *inflight.Limiter {
	t.Helper()
	in, err := inflight.New(inflight.Config{Limit: limit, Requests: requests, Seed: 1})
	require.NoError(t, err)
	return in
}

// At most two requests of a client are served at once; the third is turned away until
// one is done.
func ExampleLimiter() {
	inflight, err := inflight.New(inflight.Config{
		Limit:    2,
		Requests: 10_000, // the most that the service ever has open, of all clients
	})
	if err != nil {
		panic(err)
	}
	serve := func(work func()) {
		hold, ok := inflight.Acquire("203.0.113.7", 1)
		defer hold.Release()
		fmt.Println(ok, inflight.Held("203.0.113.7"))
		work()
	}
	serve(func() { serve(func() { serve(func() {}) }) })
	serve(func() {})
	// Output:
	// true 1
	// true 2
	// false 2
	// true 1
}

func TestInflightSteps(t *testing.T) {
	in := buildInflight(t, 10, 100)
	holds := map[string]inflight.Hold{}
	for i, s := range []struct {
		hold string // what is acquired, or released where n is 0
		key  string
		n    int
		ok   bool
		held int // of the key, afterwards
	}{
		{"a", "k", 4, true, 4},
		{"b", "k", 6, true, 10},
		{"", "k", 1, false, 10},
		{"c", "other", 10, true, 10},
		{"a", "k", 0, true, 6},
		{"a", "k", 0, false, 6}, // once
		{"", "k", 5, false, 6},
		{"d", "k", 4, true, 10},
		{"a", "k", 0, false, 10}, // nor may it release what came after it
		{"b", "k", 0, true, 4},
		{"d", "k", 0, true, 0},
		{"d", "k", 0, false, 0},
		{"c", "other", 0, true, 0},
	} {
		if s.n == 0 {
			require.Equal(t, s.ok, holds[s.hold].Release(), "step %d", i)
		} else {
			hold, ok := in.Acquire(s.key, s.n)
			require.Equal(t, s.ok, ok, "step %d", i)
			holds[s.hold] = hold
		}
		require.Equal(t, s.held, in.Held(s.key), "step %d", i)
		require.Equal(t, s.held, in.HeldBytes([]byte(s.key)), "step %d", i)
	}
	require.False(t, inflight.Hold{}.Release(), "the zero Hold holds nothing")
	require.Equal(t, inflight.Stats{Admitted: 24, Denied: 6}, in.Stats())
	for range 3 {
		_, ok := in.Acquire("k", math.MaxInt)
		require.False(t, ok)
	}
	require.EqualValues(t, 6+3*10, in.Stats().Denied, "at most the limit each")
}

func TestInflightCostsThatCanNeverPass(t *testing.T) {
	in := buildInflight(t, 10, 100)
	for _, n := range []int{0, -1, math.MinInt, 11, math.MaxInt} {
		hold, ok := in.Acquire("k", n)
		require.False(t, ok, "%d units", n)
		require.Equal(t, inflight.Hold{}, hold)
		require.Zero(t, in.Held("k"))
	}
	_, ok := in.Acquire("k", 10)
	require.True(t, ok)
}

func TestInflightKeysOfAnyKind(t *testing.T) {
	in := buildInflight(t, 10, 100)
	acquire := func(hold inflight.Hold, ok bool) { require.True(t, ok) }
	for _, key := range []string{"", "\x00", "k", "192.0.2.7"} {
		acquire(in.Acquire(key, 1))
		acquire(in.AcquireBytes([]byte(key), 2))
		require.Equal(t, 3, in.Held(key), "the same bytes are the same key")
	}
	for _, addr := range []string{"192.0.2.1", "2001:db8::1"} {
		a := netip.MustParseAddr(addr)
		acquire(in.AcquireAddr(a, 3))
		require.Equal(t, 3, in.Held(string(a.AsSlice())))
	}
	acquire(in.AcquireAddr(netip.MustParseAddr("::ffff:192.0.2.1"), 1))
	require.Equal(t, 4, in.Held("\xc0\x00\x02\x01"), "an IPv4-mapped address is the IPv4 address")
	require.Equal(t, 6, in.Stats().Keys)
}

func TestBadInflightConfigsAreNamed(t *testing.T) {
	for _, c := range []struct {
		config inflight.Config
		want   string
	}{
		{inflight.Config{Requests: 1}, "Limit 0, must be 1 … 2147483647"},
		{inflight.Config{Limit: -1, Requests: 1}, "Limit -1, must be 1 … 2147483647"},
		{inflight.Config{Limit: 1}, "Requests 0, must be 1 … 16777216"},
		{inflight.Config{Limit: 1, Requests: 1<<24 + 1}, "Requests 16777217, must be 1 … 16777216"},
	} {
		in, err := inflight.New(c.config)
		require.EqualError(t, err, "inflight: "+c.want)
		require.Nil(t, in)
	}
}

// inflightModel drives an Limiter and a map alike, and requires the same of both.
type inflightModel struct {
	in     *inflight.Limiter
	limit  int
	counts map[string]int
	open   []openHold
	done   []inflight.Hold
}

type openHold struct {
	inflight.Hold
	key string
	n   int
}

func (m *inflightModel) acquire(t *testing.T, key string, n int) {
	room := m.in.Stats().NoRoom
	hold, ok := m.in.Acquire(key, n)
	fits := n >= 1 && m.counts[key]+n <= m.limit
	if fits != ok {
		require.True(t, fits, "over-admission of %d units of %q", n, key)
		require.Equal(t, room+uint64(n), m.in.Stats().NoRoom, "false denial of %d units of %q", n, key)
	}
	if ok {
		m.counts[key] += n
		m.open = append(m.open, openHold{hold, key, n})
	}
}

func (m *inflightModel) release(t *testing.T, i int) {
	if len(m.open) == 0 {
		return
	}
	i %= len(m.open)
	h := m.open[i]
	require.True(t, h.Release())
	m.counts[h.key] -= h.n
	m.open[i] = m.open[len(m.open)-1]
	m.open = m.open[:len(m.open)-1]
	m.done = append(m.done, h.Hold)
}

func (m *inflightModel) releaseAgain(t *testing.T, i int) {
	if len(m.done) > 0 {
		require.False(t, m.done[i%len(m.done)].Release())
	}
}

func (m *inflightModel) check(t *testing.T) {
	keys, units := 0, 0
	for key, n := range m.counts {
		require.Equal(t, n, m.in.Held(key), "%q", key)
		units += n
		keys += min(n, 1)
	}
	stats := m.in.Stats()
	require.Equal(t, [3]int{len(m.open), keys, units}, [3]int{stats.Requests, stats.Keys, int(stats.Units)})
}

// The tables are small and nearly full, so that keys stand far from home, around the end,
// and every release moves some.
func TestInflightIsExact(t *testing.T) {
	for seed := range uint64(24 / testkit.Divisor) {
		for _, requests := range []int{1, 40, 600} {
			in, err := inflight.New(inflight.Config{Limit: 5, Requests: requests, Seed: seed + 1})
			require.NoError(t, err)
			m := &inflightModel{in: in, limit: 5, counts: map[string]int{}}
			r := rand.New(rand.NewPCG(seed, 1))
			most := max(63, requests*3/2) // all entries but one
			for i := range 4000 {
				if len(m.open) < most && r.IntN(100) < 60 {
					m.acquire(t, fmt.Sprint(r.IntN(4*most)), 1+r.IntN(3))
				} else {
					m.release(t, r.IntN(most))
				}
				m.releaseAgain(t, r.IntN(10_000))
				if i%100 == 0 {
					m.check(t)
				}
			}
			for len(m.open) > 0 {
				m.release(t, 0)
			}
			m.check(t)
		}
	}
}

func FuzzInflight(f *testing.F) {
	f.Add(uint64(1), []byte("acquire and release"))
	f.Fuzz(func(t *testing.T, seed uint64, ops []byte) {
		in, err := inflight.New(inflight.Config{Limit: 3, Requests: 1, Seed: seed})
		require.NoError(t, err)
		m := &inflightModel{in: in, limit: 3, counts: map[string]int{}}
		for i, op := range ops {
			switch op % 4 {
			case 0, 1:
				m.acquire(t, string(ops[i:i+1]), int(op>>2)%5)
			case 2:
				m.release(t, int(op>>2))
			case 3:
				m.releaseAgain(t, int(op>>2))
			}
		}
		m.check(t)
	})
}

// holder is what can be raced: an Limiter, or a broken one. release tells whether it gave
// something back, and may be called by several goroutines.
type holder func(key string, n int) (release func() bool, ok bool)

// raceLimiter lets 64 goroutines acquire 1 … 3 units, each second time of one of 50 keys,
// hold some of them for a while and release each of them twice, on two goroutines.
// It returns how often a key held more than the limit, and how many more releases
// there were than acquired holds.
func raceLimiter(acquire holder, keys int, limit int64, perGoroutine int) (over, surplus int64) {
	type held struct {
		release func() bool
		key, n  int
	}
	var overs, releases, acquired atomic.Int64
	holding := make([]atomic.Int64, keys)
	again := make(chan func() bool, 64)
	release := func(f func() bool) {
		if f() {
			releases.Add(1)
		}
	}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			var mine []held
			drop := func(i int) {
				h := mine[i]
				mine[i] = mine[len(mine)-1]
				mine = mine[:len(mine)-1]
				holding[h.key].Add(-int64(h.n)) // before it is true, so that the judge never counts too much
				select {
				case again <- h.release:
				case f := <-again:
					release(f)
				}
				release(h.release)
			}
			for range perGoroutine {
				h := held{nil, r.IntN(keys), 1 + r.IntN(3)}
				if r.IntN(2) == 0 {
					h.key = r.IntN(4) // so few that a goroutine alone meets the limit
				}
				f, ok := acquire(keyName(int64(h.key)), h.n)
				if ok {
					if h.release = f; holding[h.key].Add(int64(h.n)) > limit {
						overs.Add(1)
					}
					acquired.Add(1)
					mine = append(mine, h)
				}
				if len(mine) > 0 && (!ok || len(mine) > 40) {
					drop(r.IntN(len(mine)))
				}
			}
			for len(mine) > 0 {
				drop(0)
			}
		})
	}
	wg.Wait()
	close(again)
	for f := range again {
		release(f)
	}
	return overs.Load(), releases.Load() - acquired.Load()
}

func TestInflightNeverExceedsTheLimit(t *testing.T) {
	const keys, limit = 100_000, 10
	in := buildInflight(t, limit, 5000)
	over, surplus := raceLimiter(func(key string, n int) (func() bool, bool) {
		hold, ok := in.Acquire(key, n)
		return hold.Release, ok
	}, keys, limit, 20_000/testkit.Divisor)
	require.Zero(t, over)
	require.Zero(t, surplus, "each hold is released once")
	stats := in.Stats()
	require.Greater(t, stats.Denied, stats.Admitted/10, "the limit was in force")
	require.Zero(t, stats.NoRoom)
	stats.Admitted, stats.Denied = 0, 0
	require.Equal(t, inflight.Stats{}, stats, "back to zero")
	for key := range int64(keys) {
		require.Zero(t, in.Held(keyName(key)))
	}
}

// brokenInflight is exact but for one of two things that are easy to get wrong.
type brokenInflight struct {
	mu                  sync.Mutex
	counts              map[string]int
	readsFirst, forgets bool
}

func (b *brokenInflight) acquire(key string, n int) (release func() bool, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts[key]+n > 10 {
		return nil, false
	}
	if b.readsFirst { // and adds in a second step
		b.mu.Unlock()
		for range 50 {
			runtime.Gosched()
		}
		b.mu.Lock()
	}
	b.counts[key] += n
	released := false
	return func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if released && !b.forgets { // that it has been released
			return false
		}
		released = true
		b.counts[key] -= n
		return true
	}, true
}

func TestRaceSeesBrokenInflights(t *testing.T) {
	for name, b := range map[string]*brokenInflight{"none": {}, "reads first": {readsFirst: true}, "forgets": {forgets: true}} {
		b.counts = map[string]int{}
		over, surplus := raceLimiter(b.acquire, 100_000, 10, 1000)
		require.Equal(t, b.readsFirst || b.forgets, over > 0, name)
		require.Equal(t, b.forgets, surplus > 0, name)
	}
}

// Of many copies released at once, one gives back.
func TestCopiesOfAHoldAreOneHold(t *testing.T) {
	in := buildInflight(t, 10, 100)
	_, ok := in.Acquire("k", 3) // stays
	require.True(t, ok)
	for range 500 {
		hold, ok := in.Acquire("k", 7)
		require.True(t, ok)
		var once atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if hold.Release() {
					once.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, once.Load())
		require.Equal(t, 3, in.Held("k"))
	}
}

// Nobody is denied for want of room with Requests in flight, were they all of different
// keys or of the same. At 65,536 different keys a shard has 384 with a chance of 5e-14,
// and a request that finds 2 of 3 tickets taken draws 64 of those with one of 5e-12:
// 1e-6 for all requests here together.
func TestInflightHasRoomForRequests(t *testing.T) {
	for _, requests := range []int{1, 2, 100, 511, 512, 513, 1000, 65_536} {
		many, one := buildInflight(t, 1, requests), buildInflight(t, requests, requests)
		for i := range requests {
			if i == requests-1 { // the last one
				require.Less(t, max(many.Stats().FalseDenialRate, one.Stats().FalseDenialRate), 1e-11)
			}
			_, ok := many.Acquire(keyName(int64(i)), 1)
			require.True(t, ok, "key %d of %d", i, requests)
			_, ok = one.Acquire("k", 1)
			require.True(t, ok, "request %d of %d", i, requests)
		}
	}
}

// Once there is no room, requests are denied, and it comes back.
func TestInflightRunsOutOfRoom(t *testing.T) {
	for _, requests := range []int{1, 1000} {
		in := buildInflight(t, 2, requests)
		var holds []inflight.Hold
		for i := range 10 * max(requests, 1000) {
			if hold, ok := in.Acquire(keyName(int64(i)), 2); ok {
				holds = append(holds, hold)
			}
		}
		stats := in.Stats()
		require.InDelta(t, 1, stats.FalseDenialRate, 1e-9, "full")
		require.Equal(t, stats.Denied, stats.NoRoom)
		require.Less(t, len(holds), 1600)
		for _, hold := range holds {
			require.True(t, hold.Release())
		}
		require.Zero(t, in.Stats().FalseDenialRate)
		_, ok := in.Acquire("k", 2)
		require.True(t, ok)
	}
}

// Given what is in flight, new keys are independent draws, so of n of them a binomially
// distributed number is denied; 6 standard deviations are passed once in 5e8 runs,
// and a rate that is off by a tenth would. There are two ways to run out of room.
func TestInflightKnowsItsFalseDenialRate(t *testing.T) {
	testkit.Computes(t)
	const n = 50_000
	for name, c := range map[string]struct{ keys, unitsEach int }{"entries": {95_000, 1}, "tickets": {97, 1000}} {
		in := buildInflight(t, 1000, 65_536)
		for key := range c.keys {
			for range c.unitsEach {
				in.Acquire(keyName(int64(key)), 1)
			}
		}
		rate := in.Stats().FalseDenialRate
		denied := 0
		for i := range n {
			hold, ok := in.Acquire(fmt.Sprint("new ", i), 1)
			if hold.Release(); !ok {
				denied++
			}
		}
		fits := func(p float64) bool {
			return math.Abs(float64(denied)-n*p) <= 6*math.Sqrt(n*p*(1-p))
		}
		t.Logf("%s: stated %.5f, measured %.5f", name, rate, float64(denied)/n)
		require.True(t, fits(rate), name)
		require.False(t, fits(0.9*rate) && fits(1.1*rate), name)
	}
}

func TestInflightAllocatesNothing(t *testing.T) {
	in := buildInflight(t, 3, 1000)
	key, bytes, addr := "198.51.100.255", []byte("198.51.100.254"), netip.MustParseAddr("2001:db8::1%eth0")
	for name, f := range map[string]func(){
		"string": func() { hold, _ := in.Acquire(key, 1); hold.Release(); hold.Release() },
		"bytes":  func() { hold, _ := in.AcquireBytes(bytes, 1); defer hold.Release() },
		"addr":   func() { hold, _ := in.AcquireAddr(addr, 1); hold.Release() },
		"denied": func() { hold, _ := in.Acquire(key, 4); hold.Release() },
		"kept":   func() { in.Acquire("kept", 1) },
		"held":   func() { in.Held(key) },
		"stats":  func() { in.Stats() },
	} {
		require.Zero(t, testing.AllocsPerRun(1000, f), name)
	}
}

func TestInflightSeeds(t *testing.T) {
	denied := func(seed uint64) (which []int) {
		in, err := inflight.New(inflight.Config{Limit: 1, Requests: 1000, Seed: seed})
		require.NoError(t, err)
		for i := range 2000 {
			if _, ok := in.Acquire(fmt.Sprint(i), 1); !ok {
				which = append(which, i)
			}
		}
		return which
	}
	require.Equal(t, denied(5), denied(5))
	require.NotEqual(t, denied(5), denied(6))
	require.NotEqual(t, denied(0), denied(0), "drawn")
}

// Neighbouring shards do not share a cache line, and a hold is passed in registers.
func TestInflightSizes(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("words of 32 bits")
	}
	shards, _ := reflect.TypeFor[inflight.Limiter]().FieldByName("shards")
	require.EqualValues(t, 64, shards.Type.Elem().Size())
	require.EqualValues(t, 32, reflect.TypeFor[inflight.Hold]().Size())
}

func TestInflightMemoryIsAsStated(t *testing.T) {
	testkit.OneGoroutine(t)
	if math.MaxInt == math.MaxInt32 {
		t.Skip("memory is stated for machines of 64 bits")
	}
	for _, requests := range []int{1, 100, 511, 512, 5000, 200_000} {
		all := make([]*inflight.Limiter, max(1, 20_000/requests))
		before := testkit.Heap()
		for i := range all {
			all[i] = buildInflight(t, 10, requests)
		}
		grown := testkit.Heap() - before
		require.InEpsilon(t, grown, len(all)*all[0].MemoryBytes(), 0.02, "%d requests", requests)
		if requests == 200_000 {
			require.InDelta(t, 36.3, float64(all[0].MemoryBytes())/float64(requests), 0.5)
		}
		for i := range 2 * requests {
			all[0].Acquire(keyName(int64(i)), 1)
		}
		require.InDelta(t, grown, testkit.Heap()-before, 32<<10, "it does not grow")
		runtime.KeepAlive(all)
	}
}

func BenchmarkInflight(b *testing.B) {
	for _, open := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprintf("requests=1e5/open=%d", open), func(b *testing.B) {
			in := buildInflight(b, 10, 100_000)
			for i := range open {
				in.Acquire(fmt.Sprint(i), 1)
			}
			keys := make([]string, 1<<16)
			for i := range keys {
				keys[i] = fmt.Sprint("key ", i)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.IntN(1 << 16); pb.Next(); i++ {
					hold, _ := in.Acquire(keys[i&(1<<16-1)], 1)
					hold.Release()
				}
			})
		})
	}
}

func keyName(i int64) string {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(i)*0x9e3779b97f4a7c15)
	return string(b[:])
}
