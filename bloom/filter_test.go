package bloom

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// alpha is the chance that a whole test raises a false alarm, if the hash is as good
// as random. Seeds are fixed, so that a test that passed once passes always.
const alpha = 1e-6

// seeded draws the hash of a generation from a key's hash as the limiter does.
func seeded(h, seed uint64) uint64 {
	hi, lo := bits.Mul64(h^seed, 0x9fb21c651e98df25)
	return hi ^ lo
}

func keyHash(key uint64) uint64 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(key))
	return seeded(xxhash.Sum64(b[:]), 1)
}

func textHash(key string) uint64 { return seeded(xxhash.Sum64String(key), 1) }

// unlikely reports whether a count of independent events of which lambda are expected
// is out of the question, to either side, at false-alarm chance a: Chernoff's bound
// exp(c-λ)(λ/c)^c of the Poisson distribution, which covers the binomial.
func unlikely(count int, lambda, a float64) bool {
	c := float64(count)
	log := c - lambda
	if c > 0 {
		log -= c * math.Log(c/lambda)
	}
	return log < math.Log(a/2)
}

func newFilter(t testing.TB, bytes, probes int) *Filter {
	f, err := NewBytes(bytes, probes)
	require.NoError(t, err)
	return f
}

// filledTo adds random keys until so many bits are set, and returns how many it took.
func filledTo(f *Filter, ratio float64, r *rand.Rand) (keys int) {
	for f.FillRatio() < ratio {
		for range max(1, 8*len(f.words)/1000) {
			f.Add(r.Uint64())
			keys++
		}
	}
	return keys
}

func TestBadBytesAndProbesAreNamed(t *testing.T) {
	for _, tt := range []struct {
		bytes, probes int
		want          string
	}{
		{0, 4, "bloom: 0 bytes, must be a multiple of 64"},
		{-64, 4, "bloom: -64 bytes, must be a multiple of 64"},
		{63, 4, "bloom: 63 bytes, must be a multiple of 64"},
		{100, 4, "bloom: 100 bytes, must be a multiple of 64"},
		{64, 0, "bloom: probes 0, must be 1 … 28"},
		{64, -1, "bloom: probes -1, must be 1 … 28"},
		{64, 29, "bloom: probes 29, must be 1 … 28"},
	} {
		_, err := NewBytes(tt.bytes, tt.probes)
		require.EqualError(t, err, tt.want)
	}
	for _, n := range []int{0, 7, 12} {
		_, err := Over(make([]uint64, n), 4)
		require.EqualError(t, err, fmt.Sprintf("bloom: %d words, must be a multiple of 8", n))
	}
}

// From bits-and-blooms (bloom_test.go), tylertreat/BoomFilters (classic_test.go) and
// RedisBloom (test_overall.py: a, b, c are new once). Left out: filters that grow or
// refuse keys when full, which this one is not.
func TestPublishedSequences(t *testing.T) {
	f := newFilter(t, 128, 4)
	f.Add(textHash("Bess"))
	require.False(t, f.TestAndAdd(textHash("Emma")))
	require.True(t, f.Test(textHash("Bess")))
	require.False(t, f.Test(textHash("Jane")))
	require.True(t, f.Test(textHash("Emma")))

	f, err := New(1000, 0.001)
	require.NoError(t, err)
	for _, key := range []string{"Love", "is", "in", "bloom"} {
		f.Add(textHash(key))
	}
	require.EqualValues(t, 4, math.Round(f.Distinct()))

	f = newFilter(t, 64, 4)
	for _, key := range []string{"a", "b", "c"} {
		require.False(t, f.TestAndAdd(textHash(key)))
	}
	require.Equal(t, 12.0/512, f.FillRatio())
	for _, key := range []string{"a", "b", "c"} {
		require.True(t, f.TestAndAdd(textHash(key)))
	}
	require.Equal(t, 12.0/512, f.FillRatio())
}

// google/guava (BloomFilterTest): the estimate of a million keys is within 1 %, put
// tells what mightContain told before, the rate rises from 0 to 1.
func TestMillionKeysAreEstimatedWithinOnePercent(t *testing.T) {
	f, err := New(1_000_000, 0.03)
	require.NoError(t, err)
	last := f.FalsePositiveRate()
	require.Zero(t, last)
	for i := range uint64(1_000_000) {
		f.Add(keyHash(2 * i))
		if i%100_000 == 99_999 {
			require.Greater(t, f.FalsePositiveRate(), last)
			last = f.FalsePositiveRate()
		}
	}
	require.InEpsilon(t, 1_000_000, f.Distinct(), 0.01)
	t.Logf("estimate %.0f, rate %.5f", f.Distinct(), last)
}

