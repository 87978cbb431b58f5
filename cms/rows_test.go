package cms

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// The error of a sketch falls by a factor with every row only as long as keys that
// meet in one row are strangers in the others, and in the next generation. These
// tests count the keys that meet. Each check is also held against designs that
// are known to fail it.

const (
	rowsTested = 8
	keysTested = 1 << 17

	// alpha is the chance that one whole test raises a false alarm, if the hash is
	// as good as random; it is shared out among the comparisons of the test. Seeds
	// are fixed, so that a test that passed once passes always.
	alpha = 1e-6
)

// seeded draws the hash of a generation from a key's hash as the limiter does.
func seeded(h, seed uint64) uint64 {
	hi, lo := bits.Mul64(h^seed, 0x9fb21c651e98df25)
	return hi ^ lo
}

func keyHash(key string) uint64 { return seeded(xxhash.Sum64String(key), 7) }

// randomKeys and sequentialKeys are the two sorts of XXH64 values that rows are
// tested with; the second are those of 8-byte integers, one after another.
func randomKeys(n int) []uint64 {
	r := rand.New(rand.NewPCG(1, 2))
	h := make([]uint64, n)
	for i := range h {
		h[i] = r.Uint64()
	}
	return h
}

func sequentialKeys(n int) []uint64 {
	h := make([]uint64, n)
	for i := range h {
		h[i] = xxhash.Sum64(binary.LittleEndian.AppendUint64(nil, uint64(i)))
	}
	return h
}

func withSeed(keys []uint64, seed uint64) []uint64 {
	h := make([]uint64, len(keys))
	for i, k := range keys {
		h[i] = seeded(k, seed)
	}
	return h
}

// wordsOf returns the index of each key's word within each row.
func wordsOf(s *Sketch, hashes []uint64) [][]uint64 {
	rows := make([][]uint64, s.depth)
	for r := range rows {
		rows[r] = make([]uint64, len(hashes))
	}
	for i, h := range hashes {
		r := uint64(0)
		s.each(h, func(word uint64) {
			rows[r][i] = word - r*s.row
			r++
		})
	}
	return rows
}

// sketchWords is wordsOf for rows of so many words.
func sketchWords(t *testing.T, width int, hashes []uint64) [][]uint64 {
	s, err := New(rowsTested, 4*width, 16)
	require.NoError(t, err)
	return wordsOf(s, hashes)
}

// meetings counts the pairs of keys that share a word in all of the rows.
func meetings(width int, rows ...[]uint64) int {
	joint, cells := make([]uint64, len(rows[0])), uint64(1)
	for _, row := range rows {
		for i, c := range row {
			joint[i] = joint[i]*uint64(width) + c
		}
		cells *= uint64(width)
	}
	pairs := 0
	if cells <= 1<<20 {
		met := make([]int32, cells)
		for _, c := range joint {
			pairs += int(met[c])
			met[c]++
		}
		return pairs
	}
	slices.Sort(joint)
	for i, run := 1, 0; i < len(joint); i++ {
		if run++; joint[i] != joint[i-1] {
			run = 0
		}
		pairs += run
	}
	return pairs
}

// tooMany reports whether count is out of the question for chance events of which
// lambda are expected, at false-alarm chance a. It is Chernoff's bound of the Poisson
// distribution, P(X ≥ c) ≤ exp(c-λ)(λ/c)^c, which covers the binomial as well. Pairs
// of independent keys meet independently two by two, so their count has the variance
// of a binomial and, at the loads used here, its shape.
func tooMany(count int, lambda, a float64) bool {
	c := float64(count)
	return c > lambda && c-lambda-c*math.Log(c/lambda) < math.Log(a)
}

// dependence reports the first combination of rows in which keys meet more often than
// chance: all pairs (and in narrow sketches, where they are frequent, triples) of rows
// of a, or, if b is given, every row of a with every row of b. It also returns the
// largest excess of any, in standard deviations.
func dependence(width int, a, b [][]uint64) (worst float64, err error) {
	var combinations [][]int // indices into rows
	rows := append(slices.Clone(a), b...)
	for i := range a {
		for j := range b {
			combinations = append(combinations, []int{i, len(a) + j})
		}
		for j := i + 1; j < len(a) && b == nil; j++ {
			combinations = append(combinations, []int{i, j})
			for k := j + 1; k < len(a) && width < 100; k++ {
				combinations = append(combinations, []int{i, j, k})
			}
		}
	}
	n := float64(len(a[0]))
	for _, c := range combinations {
		var chosen [][]uint64
		for _, r := range c {
			chosen = append(chosen, rows[r])
		}
		count, lambda := meetings(width, chosen...), n*(n-1)/2/math.Pow(float64(width), float64(len(c)))
		if lambda > 1 {
			worst = max(worst, (float64(count)-lambda)/math.Sqrt(lambda))
		}
		if tooMany(count, lambda, alpha/float64(len(combinations))) {
			return worst, fmt.Errorf("rows %v of width %d: %d pairs meet, expected %.1f", c, width, count, lambda)
		}
	}
	return worst, nil
}

