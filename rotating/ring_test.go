package rotating

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// page is a buffer that remembers what was written to it since it was last cleared,
// and how often that was.
type page struct {
	name    int
	written []int64
	clears  int
}

func (p *page) Clear() {
	p.written = nil
	p.clears++
}

func pages(n int) []*page {
	p := make([]*page, n)
	for i := range p {
		p[i] = &page{name: i}
	}
	return p
}

// book keeps pages in a ring.
type book struct {
	Ring
	pages  []*page
	number int64
	seed   uint64
}

// At returns the page and the seed of the generation of an age.
func (r *book) At(age int) (*page, uint64) {
	number := r.number - int64(age)
	return r.pages[r.Buffer(number)], Seed(r.seed, number)
}

// Advance makes a generation the current one, and returns how many pages it cleared.
func (r *book) Advance(number int64) int {
	expired := r.Rotate(r.number, number, func(i int) { r.pages[i].Clear() })
	r.number = max(r.number, number)
	return expired
}

func (r *book) Generation() int64 { return r.number }

func newBook(seed uint64, number int64, p []*page) *book {
	return &book{NewRing(len(p)), p, number, seed}
}

func TestNewRingClearsNothing(t *testing.T) {
	p := pages(3)
	r := newBook(1, -7, p)
	require.Equal(t, 3, r.Buffers())
	require.EqualValues(t, -7, r.Generation())
	for age := range 3 {
		_, seed := r.At(age)
		require.Equal(t, seedOf(1, -7-int64(age)), seed)
		require.Zero(t, p[age].clears)
	}
}

func TestAdvance(t *testing.T) {
	type step struct {
		to     int64
		clears int   // returned
		at     int64 // the current generation afterwards
	}
	for _, buffers := range []int{1, 2, 5} {
		for name, steps := range map[string][]step{
			"one by one":  {{11, 1, 11}, {12, 1, 12}, {13, 1, 13}, {14, 1, 14}, {15, 1, 15}, {16, 1, 16}},
			"stand still": {{10, 0, 10}, {10, 0, 10}, {11, 1, 11}, {11, 0, 11}},
			"back":        {{9, 0, 10}, {-5, 0, 10}, {math.MinInt64, 0, 10}, {11, 1, 11}, {10, 0, 11}},
			"two":         {{12, 2, 12}, {14, 2, 14}},
			"many":        {{14, 4, 14}, {19, 5, 19}, {25, 6, 25}},
			"huge":        {{math.MaxInt64, math.MaxInt, math.MaxInt64}, {math.MinInt64, 0, math.MaxInt64}},
		} {
			p := pages(buffers)
			r := newBook(3, 10, p)
			total := 0
			for i, s := range steps {
				want := min(s.clears, buffers) // each buffer at most once
				require.Equal(t, want, r.Advance(s.to), "%s, %d buffers, step %d", name, buffers, i)
				require.Equal(t, s.at, r.Generation())
				total += want
			}
			for _, page := range p {
				total -= page.clears
			}
			require.Zero(t, total, "%s, %d buffers: cleared as often as told", name, buffers)
		}
	}
}

// The distance from the least to the greatest generation does not fit an int64.
func TestAdvanceOverTheWholeRange(t *testing.T) {
	for _, buffers := range []int{1, 2, 5} {
		p := pages(buffers)
		r := newBook(3, math.MinInt64, p)
		require.Equal(t, min(buffers, 1), r.Advance(math.MinInt64+1))
		require.Equal(t, buffers, r.Advance(math.MaxInt64))
		require.Equal(t, int64(math.MaxInt64), r.Generation())
		for age := range buffers {
			_, seed := r.At(age)
			require.Equal(t, seedOf(3, math.MaxInt64-int64(age)), seed)
		}
	}
}

// The generations that are kept are in different buffers, and the next one is where the
// oldest was.
func TestBuffersOfNeighbours(t *testing.T) {
	for _, buffers := range []int{1, 2, 3, 5} {
		for _, number := range []int64{math.MinInt64 + 9, -7, -1, 0, 10, math.MaxInt64 - 1} {
			ring, seen := NewRing(buffers), map[int]bool{}
			for age := range int64(buffers) {
				i := ring.Buffer(number - age)
				require.True(t, i >= 0 && i < buffers)
				seen[i] = true
			}
			require.Len(t, seen, buffers)
			require.Equal(t, ring.Buffer(number+1-int64(buffers)), ring.Buffer(number+1))
		}
	}
}

