package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// sparingFace returns an engine with DenyProven, of one shard.
func sparingFace(t testing.TB, rule spec.Rule, d spec.Dimensions) *face {
	return faceOf(t, overCapacityOf(rule, &overcapacity.Episodes{Rate: 1e-4, Lowest: rule.Limit}), d)
}

// overCapacityOf returns a rule that denies, over capacity, only keys that are proven over their limit.
func overCapacityOf(rule spec.Rule, s *overcapacity.Episodes) spec.Rule {
	rule.OverCapacity = s
	return rule
}

// begun makes a shard over capacity.
func begun(r request) { r.state().Begin(r.s.admitted, 0) }

// oneShard are dimensions of a shard with a few hundred cells.
func oneShard(limit int64) spec.Dimensions {
	return spec.Dimensions{
		Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 3, Width: 128, CellBits: spec.CellBits(int(limit)),
		HeavyEntries: 64, PromoteAt: max(1, int(limit)/6),
	}
}

// oneBucket returns an engine with DenyProven, of a shard whose table is one bucket.
func oneBucket(t testing.TB) *face {
	d := oneShard(100)
	d.Width, d.HeavyEntries = 32, heavyhitter.BucketEntries
	f := sparingFace(t, sliding(100, time.Second), d)
	require.EqualValues(t, 1, f.heavy.Buckets())
	f.now = f.now.Truncate(time.Second).Add(time.Second / 2)
	f.take("first", 1)
	begun(f.at(0))
	return f
}

// crowd sends a request for n units of so many keys that nobody else sends, until the shard is over capacity, and returns
// whether it was.
func (f *face) crowd(keys, n int, random *rand.Rand) bool {
	for range keys {
		f.take(fmt.Sprint("crowd ", random.Uint64()), n)
		if f.at(0).state().Mode() != overcapacity.Exact {
			return true
		}
	}
	return false
}

// A look tells what a request would be told that makes its shard is over capacity, and does not begin itself: others
// whose denials are remembered would not be told.
func TestPeekDoesNotBeginToSpare(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, rule := range []spec.Rule{sliding(100, time.Second), fixed(100, time.Second)} {
		f := sparingFace(t, rule, oneShard(rule.Limit))
		foretold := false
		for i := 0; !foretold; i++ {
			require.Less(t, i, 100_000)
			key := fmt.Sprint(random.Uint64())
			told := f.peek(key, 10)
			require.Equal(t, overcapacity.Exact, f.at(0).state().Mode())
			took := f.take(key, 10)
			require.Equal(t, told.Allowed, took.Allowed)
			if f.at(0).state().Mode() != overcapacity.Exact {
				foretold = true
				require.True(t, told.Allowed)
			}
		}
	}
}

// A look finds that too many are denied from about the rate on that it is told. It reads a sample of cells, so it may err.
func TestLookKnowsTheRate(t *testing.T) {
	testkit.OneGoroutine(t)
	const fresh, cost = 20_000, 10
	for _, rule := range []spec.Rule{sliding(100, time.Hour), fixed(100, time.Hour)} {
		random := rand.New(rand.NewPCG(3, 4))
		episodes := &overcapacity.Episodes{Rate: 1, Lowest: rule.Limit}
		f := faceOf(t, overCapacityOf(rule, episodes), oneShard(rule.Limit))
		for range 40 { // generations, so that it knows what requests are like
			f.crowd(200, cost, random)
			f.now = f.now.Add(time.Hour)
		}
		measured := 0.
		for measured < 1e-3 {
			for range 4 {
				f.take(fmt.Sprint("crowd ", random.Uint64()), cost)
			}
			denied := 0
			for range fresh {
				if (window{f.at(random.Uint64())}).used(f.position(), nil).free < cost {
					denied++
				}
			}
			measured = float64(denied) / fresh
		}
		r, p := f.at(0), f.position()
		looksThatFind := func(rate float64) (looks int) {
			episodes.Rate = rate / 16 // after a sixty-fourth of a window, the average over a quarter is a sixteenth
			r.state().Look(0, 0, 1, r.s.admitted, 0, 0)
			fresh := *r.state()
			for range 50 {
				r.s.admitted++ // other cells are looked at
				*r.state() = fresh
				if (overCapacity{r}).tooMany(p) {
					looks++
				}
			}
			return looks
		}
		below, above := looksThatFind(100*measured), looksThatFind(measured/10)
		t.Logf("%g measured; of 50 looks %d find 100 times as much, and %d a tenth of it", measured, below, above)
		require.Less(t, below, 3)
		require.Greater(t, above, 10)

		episodes.Rate = 1
		require.False(t, f.crowd(100, cost, random))
		f.now = f.now.Add(time.Hour)
		f.take("somebody", 1)
		p = f.position() // what the generation before has left counts in a sliding window
		require.Equal(t, rule.Ring.Buffers() > 1, looksThatFind(1e-6) > 0)
		require.Equal(t, overcapacity.Exact, r.state().Mode())
	}
}