// uneven reports rows whose cells are not used alike: chi-square with k = width-1
// degrees of freedom exceeds k + 2√(kx) + 2x with chance e^-x at most (Laurent and
// Massart, 2000, lemma 1).
func uneven(width int, rows [][]uint64) error {
	for r, row := range rows {
		used := make([]float64, width)
		for _, c := range row {
			used[c]++
		}
		chi2, expected := 0.0, float64(len(row))/float64(width)
		for _, u := range used {
			chi2 += (u - expected) * (u - expected) / expected
		}
		k, x := float64(width-1), math.Log(float64(len(rows))/alpha)
		if limit := k + 2*math.Sqrt(k*x) + 2*x; chi2 > limit {
			return fmt.Errorf("row %d of width %d: chi-square %.0f, at most %.0f", r, width, chi2, limit)
		}
	}
	return nil
}

func TestKeysThatMeetInOneRowMeetInOthersByChanceOnly(t *testing.T) {
	testkit.Computes(t)
	for _, tt := range []struct {
		name  string
		keys  []uint64
		width int
	}{
		{"random", randomKeys(keysTested), 1000},
		{"random", randomKeys(keysTested), 50_021},
		{"sequential", withSeed(sequentialKeys(keysTested), 0), 64},
	} {
		worst, err := dependence(tt.width, sketchWords(t, tt.width, tt.keys), nil)
		require.NoError(t, err, tt.name)
		t.Logf("%s keys, width %d: worst combination of rows %+.1f σ", tt.name, tt.width, worst)
	}
}

func TestKeysThatMeetInOneGenerationMeetInTheNextByChanceOnly(t *testing.T) {
	testkit.Computes(t)
	keys := sequentialKeys(keysTested)
	seed, before := rotating.Seed(1, 1000), rotating.Seed(1, 999)
	for _, width := range []int{1000, 1024} {
		worst, err := dependence(width, sketchWords(t, width, withSeed(keys, seed)), sketchWords(t, width, withSeed(keys, before)))
		require.NoError(t, err)
		t.Logf("width %d: worst of 64 pairs of rows %+.1f σ", width, worst)
	}
}

func TestRowsUseTheirWordsEvenly(t *testing.T) {
	for name, keys := range map[string][]uint64{
		"random":     randomKeys(keysTested),
		"sequential": sequentialKeys(keysTested), // not even mixed with a seed
		"mixed":      withSeed(sequentialKeys(keysTested), 7),
	} {
		for _, width := range []int{1, 3, 1000, 1024, 4099} {
			require.NoError(t, uneven(width, sketchWords(t, width, keys)), name)
		}
	}
}

// A lane is a part of the keys that has the rows to itself, as a shard is: within it keys
// meet by chance only if lane and words are independent.
func TestLanesAreEvenAndIndependentOfWords(t *testing.T) {
	const width = 64
	for name, keys := range map[string][]uint64{"random": randomKeys(keysTested), "mixed": withSeed(sequentialKeys(keysTested), 7)} {
		for _, bits := range []int{4, 8, 16, 32} {
			s, err := New(rowsTested, width*64/bits, bits)
			require.NoError(t, err)
			lanes, cells := make([]uint64, len(keys)), wordsOf(s, keys)
			for i, h := range keys {
				lanes[i] = h & s.lanes / uint64(bits)
				for _, row := range cells {
					row[i] = row[i]*uint64(s.Lanes()) + lanes[i]
				}
			}
			require.NoError(t, uneven(s.Lanes(), [][]uint64{lanes}), name)
			require.NoError(t, uneven(s.Width(), cells), name)

			for i, h := range keys { // a lane by the bits that choose the first row's word
				lanes[i] = h >> 58 % uint64(s.Lanes())
				cells[0][i] = cells[0][i]/uint64(s.Lanes())*uint64(s.Lanes()) + lanes[i]
			}
			require.Error(t, uneven(s.Width(), cells[:1]), name)
		}
	}
}

// broken makes rows from a function of hash and row.
func broken(hashes []uint64, cell func(h uint64, row int) uint64) [][]uint64 {
	rows := make([][]uint64, rowsTested)
	for r := range rows {
		for _, h := range hashes {
			rows[r] = append(rows[r], cell(h, r))
		}
	}
	return rows
}