func TestOnlyTheOldestBufferIsCleared(t *testing.T) {
	for _, buffers := range []int{2, 3, 5} {
		p := pages(buffers)
		r := newBook(1, 0, p)
		for n := int64(1); n < 20; n++ {
			oldest, _ := r.At(buffers - 1)
			before := make([]int, buffers)
			for i, page := range p {
				before[i] = page.clears
			}
			require.Equal(t, 1, r.Advance(n))
			current, _ := r.At(0)
			require.Same(t, oldest, current)
			for i, page := range p {
				want := before[i]
				if page == oldest {
					want++
				}
				require.Equal(t, want, page.clears, "generation %d, buffer %d", n, i)
			}
		}
	}
}

// seedOf reads a generation's seed from a ring that starts there.
func seedOf(seed uint64, number int64) uint64 {
	r := newBook(seed, number, pages(1))
	_, s := r.At(0)
	return s
}

func TestSeedsFollowFromSeedAndNumberAlone(t *testing.T) {
	const seed = 42
	stepped, jumped := newBook(seed, 0, pages(5)), newBook(seed, 0, pages(5))
	for n := range int64(100) {
		stepped.Advance(n)
	}
	jumped.Advance(99)
	started := newBook(seed, 99, pages(5))
	two := newBook(seed, 99, pages(2))
	for age := range 5 {
		_, want := stepped.At(age)
		require.Equal(t, seedOf(seed, 99-int64(age)), want)
		for _, r := range []*book{jumped, started, two} {
			if age < r.Buffers() {
				_, got := r.At(age)
				require.Equal(t, want, got, "age %d", age)
			}
		}
	}
}

// Seeds differ from each other and from the one they follow from, for as many
// generations as anybody keeps.
func TestSeedsAreAllDifferent(t *testing.T) {
	for _, from := range []int64{-500, math.MinInt64, math.MaxInt64 - 999} {
		seen := map[uint64]bool{7: true}
		for n := range int64(1000) {
			s := seedOf(7, from+n)
			require.False(t, seen[s], "generation %d", from+n)
			seen[s] = true
		}
	}
	require.NotEqual(t, seedOf(7, 1), seedOf(8, 1))
}

// check runs jumps on a ring beside the plainest model, a map from each generation
// to what was written in it.
func check(t testing.TB, buffers int, start int64, jumps []int64) {
	p := pages(buffers)
	r := newBook(9, start, p)
	model, current := map[int64][]int64{}, start
	for i, jump := range jumps {
		to := current + jump // may wrap, as a broken clock does
		began := uint64(0)
		if to > current {
			began = uint64(to) - uint64(current)
			current = to
		}
		require.EqualValues(t, min(began, uint64(buffers)), r.Advance(to))
		require.Equal(t, current, r.Generation())

		b, _ := r.At(0)
		b.written = append(b.written, int64(i))
		model[current] = append(model[current], int64(i))

		seen := map[int]bool{}
		for age := range buffers {
			b, seed := r.At(age)
			require.Equal(t, model[current-int64(age)], b.written, "jump %d, age %d", i, age)
			require.Equal(t, seedOf(9, current-int64(age)), seed)
			require.False(t, seen[b.name], "a buffer serves two generations")
			seen[b.name] = true
		}
	}
}

func TestEachGenerationKeepsWhatWasWrittenInIt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var jumps []int64
		for range 50 {
			switch r.IntN(20) {
			case 0:
				jumps = append(jumps, r.Int64N(math.MaxInt64))
			case 1:
				jumps = append(jumps, -r.Int64N(100))
			default:
				jumps = append(jumps, r.Int64N(4))
			}
		}
		check(t, 1+r.IntN(6), r.Int64N(1000)-500, jumps)
	}
}

func FuzzAdvance(f *testing.F) {
	f.Add(byte(1), int64(0), []byte{1, 1, 0, 2, 250, 3})
	f.Add(byte(4), int64(math.MaxInt64-3), []byte{1, 1, 1, 1, 1, 9, 9})
	f.Add(byte(2), int64(math.MinInt64), []byte{128, 255, 255, 255, 255, 255, 255, 255, 127, 1})
	f.Add(byte(5), int64(math.MinInt64), []byte{1})
	f.Fuzz(func(t *testing.T, buffers byte, start int64, b []byte) {
		start = max(start, math.MinInt64+8) // the generations before it have numbers as well
		var jumps []int64
		for len(b) > 0 && len(jumps) < 200 {
			if b[0] == 128 && len(b) >= 9 { // a jump of any size
				jumps = append(jumps, int64(binary.LittleEndian.Uint64(b[1:])))
				b = b[9:]
				continue
			}
			jumps = append(jumps, int64(int8(b[0])))
			b = b[1:]
		}
		check(t, 1+int(buffers%8), start, jumps)
	})
}
