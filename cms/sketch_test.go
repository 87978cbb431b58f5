package cms

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// newSketch rounds the width up to whole words.
func newSketch(t testing.TB, depth, width, cellBits int) *Sketch {
	lanes := 64 / cellBits
	s, err := New(depth, (width+lanes-1)/lanes*lanes, cellBits)
	require.NoError(t, err)
	return s
}

// op is one step of a published sequence: the key is counted if n is above 0, and
// then reads want.
type op struct {
	key     string
	n, want uint32
}

// Sequences from the suites of RedisBloom (test_cms.py), apache/datasketches (cpp,
// java and go: count_min_sketch tests), tylertreat/BoomFilters (countmin_test.go)
// and ben-manes/caffeine (FrequencySketchTest). Their estimates are exact although
// some of the sketches are tiny; so are these with the hash used here. Both ways of
// counting must give them.
//
// Left out, for want of what they test: signed and weighted updates and merges
// (RedisBloom's weights, datasketches' -1, BoomFilters' testAndRemove), running
// totals (stream-lib's size, RedisBloom's count), dimensions from epsilon and delta
// (INITBYPROB, and the sizing tables), hash seeds inside the sketch (datasketches'
// mismatch of seeds). A sketch of one column and one of 2^30 cells, which
// datasketches refuses, are allowed here.
func TestPublishedSequences(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		width, depth, cellBits int
		ops                    []op
	}{
		{"RedisBloom 20x5", 20, 5, 32, []op{{"a", 5, 5}, {"a", 0, 5}}},
		{"RedisBloom 1000x5", 1000, 5, 32, []op{{"bar", 5, 5}, {"baz", 42, 42}, {"foo", 0, 0}, {"bar", 0, 5}, {"baz", 0, 42}}},
		{"RedisBloom 1000x5 twice", 1000, 5, 32, []op{{"foo", 1, 1}, {"foo", 1, 2}, {"bar", 1, 1}}},
		{"RedisBloom 2x2", 2, 2, 32, []op{{"foo", 10, 10}, {"bar", 42, 42}, {"foo", 0, 10}, {"bar", 0, 42}}},
		{"datasketches 3x5", 5, 3, 32, []op{{"x", 1, 1}, {"x", 9, 10}}},
		{"BoomFilters 2719x1", 2719, 1, 32, []op{
			{"a", 5, 5}, {"b", 3, 3}, {"c", 1, 1}, {"b", 2, 5}, {"d", 1, 1}, {"a", 2, 7}, {"a", 1, 8},
			{"a", 0, 8}, {"b", 0, 5}, {"c", 0, 1}, {"d", 0, 1}, {"x", 0, 0},
		}},
	} {
		plain, bounded := newSketch(t, tt.depth, tt.width, tt.cellBits), newSketch(t, tt.depth, tt.width, tt.cellBits)
		for i, o := range tt.ops {
			h := keyHash(o.key)
			require.Equal(t, o.want, plain.Add(h, o.n), "%s: Add, step %d", tt.name, i)
			require.Equal(t, o.want, plain.Estimate(h), "%s: Estimate, step %d", tt.name, i)
			e, ok := bounded.AddBounded(h, o.n, math.MaxUint32)
			require.True(t, ok)
			require.Equal(t, o.want, e, "%s: AddBounded, step %d", tt.name, i)
		}
	}
}

func TestPublishedSaturation(t *testing.T) {
	// Caffeine: 20 increments of one key in 4-bit counters read 15. Here they take the
	// bits of the cell beside.
	s := newSketch(t, 4, 512, 4)
	for range 20 {
		s.Add(keyHash("key"), 1)
	}
	require.EqualValues(t, 20, s.Estimate(keyHash("key")))
	for range 120 {
		s.Add(keyHash("key"), 1)
	}
	require.EqualValues(t, 123, s.Estimate(keyHash("key")))

	// RedisBloom, 5x2 cells of 32 bits: a stops at the top while others count on.
	s = newSketch(t, 2, 5, 32)
	keys := map[string]uint32{"a": math.MaxInt32, "b": 10, "c": 7, "d": 5}
	for range 3 {
		for key, n := range keys {
			s.Add(keyHash(key), n)
		}
	}
	require.Equal(t, uint32(math.MaxUint32), s.Estimate(keyHash("a")))
	for _, key := range []string{"b", "c", "d"} {
		require.GreaterOrEqual(t, s.Estimate(keyHash(key)), 3*keys[key], key)
		require.Less(t, s.Estimate(keyHash(key)), uint32(math.MaxInt32), key)
	}
}