func TestTestAndAddTellsWhatTestTold(t *testing.T) {
	claims := 0
	for probes := 1; probes <= MaxProbes; probes++ {
		f := newFilter(t, 5*BlockBytes, probes)
		r := rand.New(rand.NewPCG(uint64(probes), 1))
		var added []uint64
		for range 500 {
			h := r.Uint64()
			before := f.Test(h)
			require.Equal(t, before, f.TestAndAdd(h))
			if before {
				claims++
			}
			require.True(t, f.Test(h))
			require.True(t, f.TestAndAdd(h))
			added = append(added, h)
			require.True(t, f.Test(added[r.IntN(len(added))]), "a false negative")
		}
		for _, h := range added {
			require.True(t, f.Test(h), "a false negative")
		}
	}
	require.Greater(t, claims, 1000, "too easy a load to tell")
}

// forgotten counts the keys, of 500 added, that a filter does not know afterwards.
func forgotten(add func(h uint64), test func(h uint64) bool) (n int) {
	r := rand.New(rand.NewPCG(1, 1))
	added := make([]uint64, 500)
	for i := range added {
		added[i] = r.Uint64()
		add(added[i])
	}
	for _, h := range added {
		if !test(h) {
			n++
		}
	}
	return n
}

func TestForgottenKeysAreNoticed(t *testing.T) {
	f := newFilter(t, 64*BlockBytes, 7)
	require.Zero(t, forgotten(f.Add, f.Test))
	f.Clear()
	require.NotZero(t, forgotten(f.Add, func(h uint64) bool { return f.Test(seeded(h, 1)) }), "other bits are read than set")
	f.Clear()
	require.NotZero(t, forgotten(func(h uint64) { f.Add(h &^ 1) }, f.Test), "one bit of the hash is lost when it is added")
}

func TestKeyLiesInOneBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for probes := 1; probes <= MaxProbes; probes++ {
		f := newFilter(t, 64*BlockBytes, probes)
		for range 100 {
			f.Clear()
			h := r.Uint64()
			f.Add(h)
			touched := 0
			for i := 0; i < len(f.words); i += blockWords {
				if n := ones(f.words[i:][:blockWords]); n > 0 {
					touched++
					require.LessOrEqual(t, n, probes)
					require.Equal(t, 7+i, f.Block(7, h))
				}
			}
			require.Equal(t, 1, touched)
		}
	}
}

func ones(words []uint64) (n int) {
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}