// A shard of a limiter that can grow asks for that and denies; when there is nothing larger, it denies proven keys only. It looks after a
// while, too, if nothing was admitted meanwhile.
func TestSpareGrowsFirst(t *testing.T) {
	const cost = 10
	random := rand.New(rand.NewPCG(5, 6))
	asked := 0
	episodes := &overcapacity.Episodes{Rate: 1e-4, Lowest: 100, Grow: func() { asked++ }}
	f := faceOf(t, overCapacityOf(sliding(100, time.Second), episodes), oneShard(100))
	require.False(t, f.crowd(10_000, cost, random))
	require.NotZero(t, asked)
	f.now = f.now.Add(time.Second / 2)
	for f.crowd(1000, cost, random); f.allow(fmt.Sprint(random.Uint64()), cost); { // until nobody is admitted
		require.False(t, f.crowd(1000, cost, random))
	}
	episodes.SetFull(true)
	require.False(t, f.allow(fmt.Sprint(random.Uint64()), cost))
	f.now = f.now.Add(time.Second / 64)
	require.True(t, f.allow(fmt.Sprint(random.Uint64()), cost))
	require.NotEqual(t, overcapacity.Exact, f.at(0).state().Mode())
}

// A shard that was over capacity is exact when all generations have gone in which it was: those count still.
func TestSpareEnds(t *testing.T) {
	for _, rule := range []spec.Rule{sliding(100, time.Second), fixed(100, time.Second)} {
		f := sparingFace(t, rule, oneShard(rule.Limit))
		require.True(t, f.crowd(10_000, 10, rand.New(rand.NewPCG(5, 6))))
		last := f.now // when it was over capacity
		for f.at(0).state().Mode() != overcapacity.Exact {
			f.now = f.now.Add(time.Second)
			f.take("somebody", 1)
			if f.Episode(f.position()).Active {
				last = f.now
			}
		}
		require.Equal(t, time.Second, last.Sub(time.Unix(0, 0)), "a generation that is calm, and not one more")
		require.Equal(t, last.Add(time.Duration(rule.Ring.Buffers())*time.Second).UnixNano(), f.Episode(f.position()).Exact)
		require.Equal(t, f.Episode(f.position()).Exact, f.now.UnixNano())
	}
}

// A shard says when it was over capacity last, as long as that matters.
func TestLastOverCapacity(t *testing.T) {
	f := sparingFace(t, sliding(100, time.Second), oneShard(100))
	f.now = f.now.Add(8 * time.Second)
	f.take("somebody", 1)
	_, ok := ShardsOf(f.Engine).LastOverCapacity()
	require.False(t, ok)
	require.True(t, f.crowd(10_000, 10, rand.New(rand.NewPCG(5, 6))))
	now := f.position().Generation
	last, ok := ShardsOf(f.Engine).LastOverCapacity()
	require.True(t, ok)
	require.Equal(t, now, last)
	for f.at(0).state().Mode() == overcapacity.Over {
		now, f.now = f.position().Generation, f.now.Add(time.Second)
		f.take("somebody", 1)
	}
	require.Equal(t, overcapacity.Settling, f.at(0).state().Mode(), "what it admitted over capacity counts still")
	require.Equal(t, f.OverCapacity.Save().Last, now)
	last, ok = ShardsOf(f.Engine).LastOverCapacity()
	require.True(t, ok)
	require.Equal(t, now, last, "it is over capacity no more")
}

// A shard is over capacity until a generation with a tenth fewer units than it began with. Then its cells begin anew.
func TestSparesWhileTheLoadLasts(t *testing.T) {
	for _, rule := range []spec.Rule{sliding(100, time.Second), fixed(100, time.Second)} {
		f := sparingFace(t, rule, oneShard(rule.Limit))
		random := rand.New(rand.NewPCG(5, 6))
		require.True(t, f.crowd(10_000, 10, random))
		f.now = f.now.Add(time.Second)
		for _, of := range []struct {
			units float64 // over those that the shard began with
			over  bool
		}{{1.1, true}, {1.1, true}, {0.95, true}, {0.85, false}} {
			for units := of.units * float64(f.at(0).state().Capacity(minCapacity(&f.layout))); units > 0; units -= 10 {
				f.take(fmt.Sprint("crowd ", random.Uint64()), 10)
			}
			f.now = f.now.Add(time.Second)
			f.take("somebody", 1)
			require.Equal(t, of.over, f.at(0).isOverCapacity())
			require.Equal(t, of.over, f.Episode(f.position()).Active)
		}
		require.Equal(t, 0., sampler{f.at(0)}.noiseRate(f.position()))
	}
}