func TestPublishedMerges(t *testing.T) {
	// RedisBloom: a counted 21 in each of two sketches; other dimensions refused.
	a, b := newSketch(t, 5, 20, 32), newSketch(t, 5, 20, 32)
	a.Add(keyHash("a"), 21)
	b.Add(keyHash("a"), 21)
	require.NoError(t, a.Merge(b))
	require.EqualValues(t, 42, a.Estimate(keyHash("a")))
	require.ErrorIs(t, a.Merge(newSketch(t, 10, 2000, 32)), ErrMismatch)

	// RedisBloom: three sketches of a hundred keys each.
	sum := newSketch(t, 5, 1000, 32)
	names := []string{"foo", "bar", "baz"}
	for _, name := range names {
		s := newSketch(t, 5, 1000, 32)
		for i := range 100 {
			s.Add(keyHash(fmt.Sprint(name, i)), 1)
		}
		require.NoError(t, sum.Merge(s))
	}
	for _, name := range names {
		for i := range 100 {
			require.EqualValues(t, 1, sum.Estimate(keyHash(fmt.Sprint(name, i))), "%s%d", name, i)
		}
	}

	// datasketches: 2, 3, 5 and 7 in each of two sketches.
	a, b = newSketch(t, 3, 256, 32), newSketch(t, 3, 256, 32)
	for _, key := range []string{"2", "3", "5", "7"} {
		a.Add(keyHash(key), 1)
		b.Add(keyHash(key), 1)
	}
	require.NoError(t, a.Merge(b))
	for _, key := range []string{"2", "3", "5", "7"} {
		require.EqualValues(t, 2, a.Estimate(keyHash(key)), key)
	}
	require.ErrorIs(t, a.Merge(newSketch(t, 4, 256, 32)), ErrMismatch)
	require.ErrorIs(t, a.Merge(newSketch(t, 3, 257, 32)), ErrMismatch)

	// BoomFilters: b c b d a a and b c b.
	a, b = newSketch(t, 1, 2719, 32), newSketch(t, 1, 2719, 32)
	for _, key := range []string{"b", "c", "b", "d", "a", "a"} {
		a.Add(keyHash(key), 1)
	}
	for _, key := range []string{"b", "c", "b"} {
		b.Add(keyHash(key), 1)
	}
	require.NoError(t, a.Merge(b))
	for key, want := range map[string]uint32{"a": 2, "b": 4, "c": 2, "d": 1, "x": 0} {
		require.Equal(t, want, a.Estimate(keyHash(key)), key)
	}
}

func TestErrorIsWithinThePublishedBounds(t *testing.T) {
	testkit.Computes(t)
	// datasketches, eps 0.1: key i weighs 2^(10-i), upper bound = count + e/width ×
	// total.
	s := newSketch(t, 5, 28, 32)
	total := 0.0
	for i := range 10 {
		s.Add(keyHash(fmt.Sprint(i)), 1<<(10-i))
		total += float64(uint(1) << (10 - i))
	}
	for i := range 10 {
		e, count := float64(s.Estimate(keyHash(fmt.Sprint(i)))), float64(uint(1)<<(10-i))
		require.GreaterOrEqual(t, e, count)
		require.LessOrEqual(t, e, count+math.E/28*total, "key %d", i)
	}

	// stream-lib (CountMinSketchTest): a million items of which small numbers are
	// frequent; below 1 % of 2^20 keys may be off by more than 1e-4 of the items.
	const items, universe = 1_000_000, 1 << 20
	s = newSketch(t, 7, 20_000, 32)
	count := make([]uint32, universe)
	r := rand.New(rand.NewPCG(5, 6))
	for range items {
		key := r.Uint32N(1 << r.UintN(20))
		count[key]++
		s.Add(seeded(uint64(key), 1), 1)
	}
	wrong := 0
	for key, c := range count {
		e := s.Estimate(seeded(uint64(key), 1))
		require.GreaterOrEqual(t, e, c)
		if e-c > items/10_000 {
			wrong++
		}
	}
	require.Less(t, wrong, universe/100)
	t.Logf("%d of %d keys off by more than 1e-4 of the items", wrong, universe)
}

func TestBadDimensionsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		depth, width, cellBits int
		want                   string
	}{
		{0, 0, 8, "cms: depth 0, must be 1 … 32"},
		{0, 100, 8, "cms: depth 0, must be 1 … 32"},
		{100, 0, 8, "cms: depth 100, must be 1 … 32"},
		{33, 100, 8, "cms: depth 33, must be 1 … 32"},
		{-1, 100, 8, "cms: depth -1, must be 1 … 32"},
		{4, 0, 8, "cms: width 0, must be a multiple of 8, 8 … 536870912"},
		{4, -5, 4, "cms: width -5, must be a multiple of 16, 16 … 1073741824"},
		{4, math.MinInt, 8, fmt.Sprintf("cms: width %d, must be a multiple of 8, 8 … 536870912", math.MinInt)},
		{4, 99, 8, "cms: width 99, must be a multiple of 8, 8 … 536870912"},
		{4, 1<<28 + 4, 16, "cms: width 268435460, must be a multiple of 4, 4 … 268435456"},
		{4, 3, 32, "cms: width 3, must be a multiple of 2, 2 … 134217728"},
		{math.MaxInt, math.MaxInt, 8, fmt.Sprintf("cms: depth %d, must be 1 … 32", math.MaxInt)},
		{4, 100, 0, "cms: cells of 0 bits, must be 4, 8, 16 or 32"},
		{4, 100, 64, "cms: cells of 64 bits, must be 4, 8, 16 or 32"},
		{4, 100, 12, "cms: cells of 12 bits, must be 4, 8, 16 or 32"},
	} {
		_, err := New(tt.depth, tt.width, tt.cellBits)
		require.EqualError(t, err, tt.want)
		_, err = Words(tt.depth, tt.width, tt.cellBits)
		require.EqualError(t, err, tt.want)
		_, err = Over(nil, tt.depth, tt.width, tt.cellBits)
		require.EqualError(t, err, tt.want)
	}
	_, err := Over(make([]uint64, 27), 4, 100, 16)
	require.EqualError(t, err, "cms: 27 words, must be 100")
}

func TestWordsHoldRowsOfWholeWords(t *testing.T) {
	for _, tt := range []struct{ depth, width, cellBits, want int }{
		{1, 16, 4, 1}, {1, 32, 4, 2}, {3, 8, 8, 3}, {3, 16, 8, 6}, {4, 8, 16, 8}, {32, 4, 32, 64},
	} {
		n, err := Words(tt.depth, tt.width, tt.cellBits)
		require.NoError(t, err)
		require.Equal(t, tt.want, n, "%+v", tt)
		s := newSketch(t, tt.depth, tt.width, tt.cellBits)
		require.Equal(t, [3]int{tt.depth, tt.width, tt.cellBits}, [3]int{s.Depth(), s.Width(), s.CellBits()})
		require.EqualValues(t, map[int]int64{4: 123, 8: 8191, 16: math.MaxInt32, 32: math.MaxUint32}[tt.cellBits], s.Max())
		require.Equal(t, 64/tt.cellBits, s.Lanes())
	}
}

// model is a sketch beside three oracles: the true counts, the same cells as plain
// numbers, and a sketch in which every unit is counted the textbook way.
type model struct {
	t     testing.TB
	s     *Sketch
	plain *Sketch
	count map[uint64]uint64
	pairs [][]modelPair // by row, then by pair of lanes, then by word
	most  [2]uint32     // of two counts that are apart
}

// modelPair is two cells, or one.
type modelPair struct {
	counts [2]uint32
	joint  bool
}

// modelCell is the first or the second of a pair.
type modelCell struct {
	*modelPair
	second int
}

func (c modelCell) get() uint32 {
	if c.joint {
		return c.counts[0]
	}
	return c.counts[c.second]
}

func (m *model) lift(c modelCell, to uint32) {
	switch {
	case to <= c.get():
	case c.joint:
		c.counts[0] = to
	case to <= m.most[c.second]:
		c.counts[c.second] = to
	default:
		c.joint, c.counts[0] = true, max(to, c.counts[0], c.counts[1])
	}
}

