package engine

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/striped"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/stretchr/testify/require"
)

// Once a stripe has taken down so many, all stripes count half.
func TestLatelyFades(t *testing.T) {
	var c striped.Counter
	for half := range 2 {
		l := lately{&c, half}
		l.word(looks).Store(mostLooks - 1)
		l.word(requests).Store(100)
		l.word(units).Store(1000)
		for range 300 {
			l.add(read, 3)
		}
	}
	admit(&c, 7, sight{n: 10, kind: 3, stranger: noKind, denied: noKind})
	r := recentOf(&c)
	require.EqualValues(t, 2*150, r.read[3])
	require.InDelta(t, 2010./201, r.cost, 0.1)

	for i := range 100_000 {
		admit(&c, uint64(i), sight{n: 10, kind: i % kinds, stranger: i % grades, denied: noKind})
	}
	r = recentOf(&c)
	sum := 0.0
	for _, n := range r.read {
		sum += n
	}
	require.InDelta(t, 1./kinds, r.read[3]/sum, 0.01)
	require.InDelta(t, 10, r.cost, 0.1)
}

// The newest requests tell at once that requests have become dearer, which all of them tell late.
func TestNewestCosts(t *testing.T) {
	var c striped.Counter
	send := func(looks int, n int64) recent {
		for i := range looks {
			admit(&c, uint64(i), sight{n: n, kind: 3, stranger: noKind, denied: noKind})
		}
		return recentOf(&c)
	}
	require.EqualValues(t, 2, math.Ceil(send(10_000, 2).newest))
	r := send(2*2*newestLooks, 40)
	require.InDelta(t, 40, r.newest, 7)
	require.Less(t, r.cost, 6.)
	require.EqualValues(t, 2, send(20*newestLooks, 2).newest)
	require.EqualValues(t, 1, send(20*newestLooks, 1).newest)
}

// What fades is rounded, which does not make requests dearer than any was.
func TestMeanCostOfEqualRequests(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, n := range []int64{1, 2, 3, 50} {
		var c striped.Counter
		for i := range 20_000 {
			admit(&c, uint64(i)*golden, sight{n: n, kind: 3, stranger: noKind, denied: noKind, met: noKind})
			r := recentOf(&c)
			require.Equal(t, n, r.mean())
		}
	}
}

// Where the stack of the caller lies changes nothing of what requests have been like.
func TestLatelyIsReproducible(t *testing.T) {
	var counters [2]striped.Counter
	for i := range 10_000 {
		s := sight{n: 1 + int64(i%7), kind: i * i % grades, stranger: i % grades, denied: noKind}
		h := uint64(i) * golden >> 20
		admit(&counters[0], h, s)
		deeper(i%64, func() { admit(&counters[1], h, s) })
	}
	require.Equal(t, recentOf(&counters[0]), recentOf(&counters[1]))
}

// deeper calls f with so many KiB more of the stack in use.
func deeper(kib int, f func()) byte {
	var room [1024]byte
	if room[kib] = 1; kib == 0 {
		f()
		return 0
	}
	return deeper(kib-1, f) + room[kib]
}

// What is taken down on many goroutines at once may be lost in part, and is never out of range.
func TestLatelyByManyGoroutines(t *testing.T) {
	var c striped.Counter
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 20_000 {
				admit(&c, uint64(i), sight{n: 3, kind: i % grades, stranger: noKind, denied: noKind})
			}
		})
	}
	all.Wait()
	r := recentOf(&c)
	require.InDelta(t, 3, r.cost, 0.5)
	sum := 0.0
	for _, n := range r.read {
		sum += n
	}
	require.LessOrEqual(t, sum, 4.*mostLooks)
	require.Positive(t, sum)
}

// Keys that read as much as strangers and what they ask for have used nothing. Those that read ten units more have used ten,
// and those that read the greater of ten and what strangers read with their request have as well: which of the two it is
// decides what is denied.
func TestLeadsLeaveOutWhatOthersHaveUsed(t *testing.T) {
	const limit = 50
	l := testLayout(t, NewWindow(limit, time.Minute, 1), 1)
	random := rand.New(rand.NewPCG(1, 2))
	add := func(used, others int) int { return used + others }
	cover := func(used, others int) int { return max(used, others+1) }
	for _, c := range []struct {
		others int
		reads  func(used, others int) int
		heavy  int // units of every second key
	}{{0, add, 10}, {3, add, 10}, {10, add, 10}, {10, cover, 20}, {30, cover, 40}} {
		var r recent
		for range 4000 {
			r.fresh[l.gradeOf(int64(random.IntN(c.others+1)), random.Uint64())]++
			used := 1 + c.heavy*random.IntN(2)
			r.read[l.gradeOf(int64(c.reads(used, random.IntN(c.others+1))), random.Uint64())]++
		}
		asking, full := l.asking(r.fresh[:limit+1], 1), l.full(1)
		s := seen{fresh: r.fresh[:limit+1], asking: asking[:limit+1], full: full[:limit+1], least: 1, covered: usuallyCovered, usual: l.usual(),
			pinned: usuallyPinned * l.enough()}
		leads := s.unfold(r.read[:limit+1])
		few, many := 0.0, 0.0
		for lead := range limit + 1 {
			if both := leads.added[lead] + leads.covered[lead]; lead < c.heavy*2/3 {
				few += both
			} else {
				many += both
			}
		}
		require.InDelta(t, 2000, few, 300, "%d: %v", c.others, leads)
		require.InDelta(t, 2000, many, 300, "%d: %v", c.others, leads)
	}
}