// What a key has used of the predecessor of a grown engine certifies it as well.
func TestSparedKeysAreCertifiedByThePredecessor(t *testing.T) {
	for _, rule := range []spec.Rule{sliding(100, time.Hour), fixed(100, time.Hour)} {
		before, after := sparingFace(t, rule, oneShard(rule.Limit)), sparingFace(t, rule, oneShard(rule.Limit))
		for range 90 {
			require.True(t, before.allow("key", 1))
		}
		after.follow(before.Engine, nil)
		begun(after.at(0))
		admitted := 0
		for admitted < 200 && after.allow("key", 1) {
			admitted++
		}
		require.Less(t, admitted, 60) // up to the threshold of either table nothing certifies it
		require.GreaterOrEqual(t, admitted, 10)
	}
}

// What a key asks for and could not have, were it alone, certifies nothing: neither requests for more than the limit nor such
// as do not fit beside what it has used. So it gets all of its limit, and no more.
func TestRequestsInVainCertifyNothing(t *testing.T) {
	for _, limit := range []int{100, 10_000} { // counted overcapacity.Exact, and in steps
		f := sparingFace(t, sliding(limit, time.Hour), oneShard(int64(limit)))
		part := limit / 20
		for range 9 {
			require.True(t, f.allow("key", part))
		}
		r := f.at(f.hasher.String("key"))
		entry := r.e.heavy.Find(r.entries(), r.h)
		require.NotNil(t, entry)
		certain := window{r}.offered(f.position(), *entry)
		require.NotZero(t, certain)
		begun(r)
		for range 100 {
			require.False(t, f.allow("key", limit+1))
			require.False(t, f.allow("key", limit-int(certain)+part))
		}
		require.Equal(t, certain, window{r}.offered(f.position(), *entry))
		admitted := 0
		for f.allow("key", part) {
			admitted += part
		}
		require.InDelta(t, limit-int(certain), admitted, float64(part))
	}
}

// A shard beside a predecessor finds that too many are denied by what keys read in both together: either of them is far from
// its limit.
func TestLookKnowsWhatThePredecessorHasCounted(t *testing.T) {
	for _, rule := range []spec.Rule{sliding(100, time.Hour), fixed(100, time.Hour)} {
		random := rand.New(rand.NewPCG(1, 2))
		before, after := sparingFace(t, rule, oneShard(rule.Limit)), sparingFace(t, rule, oneShard(rule.Limit))
		after.Engine.SetApart()
		for _, f := range []*face{before, after} { // strangers read about 70 units
			for (window{f.at(random.Uint64())}).used(f.position(), nil).free > 30 {
				require.False(t, f.crowd(20, 10, random))
			}
		}
		r, p := after.at(random.Uint64()), after.position()
		require.Less(t, sampler{r}.noiseRate(p), 0.1)
		require.Less(t, (&predecessor{e: before.Engine}).noiseRate(p, r.h), 0.1)
		after.follow(before.Engine, nil)
		require.Greater(t, sampler{r}.noiseRate(p), 0.5)
		require.True(t, after.crowd(20, 10, random))
		require.Equal(t, 0., testing.AllocsPerRun(10, func() { sampler{r}.noiseRate(p) }))
	}
}