func newModel(t testing.TB, depth, width, cellBits int) *model {
	m := &model{t: t, s: newSketch(t, depth, width, cellBits), plain: newSketch(t, depth, width, cellBits)}
	m.most = map[int][2]uint32{4: {11, 11}, 8: {255, 223}, 16: {65535, 32767}, 32: {math.MaxUint32, math.MaxUint32}}[cellBits]
	m.clear()
	return m
}

func (m *model) clear() {
	m.s.Clear()
	m.plain.Clear()
	m.count = map[uint64]uint64{}
	m.pairs = make([][]modelPair, m.s.Depth())
	for r := range m.pairs {
		m.pairs[r] = make([]modelPair, m.s.Width()/2)
	}
}

// own returns the model's cells of a key.
func (m *model) own(h uint64) []modelCell {
	var own []modelCell
	lane := int(h & 63 / m.s.bits)
	m.s.each(h, func(word uint64) {
		r := len(own)
		own = append(own, m.cell(r, int(word)-r*int(m.s.row), lane))
	})
	return own
}

func (m *model) cell(row, word, lane int) modelCell {
	return modelCell{&m.pairs[row][lane/2*int(m.s.row)+word], lane % 2}
}

func (m *model) estimate(h uint64) uint32 {
	e := m.s.Max()
	for _, c := range m.own(h) {
		e = min(e, c.get())
	}
	return e
}

func (m *model) raise(h uint64, to uint32) {
	for _, c := range m.own(h) {
		m.lift(c, min(to, m.s.Max()))
	}
}

func (m *model) add(h uint64, n uint32) {
	for _, c := range m.own(h) {
		m.lift(c, uint32(min(uint64(c.get())+uint64(n), uint64(m.s.Max()))))
	}
	m.count[h] += uint64(n)
	m.plain.Add(h, n)
	require.Equal(m.t, m.estimate(h), m.s.Add(h, n), "Add(%x, %d)", h, n)
}

func (m *model) addBounded(h uint64, n, bound uint32) {
	before := m.estimate(h)
	want := uint64(before)+uint64(n) <= uint64(min(bound, m.s.Max()))
	e, ok := m.s.AddBounded(h, n, bound)
	require.Equal(m.t, want, ok, "AddBounded(%x, %d, %d) at %d", h, n, bound, before)
	if ok {
		require.Equal(m.t, before+n, e)
		require.LessOrEqual(m.t, e, bound)
		m.raise(h, e)
		m.count[h] += uint64(n)
		m.plain.Add(h, n)
	} else {
		require.Equal(m.t, before, e)
	}
}

func (m *model) raiseTo(h uint64, to uint32) {
	// What Raise adds to the key's reading counts as added to the textbook sketch.
	m.plain.Add(h, max(to, m.estimate(h))-m.estimate(h))
	m.s.Raise(h, to)
	m.raise(h, to)
	m.count[h] = max(m.count[h], uint64(to))
}

// check compares everything that can be read.
func (m *model) check() {
	for h, n := range m.count {
		e := m.s.Estimate(h)
		require.Equal(m.t, m.estimate(h), e)
		require.GreaterOrEqual(m.t, uint64(e), min(n, uint64(m.s.Max())), "below the true count")
		require.LessOrEqual(m.t, e, m.plain.Estimate(h), "above the textbook estimate")
	}
	for r := range m.pairs {
		for lane := range m.s.Lanes() {
			row := make([]uint32, m.s.row)
			for word := range row {
				row[word] = m.cell(r, word, lane).get()
			}
			require.Equal(m.t, row, slices.Collect(m.s.Cells(r, lane)), "row %d, lane %d", r, lane)
			for _, c := range []uint32{0, 1, row[0], row[0] + 1, m.s.Max()} {
				n := 0
				for _, v := range row {
					if v >= c {
						n++
					}
				}
				require.Equal(m.t, float64(n)/float64(len(row)), m.s.Tail(r, lane, c), "row %d, lane %d from %d", r, lane, c)
			}
		}
	}
}

