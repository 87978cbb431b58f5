package engine

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Keys that meet in one generation are strangers in the next, whichever bits of their hashes choose the place: of
// 102,000 pairs that have 12 bits in common one in 4,096 has them again. That is 25 by chance, with a standard deviation
// of 5.
func TestKeysThatMeetAreStrangersInTheNextGeneration(t *testing.T) {
	testkit.Computes(t)
	const keys, generations, bits12 = 2048, 200, 1<<12 - 1
	random := rand.New(rand.NewPCG(1, 2))
	for _, shift := range []int{0, 20, 52} {
		met, again := 0, 0
		for n := range int64(generations) {
			r := request{e: &Engine{layout: layout{turnSeed: random.Uint64()}}}
			var before, after [keys]uint64
			for i := range before {
				r.h = random.Uint64()
				before[i], after[i] = window{r}.hashAt(n)>>shift&bits12, window{r}.hashAt(n+1)>>shift&bits12
			}
			for i, b := range before {
				for j, c := range before[:i] {
					if b == c {
						met++
						if after[i] == after[j] {
							again++
						}
					}
				}
			}
		}
		require.InDelta(t, generations*keys*(keys-1)/2/4096, met, 5*320)
		require.InDelta(t, float64(met)/4096, again, 5*5)
	}
}

// A key's hashes in neighbouring generations differ in half of their bits: 64 bits each, so that 64,000 differ in 32,000
// with a standard deviation of 126.
func TestHashesOfNeighboursDiffer(t *testing.T) {
	r, differ := request{e: &Engine{layout: layout{turnSeed: 7}}, h: 12345}, 0
	for n := int64(-500); n < 500; n++ {
		differ += bits.OnesCount64(window{r}.hashAt(n) ^ window{r}.hashAt(n+1))
	}
	require.InDelta(t, 32_000, differ, 5*126)
}