// uneven reports whether counts that should be alike are not: chi-square with k degrees
// of freedom exceeds k + 2√(kx) + 2x with chance e^-x at most (Laurent and Massart,
// 2000, lemma 1).
func uneven(counts []int, a float64) bool {
	total, chi2 := 0.0, 0.0
	for _, n := range counts {
		total += float64(n)
	}
	expected := total / float64(len(counts))
	for _, n := range counts {
		chi2 += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	k, x := float64(len(counts)-1), -math.Log(a)
	return chi2 > k+2*math.Sqrt(k*x)+2*x
}

// Hashes of sequential keys spread over all blocks, and probes over all bits of a
// block, whichever block that is. A hash of 10 bits fails.
func TestBlocksAndBitsAreUsedEvenly(t *testing.T) {
	const blocks, keys = 100, 200_000
	used := func(hash func(uint64) uint64) (inBlock, atBit, joint []int) {
		f := newFilter(t, blocks*BlockBytes, 1)
		inBlock, atBit, joint = make([]int, blocks), make([]int, blockBits), make([]int, blocks*32)
		for i := range uint64(keys) {
			f.Add(hash(i))
			w := slices.IndexFunc(f.words, func(word uint64) bool { return word != 0 })
			bit := w%blockWords*64 + bits.TrailingZeros64(f.words[w])
			f.words[w] = 0
			inBlock[w/blockWords]++
			atBit[bit]++
			joint[w/blockWords*32+bit/16]++
		}
		return inBlock, atBit, joint
	}
	inBlock, atBit, joint := used(keyHash)
	require.False(t, uneven(inBlock, alpha/3), "blocks")
	require.False(t, uneven(atBit, alpha/3), "bits")
	require.False(t, uneven(joint, alpha/3), "bits by block")
	inBlock, atBit, joint = used(func(key uint64) uint64 { return keyHash(key % 1024) })
	require.True(t, uneven(inBlock, alpha/3), "blocks")
	require.True(t, uneven(atBit, alpha/3), "bits")
	require.True(t, uneven(joint, alpha/3), "bits by block")
}

// The stated rate against a million keys that were not added: off by chance only. A
// rate that takes all blocks for equally full must fail the same check.
func TestStatedRateIsTheMeasuredOne(t *testing.T) {
	testkit.Computes(t)
	const fresh = 1_000_000
	r := rand.New(rand.NewPCG(3, 3))
	for _, probes := range []int{1, 3, 7, 8, 14, 15, 28} { // 7 probes to a draw
		for _, fill := range []float64{0.3, 0.5, 0.7} {
			f := newFilter(t, 200*BlockBytes, probes)
			filledTo(f, fill, r)
			claimed := 0
			for range fresh {
				if f.Test(r.Uint64()) {
					claimed++
				}
			}
			require.False(t, unlikely(claimed, f.FalsePositiveRate()*fresh, alpha/21),
				"%d probes, fill %g: %d, expected %.1f", probes, fill, claimed, f.FalsePositiveRate()*fresh)
			if probes == 7 && fill == 0.5 {
				require.True(t, unlikely(claimed, math.Pow(f.FillRatio(), 7)*fresh, alpha/21), "the broken rate")
			}
		}
	}
}

// Distinct counts by linear counting in each block: for n keys in a block of m bits,
// t = nk/m probes a bit, the estimate of t has variance (e^t - t - 1)/m and a bias of
// half that (Whang, Vander-Zanden, Taylor 1990, theorem 1 and section 3). Summed over
// blocks with a Poisson number of keys that is the tolerance, with a normal
// quantile of 5.5: a chance of 1e-6 for all cases. The estimate from the fill of the
// whole must fail.
func TestDistinctIsWithinItsTolerance(t *testing.T) {
	testkit.Computes(t)
	const blocks, m = 1000, float64(blockBits)
	r := rand.New(rand.NewPCG(7, 7))
	for _, probes := range []int{1, 7, 12} {
		k := float64(probes)
		for _, fill := range []float64{0.01, 0.1, 0.5, 0.75, 0.9} {
			f := newFilter(t, blocks*BlockBytes, probes)
			keys := filledTo(f, fill, r)
			load := float64(keys) / blocks
			// The mean of e^t - t - 1 over the keys of a block.
			spread := math.Exp(load*math.Expm1(k/m)) - load*k/m - 1
			bias := blocks * spread / 2 / k
			deviation := math.Sqrt(blocks*m*spread) / k
			got := f.Distinct()
			require.InDelta(t, keys, got, bias+5.5*deviation, "%d probes, fill %g", probes, fill)
			t.Logf("%2d probes, fill %4g: %6d keys, %+.2f %%, tolerance %.2f %%", probes, fill, keys,
				100*(got/float64(keys)-1), 100*(bias+5.5*deviation)/float64(keys))
			if probes == 12 && fill == 0.9 {
				whole := -math.Log1p(-f.FillRatio()) * m / k * blocks
				require.Greater(t, math.Abs(whole-float64(keys)), bias+5.5*deviation, "the broken estimate")
			}
		}
	}
}

func TestKeyThatIsAddedAgainChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	f := newFilter(t, 10*BlockBytes, 7)
	var added []uint64
	for range 300 {
		added = append(added, r.Uint64())
		f.Add(added[len(added)-1])
	}
	before := slices.Clone(f.words)
	for _, h := range added {
		f.Add(h)
	}
	require.Equal(t, before, f.words)
}

func TestEmptyFilterClaimsNothing(t *testing.T) {
	f := newFilter(t, 4*BlockBytes, 5)
	require.Zero(t, f.FillRatio())
	require.Zero(t, f.FalsePositiveRate())
	require.Zero(t, f.Distinct())
	for i := range uint64(1000) {
		require.False(t, f.Test(seeded(i, 1)))
	}
}

func TestFullFilterClaimsEverything(t *testing.T) {
	words := make([]uint64, 4*blockWords)
	for i := range words {
		words[i] = ^uint64(0)
	}
	f, err := Over(words, 5)
	require.NoError(t, err)
	require.EqualValues(t, 1, f.FillRatio())
	require.EqualValues(t, 1, f.FalsePositiveRate())
	require.False(t, math.IsInf(f.Distinct(), 0) || math.IsNaN(f.Distinct()))
	require.Greater(t, f.Distinct(), 4*blockBits/5.0)
	for i := range uint64(1000) {
		require.True(t, f.TestAndAdd(seeded(i, 1)))
	}
}

// A hash that is the same for all keys makes one key of them.
func TestDegenerateHashIsOneKey(t *testing.T) {
	for _, h := range []uint64{0, math.MaxUint64, 0x9e3779b97f4a7c15} {
		for _, blocks := range []int{1, 3, 1000} {
			f := newFilter(t, blocks*BlockBytes, 14)
			require.False(t, f.TestAndAdd(h))
			for range 10 {
				require.True(t, f.TestAndAdd(h))
			}
			require.LessOrEqual(t, ones(f.words), 14)
			require.LessOrEqual(t, f.Distinct(), 1.05)
		}
	}
}