var (
	allCellBits = []int{4, 8, 16, 32}
	allDepths   = []int{1, 2, 3, 4, 5, 8, 31, 32}
	oddWidths   = []int{1, 2, 13, 16, 17, 33, 101}
)

func TestSketchAgreesWithItsOracles(t *testing.T) {
	for _, cellBits := range allCellBits {
		for _, depth := range allDepths {
			for _, width := range oddWidths {
				r := rand.New(rand.NewPCG(uint64(cellBits), uint64(depth*1000+width)))
				m := newModel(t, depth, width, cellBits)
				top := m.s.Max()
				// Amounts that fit many times over, sometimes ones that saturate.
				amount := func() uint32 {
					if r.IntN(8) == 0 {
						return top/2 + r.Uint32N(top) // may wrap: any amount is as good
					}
					return r.Uint32N(4)
				}
				for range 200 {
					h := seeded(r.Uint64N(20), 1)
					switch r.IntN(12) {
					case 0, 1:
						m.add(h, amount())
					case 2:
						m.raiseTo(h, amount())
					default:
						m.addBounded(h, amount(), r.Uint32N(top)|top>>r.IntN(32))
					}
				}
				m.check()
				m.clear()
				m.addBounded(7, 1, top)
				m.check()
			}
		}
	}
}

// Neighbours share a word or a lane and nothing else: an update may not leave its cell,
// or its pair if it does not fit.
func TestCountsStayInTheirCells(t *testing.T) {
	for _, cellBits := range allCellBits {
		s := newSketch(t, 1, 5*64/cellBits, cellBits)
		for word := range uint64(5) {
			for lane := range s.Lanes() {
				// The upper 32 bits choose the first row's word, the lowest the lane.
				s.Raise((word<<32/5+1)<<32|uint64(lane*cellBits), s.Max())
				for other := range s.Lanes() {
					want := make([]uint32, 5)
					if other == lane || cellBits < 32 && other/2 == lane/2 {
						want[word] = s.Max()
					}
					require.Equal(t, want, slices.Collect(s.Cells(0, other)), "%d bits, word %d, lane %d", cellBits, word, lane)
				}
				s.Clear()
			}
		}
	}
}

func TestAddBoundedRefusesExactlyPastTheBound(t *testing.T) {
	for _, cellBits := range allCellBits {
		s := newSketch(t, 4, 100, cellBits)
		top := s.Max()
		for _, tt := range []struct {
			n, max   uint32
			estimate uint32
			ok       bool
		}{
			{0, 0, 0, true},
			{1, 0, 0, false},
			{11, 10, 0, false},
			{10, 10, 10, true},
			{0, 9, 10, false}, // already past the bound
			{0, 10, 10, true},
			{1, 10, 10, false},
			{math.MaxUint32, math.MaxUint32, 10, false}, // the sum does not wrap
			{top - 9, math.MaxUint32, 10, false},        // past what a cell holds
			{top - 10, math.MaxUint32, top, true},
			{0, math.MaxUint32, top, true},
			{1, math.MaxUint32, top, false},
		} {
			before, err := s.MarshalBinary()
			require.NoError(t, err)
			e, ok := s.AddBounded(keyHash("key"), tt.n, tt.max)
			require.Equal(t, tt.ok, ok, "%d bits: %+v", cellBits, tt)
			require.Equal(t, tt.estimate, e, "%d bits: %+v", cellBits, tt)
			if !ok {
				after, err := s.MarshalBinary()
				require.NoError(t, err)
				require.Equal(t, before, after, "%d bits: %+v: refused, yet changed", cellBits, tt)
			}
		}
	}
}

func TestConservativeUpdateErrsLess(t *testing.T) {
	plain, bounded := newSketch(t, 4, 2000, 16), newSketch(t, 4, 2000, 16)
	var plainErr, boundedErr int
	for i := range uint64(20_000) {
		plain.Add(seeded(i%5000, 1), 1)
		bounded.AddBounded(seeded(i%5000, 1), 1, 100)
	}
	for i := range uint64(5000) {
		plainErr += int(plain.Estimate(seeded(i, 1))) - 4
		boundedErr += int(bounded.Estimate(seeded(i, 1))) - 4
	}
	require.Positive(t, boundedErr, "too easy a load to tell")
	require.Less(t, 2*boundedErr, plainErr)
	t.Logf("mean error %.3f, textbook %.3f", float64(boundedErr)/5000, float64(plainErr)/5000)
}

