package errorrate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// everyKey returns the same as FromShared, from every choice of a block and of a
// counter in each of its words.
func everyKey(words [][]uint64, blocks, counterBits int, most int64) map[[2]int64]float64 {
	rows, lanes := len(words[0])/blocks, 64/counterBits
	keys := blocks
	for range rows {
		keys *= lanes
	}
	noise := map[[2]int64]float64{}
	for key := range keys {
		block, lane := key%blocks, key/blocks
		least := slices.Repeat([]uint64{1<<counterBits - 1}, len(words))
		for row := range rows {
			for age := range words {
				word := words[age][block*rows+row]
				least[age] = min(least[age], word>>(lane%lanes*counterBits)&(1<<counterBits-1))
			}
			lane /= lanes
		}
		var units [2]int64
		for age, c := range least {
			switch {
			case c == 1<<counterBits-1:
				units[0] += most
			case age > 0 && age == len(words)-1:
				units[1] += int64(c)
			default:
				units[0] += int64(c)
			}
		}
		units[0] = min(units[0], most)
		noise[units] += 1 / float64(keys)
	}
	return noise
}

func TestFromShared_EveryKey(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		generations, rows, counterBits int
		most                           int64
	}{
		{1, 4, 8, 100}, {2, 4, 8, 100}, {3, 4, 8, 100}, {2, 1, 8, 5}, {2, 4, 8, 3}, {1, 3, 16, 20_000},
		{2, 4, 16, 20_000}, {5, 4, 16, 150}, {1, 4, 32, 1 << 30}, {2, 4, 32, 1 << 30}, {4, 2, 32, 1 << 30},
	} {
		for _, blocks := range []int{1, 3} {
			words := make([][]uint64, c.generations)
			for age := range words {
				words[age] = make([]uint64, blocks*c.rows)
				for lane := range blocks * c.rows * (64 / c.counterBits) {
					count := r.Uint64N(1 << c.counterBits) // low, anything, or the maximum
					switch r.IntN(4) {
					case 0, 1:
						count %= 4
					case 2:
						count = 1<<c.counterBits - 1
					}
					words[age][lane/(64/c.counterBits)] |= count << (lane % (64 / c.counterBits) * c.counterBits)
				}
			}
			want, last := everyKey(words, blocks, c.counterBits, c.most), [2]int64{-1, 0}
			noise := FromShared(words, blocks, c.counterBits, c.most)
			for range 2 { // it may be ranged over again
				seen := 0
				for units, p := range noise {
					if seen > 0 {
						require.Positive(t, slices.Compare(units[:], last[:]), "%+v", c)
					}
					last = units
					require.InDelta(t, want[units], p, 1e-12, "%+v: %v", c, units)
					seen++
				}
				require.Len(t, want, seen, "%+v", c)
			}
			for range noise { // or left early
				break
			}
		}
	}
}
