package main

import (
	"math"
	"math/rand/v2"
)

// heavyKeeper is HeavyKeeper: J. Gong, T. Yang, H. Zhang, H. Li, S. Uhlig, S. Chen, L.
// Uden and X. Li, "HeavyKeeper: An Accurate Algorithm for Finding Top-k Elephant
// Flows", USENIX ATC 2018. A key has one entry in each row. An entry of another key
// decays: it loses a unit with a probability that falls exponentially with its count.
// So counts can be too low, and the limiter admits too much.
//
//	entry: fingerprint | count (7 bits)
type heavyKeeper struct {
	entries
	depth  int
	row    uint64
	decay  [1 << 7]float64 // probability by count
	random *rand.PCG
}

const keeperCount = 1<<7 - 1

// newHeavyKeeper takes the rows, the bytes of an entry and the base of the decay in
// percent.
func newHeavyKeeper(bytes int, s setting) sketch {
	k := &heavyKeeper{entries: newEntries(bytes, s[1], s[0]), depth: s[0], random: rand.NewPCG(1, 2)}
	k.row = k.count() / uint64(k.depth)
	for count := range k.decay {
		k.decay[count] = math.Pow(float64(s[2])/100, -float64(count))
	}
	return k
}

func (k *heavyKeeper) estimate(h uint64) (most uint32) {
	print := k.print(h, 7)
	for r := range uint64(k.depth) {
		if v := k.get(r*k.row + pick(h, k.row)); v>>7 == print {
			most = max(most, v&keeperCount)
		}
		h = next(h)
	}
	return most
}

func (k *heavyKeeper) add(h uint64, _ uint32) {
	print := k.print(h, 7)
	for r := range uint64(k.depth) {
		i := r*k.row + pick(h, k.row)
		h = next(h)
		switch v := k.get(i); {
		case v&keeperCount == 0:
			k.set(i, print<<7|1)
		case v>>7 == print:
			k.set(i, min(v+1, v|keeperCount))
		case float64(k.random.Uint64()) < math.Ldexp(k.decay[v&keeperCount], 64):
			if v--; v&keeperCount == 0 {
				v = print<<7 | 1
			}
			k.set(i, v)
		}
	}
}