func TestMergeOfPlainSketchesIsTheSketchOfBothStreams(t *testing.T) {
	for _, cellBits := range allCellBits {
		for _, width := range oddWidths {
			r := rand.New(rand.NewPCG(uint64(cellBits), uint64(width)))
			a, b, both := newSketch(t, 3, width, cellBits), newSketch(t, 3, width, cellBits), newSketch(t, 3, width, cellBits)
			count := map[uint64]uint64{}
			for range 100 { // saturates the narrow ones
				h, n := r.Uint64(), r.Uint32N(both.Max()/50+2)
				count[h] += uint64(n)
				both.Add(h, n)
				if r.IntN(2) == 0 {
					a.Add(h, n)
				} else {
					b.Add(h, n)
				}
			}
			require.NoError(t, a.Merge(b))
			if cellBits == 32 { // narrower ones depend on when their pairs were joined
				merged, _ := a.MarshalBinary()
				want, _ := both.MarshalBinary()
				require.Equal(t, want, merged, "width %d", width)
			}
			for h, n := range count {
				require.GreaterOrEqual(t, uint64(a.Estimate(h)), min(n, uint64(a.Max())), "%d bits, width %d", cellBits, width)
			}
		}
	}
}

// Conservative updates do not add up to what the joint stream would have left, on
// either side; but no count is lost.
func TestMergeOfConservativeSketchesIsAnUpperBoundOfTheCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, cellBits := range allCellBits {
		a, b := newSketch(t, 4, 50, cellBits), newSketch(t, 4, 50, cellBits)
		count := map[uint64]uint32{}
		for range 400 {
			h := seeded(r.Uint64N(100), 1)
			s := a
			if r.IntN(2) == 0 {
				s = b
			}
			if _, ok := s.AddBounded(h, 1, 7); ok {
				count[h]++
			}
		}
		require.NoError(t, a.Merge(b))
		for h, n := range count {
			require.GreaterOrEqual(t, a.Estimate(h), n)
		}
	}
}

func TestMergeRefusesOtherDimensions(t *testing.T) {
	s := newSketch(t, 4, 100, 8)
	s.Add(1, 1)
	before, _ := s.MarshalBinary()
	for _, other := range []*Sketch{newSketch(t, 5, 100, 8), newSketch(t, 4, 108, 8), newSketch(t, 4, 100, 4), newSketch(t, 4, 50, 16), {}} {
		require.ErrorIs(t, s.Merge(other), ErrMismatch)
	}
	require.EqualError(t, s.Merge(newSketch(t, 5, 101, 16)),
		"cms: merge 5 × 104 cells of 16 bits into 4 × 104 of 8: dimensions differ")
	after, _ := s.MarshalBinary()
	require.Equal(t, before, after)
}

func TestZeroSketchReadsZero(t *testing.T) {
	var s Sketch
	require.Zero(t, s.Estimate(42))
	require.Zero(t, s.Max())
	require.Zero(t, s.Depth())
	require.Zero(t, s.Width())
	s.Clear()
	_, ok := s.AddBounded(42, 1, 10)
	require.False(t, ok)
	require.Zero(t, s.Lanes())
}

func TestClearEmptiesEveryCell(t *testing.T) {
	s := newSketch(t, 3, 17, 4)
	for i := range uint64(1000) {
		s.Add(seeded(i, 1), 3)
	}
	s.Clear()
	empty, _ := newSketch(t, 3, 17, 4).MarshalBinary()
	cleared, _ := s.MarshalBinary()
	require.Equal(t, empty, cleared)
}

// A hash that is the same for all keys makes one key of them: the worst that a hash
// can do is to overstate.
func TestDegenerateHashOverstates(t *testing.T) {
	for _, h := range []uint64{0, math.MaxUint64} {
		for _, depth := range allDepths {
			for _, width := range []int{1, 17, 1000} {
				s := newSketch(t, depth, width, 16)
				for n := range uint32(100) {
					require.Equal(t, n, s.Estimate(h))
					e, ok := s.AddBounded(h, 1, 100)
					require.True(t, ok)
					require.Equal(t, n+1, e)
				}
				_, ok := s.AddBounded(h, 1, 100)
				require.False(t, ok)
			}
		}
	}
}