// What strangers read does not add to covered leads, so their keys are denied as rarely as strangers are.
func TestCoveredLeadsAreDeniedAsStrangersAre(t *testing.T) {
	const limit, others = 50, 40
	l := testLayout(t, NewWindow(limit, time.Minute, 1), 1)
	random := rand.New(rand.NewPCG(1, 2))
	denied := func(reads func(used, others int) int) float64 {
		r := recent{cost: 1}
		for range 4000 {
			stranger, used := random.IntN(others+1), 20*random.IntN(2)
			r.fresh[l.gradeOf(int64(stranger), random.Uint64())]++
			if n := reads(used, random.IntN(others+1)); n < limit {
				r.read[l.gradeOf(int64(n+1), random.Uint64())]++
			}
		}
		m := r.mix(l)
		var chances [kinds]float64
		for i, lead := range m.leads[:m.n] { // of strangers
			chances[i] = max(0, float64(lead+others-limit)/(others+1))
		}
		return m.rate(&chances)
	}
	require.Greater(t, denied(func(used, others int) int { return used + others }), 0.02) // of 0.134: the search begins with few leads
	require.Less(t, denied(func(used, others int) int { return max(used, others) }), 1e-4)
}

// Where cells are nearly full, a key's units are in those of its cells that others have left lower. All keys then read as
// much, and are denied as rarely as strangers are.
func TestLevelReadingsAreNoLeads(t *testing.T) {
	const limit, least, level = 50, 36, 44
	l := testLayout(t, NewWindow(limit, time.Minute, 1), 1)
	random := rand.New(rand.NewPCG(1, 2))
	r := recent{cost: 1}
	others := func() int { return least + random.IntN(limit-least) } // up to 49
	for range 4000 {
		r.fresh[l.gradeOf(int64(others()), random.Uint64())]++
		if reads := max(others()+1, level+random.IntN(3)); reads <= limit {
			r.read[l.gradeOf(int64(reads), random.Uint64())]++
		}
	}
	m := r.mix(l)
	var chances [kinds]float64
	for i, lead := range m.leads[:m.n] { // of strangers
		chances[i] = max(0, min(1, float64(lead-1)/(limit-least)))
	}
	require.Less(t, m.rate(&chances), 0.02)
}

// One key that reads what hardly any can, where all others read more, says little about what keys have that are denied.
func TestOneStrayReadingIsNoLead(t *testing.T) {
	const limit, many = 50, 40
	l := testLayout(t, NewWindow(limit, time.Minute, 1), 1)
	r := recent{cost: 1}
	r.fresh[0], r.fresh[many] = 2, 998
	r.read[many+1], r.read[many/2] = 998, 1
	m := r.mix(l)
	heavy := 0.0
	for i, lead := range m.leads[:m.n] {
		if lead+many > limit {
			heavy += m.weights[i]
		}
	}
	require.Less(t, heavy, 0.02*m.sum)
}

// Keys that ask for more than they get read all of the quota, whatever part of it is others', and are not innocent.
func TestKeysThatAskForMoreHaveNoLead(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		cost int64
	}{
		{NewWindow(1000, time.Minute, 1), 1}, {NewWindow(1000, time.Minute, 1), 20}, {NewWindow(1000, time.Minute, 6), 50},
	} {
		l := testLayout(t, c.rule, 1)
		random := rand.New(rand.NewPCG(1, 2))
		r := recent{cost: float64(c.cost)}
		cost, others := l.parts(c.cost), func() int64 { return l.whole()/2 + random.Int64N(l.whole()/10) }
		for i := range 4000 {
			r.fresh[l.gradeOf(others(), random.Uint64())]++
			reads := others() + cost
			if i%5 == 0 {
				reads = l.whole() - int64(float64(cost)*random.ExpFloat64()/3) // they ask for three times what they get
			}
			r.read[l.gradeOf(reads, random.Uint64())]++
		}
		m, heavy := r.mix(l), 0.0
		for i, lead := range m.leads[:m.n] {
			if lead > l.whole()/4 {
				heavy += m.weights[i]
			}
		}
		require.Less(t, heavy, 0.02*m.sum, "%v, cost %d", c.rule, c.cost)
		require.InDelta(t, 3200, m.sum, 200)
	}
}