// The units admitted over capacity never become fewer, and none counts twice, while shards end and readers ask.
func TestSparedUnitsOnlyRise(t *testing.T) {
	d := oneShard(100)
	d.Shards = 16
	f := sparingFace(t, fixed(100, time.Second), d)
	var units, spun atomic.Uint64
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for last := uint64(0); ; {
			now := f.Episode(rotating.Position{}).Units
			if now < last || now > units.Load() {
				t.Errorf("%d units after %d, of %d at most", now, last, units.Load())
			}
			last = now
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range 2000 / testkit.Divisor {
		for i := range f.shards {
			r := f.request(i, 0)
			units.Add(10)
			r.s.mu.Lock()
			r.state().Begin(r.s.admitted, 0)
			r.s.admitted += 10
			r.s.mu.Unlock()
		}
		for i := range f.shards {
			for range 2000 { // it takes a while until the next one ends
				spun.Add(1)
			}
			r := f.request(i, 0)
			r.s.mu.Lock()
			f.OverCapacity.End(r.state().Counted(r.s.admitted))
			*r.state() = overcapacity.Shard{}
			r.s.mu.Unlock()
		}
	}
	close(done)
	reader.Wait()
	require.Equal(t, units.Load(), f.Episode(rotating.Position{}).Units)
}

// What a key has used in the generation before certifies it in a sliding window, as far as that still counts.
func TestSparedKeysAreCertifiedByTheGenerationBefore(t *testing.T) {
	for _, rule := range []spec.Rule{sliding(100, time.Hour), fixed(100, time.Hour)} {
		f := sparingFace(t, rule, oneShard(rule.Limit))
		random := rand.New(rand.NewPCG(5, 6))
		require.True(t, f.crowd(10_000, 10, random))
		f.now = f.now.Add(time.Hour)
		f.take("another", 1)
		require.True(t, f.at(0).isOverCapacity())
		for f.allow("key", 1) {
		}
		for range 2000 {
			f.take(fmt.Sprint("crowd ", random.Uint64()), 10)
		}
		f.now = f.now.Add(time.Hour + time.Hour/4)
		admitted := 0
		for f.allow("key", 1) {
			admitted++
		}
		require.True(t, f.at(0).isOverCapacity(), "it goes on sparing")
		require.InDelta(t, map[int]int{1: 100, 2: 25}[rule.Ring.Buffers()], admitted, 1)
	}
}

// Keys are certified at each limit: one that asks for one unit after the other gets its limit, beside the request that
// makes its entry, where entries count exactly what it asks for; and otherwise about that.
func TestSparedKeysAreCertified(t *testing.T) {
	for _, limit := range []int{2, 3, 4, 5, 7, 8, 15, 16, 100, 127, 128, 1000, 1023, 1024, 2046, 2047, 4095, 8190, 10_000, 16_128, 16_129, 16_383} {
		require.True(t, heavyhitter.FitsOffered(limit))
		for _, rule := range []spec.Rule{sliding(limit, time.Hour), fixed(limit, time.Hour)} {
			f := sparingFace(t, rule, oneShard(rule.Limit))
			f.take("key of the generation before", 1)
			f.now = f.now.Add(time.Hour)
			f.take("another", 1)
			r := f.at(0)
			begun(r)
			admitted := 0
			for admitted < 3*limit && f.allow("key", 1) {
				admitted++
			}
			if limit < 1024 {
				require.Equal(t, limit+1, admitted)
			} else {
				require.InDelta(t, limit, admitted, 0.6*float64(limit))
				require.GreaterOrEqual(t, admitted, limit)
			}
			v := f.take("key", 1)
			require.False(t, v.Allowed)
			if rule.Ring.Buffers() == 1 {
				require.Equal(t, time.Duration(rule.Timeline.Length())-f.position().Elapsed, v.RetryAfter)
			}
			require.GreaterOrEqual(t, r.state().Counted(r.s.admitted), uint64(admitted))
		}
	}
	require.False(t, heavyhitter.FitsOffered(1))
	require.False(t, heavyhitter.FitsOffered(16_384))
}

// No light key is denied in a shard over capacity; a heavy one is denied in the end, however
// many others come once.
func TestSparedKeysAmongMany(t *testing.T) {
	testkit.Computes(t)
	const limit, innocents, crowd = 100, 200, 20_000
	for name, of := range map[string]struct {
		rule  spec.Rule
		burst int // requests that a key of the crowd sends
	}{
		"sliding": {sliding(limit, time.Second), 1}, "fixed": {fixed(limit, time.Second), 1},
		"sliding, bursts": {sliding(limit, time.Second), 20}, "fixed, bursts": {fixed(limit, time.Second), 20},
	} {
		t.Run(name, func(t *testing.T) {
			rule := of.rule
			random := rand.New(rand.NewPCG(5, 6))
			f := sparingFace(t, rule, oneShard(limit))
			require.True(t, f.crowd(100_000, 10, random))
			most := 0
			for range 6 { // windows
				f.now = f.now.Truncate(time.Second).Add(time.Second)
				abuser := 0
				var key string
				for i := range crowd {
					if i%of.burst == 0 {
						key = fmt.Sprint("crowd ", random.Uint64())
					}
					f.take(key, 1)
					if i%(crowd/innocents/10) == 0 {
						require.True(t, f.allow(fmt.Sprint("innocent ", random.IntN(innocents)), 1))
					}
					if i%25 == 0 && f.allow("abuser", 1) {
						abuser++
					}
					f.now = f.now.Add(time.Second / (crowd + 1))
				}
				require.True(t, f.at(0).isOverCapacity())
				most = max(most, abuser)
			}
			t.Logf("the abuser had at most %d of %d units in a window", most, crowd/25)
			require.Less(t, most, 2*limit)
		})
	}
}

// All entries of a bucket are held for as long: keys take the place of the oldest of those that have shown little, and those
// that have shown much stay.
func TestOldestEntryYieldsFirst(t *testing.T) {
	f := oneBucket(t)
	r, p := f.at(0), f.position()
	b := r.entries()
	compete := func(h uint64) *uint64 {
		r.h = h
		r.s.admitted++ // other draws
		return overCapacity{r}.compete(p)
	}
	for h := range uint64(heavyhitter.BucketEntries) { // the first half has shown what it asks for
		entry := compete(h)
		r.e.heavy.Offer(entry, 0, 1, 0)
		if h < heavyhitter.BucketEntries/2 {
			r.e.heavy.Offer(entry, 0, 90, 0)
		}
		r.e.heavy.Set(entry, r.e.heavy.Offered(*entry, 0))
	}
	for h := uint64(heavyhitter.BucketEntries); h < 3*heavyhitter.BucketEntries; h++ {
		entry := compete(h)
		for asked := 1; entry == nil; asked++ {
			require.LessOrEqual(t, asked, 8*heavyhitter.BucketEntries)
			entry = compete(h)
		}
		r.e.heavy.Offer(entry, 0, 1, 0)
		r.e.heavy.Set(entry, 1)
		require.NotNil(t, r.e.heavy.Find(b, h))
		for other := range h {
			held := other < heavyhitter.BucketEntries/2 || other > h-heavyhitter.BucketEntries/2
			require.Equal(t, held, r.e.heavy.Find(b, other) != nil, "%d, when %d comes", other, h)
		}
	}
}

// Where a shard is over capacity, keys that have sent much at once lose their entries soon, and those that go on sending keep theirs.
func TestWhoHasSentMuchAtOnceYields(t *testing.T) {
	f := oneBucket(t)
	r, p := f.at(0), f.position()
	b := r.entries()
	ask := func(entry *uint64) {
		r.e.heavy.Offer(entry, 0, 30, 0)
		r.e.heavy.Set(entry, r.e.heavy.Offered(*entry, 0))
		r.e.heavy.SetReference(entry)
	}
	for r.h = range uint64(heavyhitter.BucketEntries) {
		ask(overCapacity{r}.compete(p))
	}
	held := func(first uint64) (n int) {
		for h := first; h < heavyhitter.BucketEntries; h += 2 {
			if entry := r.e.heavy.Find(b, h); entry != nil {
				n++
				if first == 0 {
					r.e.heavy.SetReference(entry)
				}
			}
		}
		return n
	}
	for r.h = heavyhitter.BucketEntries; held(1) > 0; r.h++ {
		require.Equal(t, heavyhitter.BucketEntries/2, held(0))
		require.Less(t, r.h, uint64(50*heavyhitter.BucketEntries))
		r.s.admitted++ // other draws
		if entry := (overCapacity{r}).compete(p); entry != nil {
			ask(entry)
		}
	}
}

// A takeover is drawn: a flood of keys that come once takes no entry from a key with many units of its own.
func TestFloodsTakeNoEntries(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	f := sparingFace(t, sliding(100, time.Second), oneShard(100))
	f.take("first", 1)
	r := f.at(0)
	begun(r)
	heavy := make([]string, 0, 30)
	for i := range cap(heavy) {
		heavy = append(heavy, fmt.Sprint("heavy ", i))
		for range 90 {
			f.allow(heavy[i], 1)
		}
	}
	key := make([]byte, 8)
	for i := range 50_000 {
		binary.BigEndian.PutUint64(key, random.Uint64())
		f.allow(string(key), 1)
		if i%100 == 0 {
			f.now = f.now.Add(time.Second / 1000)
		}
	}
	taken := float64(r.state().TakenOver())
	byTime := replacementsPerWindow * float64(r.e.heavy.Words()) * f.position().Elapsed.Seconds()
	most := max(byTime, replacementsPerLimit*float64(r.s.admitted)/100)
	require.InDelta(t, most, taken, most/10, "no more, and the flood asks for far more")
	held := 0
	for _, k := range heavy {
		if f.HasEntry(f.hasher.String(k)) {
			held++
		}
	}
	t.Logf("%d of %d heavy keys have their entries", held, len(heavy))
	require.GreaterOrEqual(t, held, len(heavy)*9/10)
}