func TestOverTakesTheWordsAsTheyAre(t *testing.T) {
	words := []uint64{0x0102030405060708, 0x11}
	s, err := Over(words, 1, 16, 8)
	require.NoError(t, err)
	for lane, want := range [][]uint32{{8, 0x11}, {7, 0}, {6, 0}, {5, 0}, {4, 0}, {3, 0}, {2, 0}, {1, 0}} {
		require.Equal(t, want, slices.Collect(s.Cells(0, lane)))
	}
	s.Clear()
	require.Equal(t, []uint64{0, 0}, words)
}

func TestFourAreTheWordsOfAKey(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, depth := range allDepths {
		l, err := NewLayout(depth, 1000, 8)
		require.NoError(t, err)
		for range 100 {
			const first = 3
			words, key := make([]uint64, first+l.Words()), r.Uint64()
			l.Raise(words, first, key, 1)
			a, b, c, d := l.Four(first, key)
			for row, w := range []int{a, b, c, d} {
				if row < depth {
					require.NotZero(t, words[w], "row %d of %d", row, depth)
				}
				require.Equal(t, min(row, depth-1), (w-first)/(l.Words()/depth))
			}
		}
	}
	a, b, c, d := new(Layout).Four(3, 5)
	require.Equal(t, []int{3, 3, 3, 3}, []int{a, b, c, d})
}

func TestCellsStopsWhenAsked(t *testing.T) {
	n := 0
	for range newSketch(t, 1, 100, 8).Cells(0, 2) {
		if n++; n == 3 {
			break
		}
	}
	require.Equal(t, 3, n)
}

func TestNothingAllocates(t *testing.T) {
	for _, depth := range []int{1, 3, 5} {
		s := newSketch(t, depth, 1000, 8)
		other := newSketch(t, depth, 1000, 8)
		h := uint64(1)
		for name, f := range map[string]func(){
			"Estimate":   func() { s.Estimate(h) },
			"Add":        func() { s.Add(h, 1) },
			"AddBounded": func() { s.AddBounded(h, 1, 100) },
			"Raise":      func() { s.Raise(h, 50) },
			"Tail":       func() { s.Tail(0, 0, 1) },
			"Merge":      func() { _ = s.Merge(other) },
			"Clear":      s.Clear,
		} {
			require.Zero(t, testing.AllocsPerRun(100, func() { h = seeded(h, 1); f() }), name)
		}
	}
}

func TestMemoryBytesIsWhatTheHeapShows(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := newSketch(t, 4, 3_000_001, 8)
	grown := float64(heap() - before)
	require.InEpsilon(t, grown, s.MemoryBytes(), 0.02)
	runtime.KeepAlive(s)
}

// FuzzOperations runs any sequence of operations against the oracles. Three bytes
// give the dimensions, then six each an operation: what, key, amount, bound.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 5, 0, 9, 0, 1, 1, 7, 0, 9, 0})
	f.Add([]byte{3, 31, 16, 2, 1, 255, 255, 9, 0, 3, 1, 7, 0, 9, 0, 1, 2, 3, 4, 5, 6})
	f.Add([]byte{1, 3, 100, 1, 1, 255, 0, 255, 255, 1, 1, 1, 0, 255, 255, 0, 9, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 3 || len(b) > 600 {
			return
		}
		m := newModel(t, 1+int(b[1])%MaxDepth, 1+int(b[2]), allCellBits[b[0]%4])
		for b = b[3:]; len(b) >= 6; b = b[6:] {
			h := seeded(uint64(b[1]%32), 1)
			n, bound := uint32(binary.LittleEndian.Uint16(b[2:])), uint32(binary.LittleEndian.Uint16(b[4:]))
			if m.s.CellBits() == 32 {
				n, bound = n<<16|n, bound<<16|bound
			}
			switch b[0] % 8 {
			case 0:
				m.add(h, n)
			case 1:
				m.raiseTo(h, n)
			case 2:
				if b[5] == 0 {
					m.clear()
				}
			default:
				m.addBounded(h, n, bound)
			}
		}
		m.check()
	})
}