// Requests that are denied are not seen. Those of keys with a lead are more often denied, and count the more.
func TestLeadsOfDeniedRequests(t *testing.T) {
	const limit, most = 18, 13
	l := testLayout(t, NewWindow(limit, time.Minute, 1), 1)
	random := rand.New(rand.NewPCG(1, 2))
	r := recent{cost: 1}
	for range 8000 {
		lead := 1 + 8*random.IntN(2)
		others := func() int64 { return int64(most * random.IntN(2)) }
		if reads := others() + int64(lead); reads <= limit {
			r.read[l.gradeOf(reads, 0)]++
			r.fresh[l.gradeOf(others(), 0)]++
		}
	}
	few, many := 0.0, 0.0
	m := r.mix(l)
	for i, lead := range m.leads[:m.n] {
		if lead <= 5 {
			few += m.weights[i]
		} else {
			many += m.weights[i]
		}
	}
	require.InDelta(t, 4000, few, 400, "%v %v", m.leads, m.weights)
	require.InDelta(t, 4000, many, 400, "%v %v", m.leads, m.weights)
}

// A key that no doorkeeper knows passes some of them all the same, and is a newcomer then, too.
func TestNewcomersThatPassDoorkeepers(t *testing.T) {
	l := testLayout(t, NewWindow(5, time.Minute, 2), 3)
	require.True(t, l.guarded)
	r := recent{cost: 1}
	r.read[newcomer] = 250
	for _, k := range []known{nowKnown, oldestKnown, allKnown} {
		r.read[l.first(k)+1], r.fresh[l.first(k)] = 250, 250
	}
	r.fresh[passesNow], r.fresh[passesOldest] = 500, 500
	m := r.mix(l)
	require.InDelta(t, 1000, m.weights[0], 1e-6)
	require.InDelta(t, 1000, m.sum, 1)
}

// Where nearly all newcomers pass some doorkeeper, the few that do not say little about how many there are.
func TestNewcomersWhereDoorkeepersAreFull(t *testing.T) {
	l := testLayout(t, NewWindow(5, time.Minute, 2), 3)
	r := recent{cost: 1}
	r.read[newcomer] = 2
	r.read[l.first(allKnown)+1], r.fresh[l.first(allKnown)] = 998, 998
	r.fresh[passesNow], r.fresh[passesOldest] = 950, 950 // one in four hundred passes none
	m := r.mix(l)
	require.Less(t, m.weights[0], 0.05*m.sum)
	require.InDelta(t, 1000, m.sum, 20)
}

// A key is known where it has come: in the generations that count in full, in the one that is weighted, or in both.
func TestDoorkeepersThatKnowAKey(t *testing.T) {
	const generations = 5
	f := faceOf(t, NewWindow(20, time.Second, generations), Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: 8, Depth: 3, Width: 32, CellBits: 16})
	require.True(t, f.guarded)
	key, begin := f.hasher.Bytes([]byte("key")), time.Unix(1e9, 0)
	come := func(generation int) {
		f.now = begin.Add(time.Duration(generation) * time.Second)
		require.True(t, f.Take(f.word(), key, 1, f.limit, Whole).Allowed)
	}
	come(0)
	for age, want := range []known{nowKnown, nowKnown, nowKnown, nowKnown, oldestKnown, 0} {
		f.now = begin.Add(time.Duration(age) * time.Second)
		f.Take(f.word(), f.hasher.Bytes([]byte("other")), 1, f.limit, Whole) // turns the shard
		r := f.request(0, key)
		doors := sampler{r}.doors(f.Timeline.Unpack(f.word()))
		require.Equal(t, uint64(1)<<age&(1<<generations-1), doors, "age %d", age)
		require.Equal(t, want, scaleOf(r.e).known(doors), "age %d", age)
	}
	come(6)
	come(8)
	come(10)
	r := f.request(0, key)
	require.EqualValues(t, 0b10101, sampler{r}.doors(f.Timeline.Unpack(f.word())))
	require.Equal(t, allKnown, scaleOf(r.e).known(0b10101))
}