func TestClearEmptiesTheFilter(t *testing.T) {
	f := newFilter(t, 4*BlockBytes, 5)
	filledTo(f, 0.5, rand.New(rand.NewPCG(1, 1)))
	f.Clear()
	require.Equal(t, make([]uint64, 4*blockWords), f.words)
	require.Zero(t, f.FillRatio())
}

func TestMergeIsTheUnion(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, blocks := range []int{1, 3, 100} {
		a, b, both := newFilter(t, blocks*BlockBytes, 6), newFilter(t, blocks*BlockBytes, 6), newFilter(t, blocks*BlockBytes, 6)
		for i := range 20 * blocks {
			h := r.Uint64()
			both.Add(h)
			if i%3 != 0 {
				a.Add(h)
			}
			if i%3 != 1 {
				b.Add(h)
			}
		}
		second := slices.Clone(b.words)
		require.NoError(t, a.Merge(b))
		require.Equal(t, both, a)
		require.Equal(t, second, b.words)
		require.NoError(t, a.Merge(a))
		require.Equal(t, both, a)
	}
}

func TestMergeRefusesOtherDimensions(t *testing.T) {
	f := newFilter(t, 2*BlockBytes, 6)
	f.Add(1)
	before := slices.Clone(f.words)
	for _, other := range []*Filter{newFilter(t, 3*BlockBytes, 6), newFilter(t, BlockBytes, 6), newFilter(t, 2*BlockBytes, 5), {}} {
		require.ErrorIs(t, f.Merge(other), ErrMismatch)
	}
	require.EqualError(t, f.Merge(newFilter(t, 3*BlockBytes, 7)),
		"bloom: merge 192 bytes and 7 probes into 128 and 6: dimensions differ")
	require.Equal(t, before, f.words)
}

func TestOverSharesTheCallersWords(t *testing.T) {
	words := make([]uint64, blockWords)
	f, err := Over(words, 3)
	require.NoError(t, err)
	f.Add(42)
	require.Equal(t, ones(words), int(f.FillRatio()*blockBits))
	require.Positive(t, ones(words))
	f.Clear()
	require.Zero(t, ones(words))
}

func TestNothingAllocates(t *testing.T) {
	f, other := newFilter(t, 10*BlockBytes, 10), newFilter(t, 10*BlockBytes, 10)
	h := uint64(1)
	for name, op := range map[string]func(){
		"Test":              func() { f.Test(h) },
		"Add":               func() { f.Add(h) },
		"TestAndAdd":        func() { f.TestAndAdd(h) },
		"FillRatio":         func() { f.FillRatio() },
		"FalsePositiveRate": func() { f.FalsePositiveRate() },
		"Distinct":          func() { f.Distinct() },
		"Merge":             func() { _ = f.Merge(other) },
		"Clear":             f.Clear,
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() { h = seeded(h, 1); op() }), name)
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
	f := newFilter(t, 10_000_000/BlockBytes*BlockBytes, 4)
	grown := float64(heap() - before)
	require.InEpsilon(t, grown, f.MemoryBytes(), 0.02)
	runtime.KeepAlive(f)
}

// FuzzOperations runs any sequence of operations against a set. Two bytes give the
// dimensions, then two each an operation and its key.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 1, 1, 2, 1})
	f.Add([]byte{27, 3, 0, 1, 1, 2, 2, 3, 7, 0, 2, 1, 3, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 || len(b) > 1000 {
			return
		}
		bytes, probes := (1+int(b[1])%20)*BlockBytes, 1+int(b[0])%MaxProbes
		s, other := newFilter(t, bytes, probes), newFilter(t, bytes, probes)
		set, others := map[uint64]bool{}, map[uint64]bool{}
		for b = b[2:]; len(b) >= 2; b = b[2:] {
			h := seeded(uint64(b[1]), 1)
			switch b[0] % 8 {
			case 0:
				if b[0] == 0 {
					s.Clear()
					clear(set)
				}
			case 1:
				other.Add(h)
				others[h] = true
			case 2:
				require.NoError(t, s.Merge(other))
				for h := range others {
					set[h] = true
				}
			default:
				before := s.Test(h)
				require.False(t, set[h] && !before, "a false negative")
				require.Equal(t, before, s.TestAndAdd(h))
				set[h] = true
			}
		}
		want := newFilter(t, bytes, probes)
		for h := range set {
			require.True(t, s.Test(h))
			want.Add(h)
		}
		require.Equal(t, want.words, s.words, "bits depend on the keys alone")
	})
}