func TestRowChecksFlagBrokenDesigns(t *testing.T) {
	const width = 64
	keys := randomKeys(keysTested)
	for name, cell := range map[string]func(h uint64, row int) uint64{
		// A popular cache's: whoever meets in a row meets in all.
		"xor seed, then mask": func(h uint64, row int) uint64 { return (h ^ keys[row]) % width },
		// Twice the same low bits.
		"double hashing by one hash": func(h uint64, row int) uint64 { return (h + uint64(row)*(h<<1|1)) % width },
		// Kirsch and Mitzenmacher's, good for a Bloom filter of any size. Two rows are
		// independent, but whoever meets in two neighbouring ones meets in all.
		"double hashing by two": func(h uint64, row int) uint64 { return (h>>32 + uint64(row)*(h&math.MaxUint32)) % width },
		// Half of the second row's bits are the first row's.
		"overlapping bits": func(h uint64, row int) uint64 { return h >> (3 * row) % width },
	} {
		_, err := dependence(width, broken(keys, cell), nil)
		require.Error(t, err, name)
		t.Logf("%s: %v", name, err)
	}

	// Generations that share a hash; whose seed is a mask on it; or whose seeds, 6 and
	// 7, are neighbours: that is why a ring mixes its seeds.
	now := sketchWords(t, width, keys)
	masked := slices.Clone(keys)
	for i := range masked {
		masked[i] ^= 0xbb67ae8584caa73b
	}
	for name, next := range map[string][2][][]uint64{
		"same hash":        {now, now},
		"masked hash":      {now, sketchWords(t, width, masked)},
		"neighbours' seed": {sketchWords(t, width, withSeed(keys, 6)), sketchWords(t, width, withSeed(keys, 7))},
	} {
		_, err := dependence(width, next[0], next[1])
		require.Error(t, err, name)
		t.Logf("%s: %v", name, err)
	}

	// Keys without a hash, and a hash of too few bits for the width.
	small := slices.Clone(keys)
	for i := range small {
		small[i] = uint64(i)
	}
	require.Error(t, uneven(width, sketchWords(t, width, small)))
	require.Error(t, uneven(1000, broken(keys, func(h uint64, _ int) uint64 { return h >> 55 * 1000 >> 9 })))
}

// The Bloom filter lets a key's first unit into the sketch when the filter claims the
// key wrongly. Those keys must lie in the sketch like any others.
func TestFalsePositivesOfTheFilterMeetInRowsByChanceOnly(t *testing.T) {
	testkit.Computes(t)
	const width = 1000
	filters := map[string]*bloom.Filter{}

	// A filter as it is used: 1 % false positives.
	used, err := bloom.New(50_000, 0.01)
	require.NoError(t, err)
	for i := range uint64(50_000) {
		used.Add(seeded(i, 1))
	}
	filters["1 % of all"] = used

	// The worst case: every key of 16 of 1,024 blocks, and no other.
	words := make([]uint64, 1024*bloom.BlockBytes/8)
	for i := range 16 * bloom.BlockBytes / 8 {
		words[i] = ^uint64(0)
	}
	filters["16 full blocks"], err = bloom.Over(words, 4)
	require.NoError(t, err)

	for name, f := range filters {
		r := rand.New(rand.NewPCG(3, 4))
		var claimed []uint64
		for len(claimed) < 1<<15 {
			if h := r.Uint64(); f.Test(h) {
				claimed = append(claimed, h)
			}
		}
		rows := sketchWords(t, width, claimed)
		require.NoError(t, uneven(width, rows), name)
		worst, err := dependence(width, rows, nil)
		require.NoError(t, err, name)
		t.Logf("%s: worst of 28 pairs of rows %+.1f σ", name, worst)

		if name == "16 full blocks" {
			// A sketch whose first row draws on the bits that choose the block.
			same := broken(claimed, func(h uint64, _ int) uint64 {
				_, lo := bits.Mul64(h^0x9e3779b97f4a7c15, 0xd1342543de82ef95)
				return lo >> 32 * width >> 32
			})
			require.Error(t, uneven(width, same))
		}
	}
}

// Two counts that do not fit beside each other any more become one, which is the
// greater of the two.
func TestCellsJoinAtTheGreaterCount(t *testing.T) {
	for bits, room := range map[int]uint32{4: 12, 8: 1 << 8, 16: 1 << 16} {
		for _, first := range []uint32{0, 1, room - 1} {
			for _, second := range []uint32{1, room - 1, room, 2 * room} {
				s, err := New(1, 64/bits, bits)
				require.NoError(t, err)
				a, b := uint64(0), uint64(bits) // hashes of two cells of a pair
				s.Raise(a, first)
				s.Raise(b, second)
				require.GreaterOrEqual(t, s.Estimate(a), first, "%d bits, %d and %d", bits, first, second)
				require.GreaterOrEqual(t, s.Estimate(b), second)
				require.LessOrEqual(t, max(s.Estimate(a), s.Estimate(b)), max(first, second))
			}
		}
	}
}