func TestGradesAreRightOnAverage(t *testing.T) {
	for _, rule := range []Rule{
		NewWindow(1, time.Minute, 1), NewWindow(5, time.Minute, 2), NewWindow(58, time.Minute, 2), NewWindow(59, time.Minute, 2),
		NewWindow(1000, time.Minute, 2), NewWindow(1<<31-1, time.Minute, 2),
	} {
		l := testLayout(t, rule, 1)
		random := rand.New(rand.NewPCG(1, 2))
		for _, share := range []float64{0, 0.1, 0.5, 0.77, 1} {
			parts, sum := int64(share*float64(l.whole())), 0.0
			for range 2000 {
				sum += float64(l.partsOf(l.gradeOf(parts, random.Uint64())))
			}
			grade := float64(l.whole()) / float64(l.steps())
			require.InDelta(t, parts, sum/2000, grade/15+0.5, "%d of %d", parts, l.whole())
		}
		require.EqualValues(t, l.steps(), l.gradeOf(l.whole(), 0))
	}
}

// With their request strangers read as much more as it is for, unless the limit is a few units.
func TestStrangersWithTheirRequest(t *testing.T) {
	few := testLayout(t, NewWindow(5, time.Minute, 2), 1).asking([]float64{3, 0, 1, 0, 0, 0}, 1)
	require.Equal(t, []float64{3, 0, 1, 0, 0, 0}, few[:6])
	for _, rule := range []Rule{NewWindow(50, time.Minute, 2), NewWindow(1000, time.Minute, 2)} {
		l := testLayout(t, rule, 1)
		for _, units := range []int64{1, l.whole() / l.parts(1) / 3} {
			fresh := make([]float64, l.steps()+1)
			fresh[0], fresh[2] = 3, 1
			asking, mean, all := l.asking(fresh, l.parts(units)), 0.0, 0.0
			for i, n := range asking {
				mean, all = mean+n*float64(i), all+n
			}
			require.InDelta(t, 4, all, 1e-9)
			require.InDelta(t, 0.5+float64(l.parts(units)*l.steps())/float64(l.whole()), mean/all, 1e-9)
		}
	}
}

func testLayout(t *testing.T, rule Rule, probes int) *scale {
	t.Helper()
	l, err := newLayout(rule, Dimensions{Shards: 1, BloomBytes: 64, BloomProbes: probes, Depth: 2, Width: 64, CellBits: 16}, 1)
	require.NoError(t, err)
	return (*scale)(&l)
}

// Who was to fade may be held up while others go on. All fade again after that.
func TestLatelyFadesAfterAll(t *testing.T) {
	var c striped.Counter
	for half := range 2 {
		lately{&c, half}.word(looks).Store(5 * mostLooks)
	}
	for range 4 * mostLooks {
		admit(&c, 0, sight{n: 1, kind: 0, stranger: noKind, denied: noKind})
	}
	sum := lately{&c, 0}.count(read, 0) + lately{&c, 1}.count(read, 0)
	require.LessOrEqual(t, sum, 2.*mostLooks)
}

// The ages that are taken to have met a key are as many as have, whatever the number of sub-windows.
func TestMeetings(t *testing.T) {
	for generations := 3; generations <= 13; generations++ {
		l := scale{Rule: NewWindow(100, time.Hour, generations)}
		require.Equal(t, noKind, l.meeting(1<<(generations-1)), "the oldest one is weighted")
		for doors := uint64(1); doors < 1<<(generations-1); doors++ {
			met := l.metIn(nowKnown, l.meeting(doors))
			require.Len(t, met, generations)
			require.Equal(t, doors&1 != 0, met[0])
			require.False(t, met[generations-1])
			n := 0
			for _, m := range met[1:] {
				if m {
					n++
				}
			}
			if l.meeting(doors) == 0 {
				require.Equal(t, 1, n)
			} else {
				require.InDelta(t, bits.OnesCount64(doors>>1), n, float64(generations-2)/10+0.5)
			}
		}
	}
	for generations := 1; generations <= 2; generations++ {
		l := scale{Rule: NewWindow(100, time.Hour, generations)}
		require.Equal(t, noKind, l.meeting(allDoors))
		require.NotContains(t, l.metIn(allKnown, meetings-1), false)
		require.NotContains(t, l.metIn(0, meetings-1), true)
	}
}

// What was is soon forgotten, and no count grows into another.
func TestMeetingsFade(t *testing.T) {
	var c striped.Counter
	for _, grade := range []int{3, 4} {
		for range 100_000 {
			lately{&c, 0}.meet(grade)
		}
		r := recentOf(&c)
		require.Greater(t, r.met[grade], 7.)
		require.Less(t, r.met[grade], 17.)
		r.met[grade] = 0
		require.Equal(t, [meetings]float64{}, r.met)
	}
}
