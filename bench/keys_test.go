package bench

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
	"unsafe"
)

const keyBytes = 16

// keys is a sequence of 16-byte keys in the order of their use, one after another in
// memory: a request that has just been parsed has its key in the cache, and what is
// measured is the limiter's memory, not the benchmark's.
type keys []byte

func (k keys) len() int { return len(k) / keyBytes }

// at returns the i-th key of the sequence, which begins anew at its end.
func (k keys) at(i int) string {
	return unsafe.String(&k[i%(len(k)/keyBytes)*keyBytes], keyBytes)
}

// each calls f with n keys from the first-th on. It is inlined with its argument.
func (k keys) each(first, n int, f func(key string)) {
	i := first % k.len() * keyBytes
	for range n {
		f(unsafe.String(&k[i], keyBytes))
		if i += keyBytes; i == len(k) {
			i = 0
		}
	}
}

// name writes key number id, of which no two are alike.
func name(to []byte, id uint64) {
	binary.LittleEndian.PutUint64(to, id*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(to[8:], ^id)
}

// uniform is every one of n keys, once, in random order.
func uniform(n int) keys {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	k := make(keys, n*keyBytes)
	for i, id := range r.Perm(n) {
		name(k[i*keyBytes:], uint64(id))
	}
	return k
}

// zipf is 4 M draws from n keys, the r-th in proportion to 1/r.
func zipf(n int) keys {
	r := rand.New(rand.NewPCG(2, uint64(n)))
	sums := make([]float64, n)
	sum := 0.0
	for i := range sums {
		sum += 1 / float64(i+1)
		sums[i] = sum
	}
	k := make(keys, 4<<20*keyBytes)
	for i := 0; i < len(k); i += keyBytes {
		name(k[i:], uint64(min(sort.SearchFloat64s(sums, r.Float64()*sum), n-1)))
	}
	return k
}

// hot is one key.
func hot() keys {
	k := make(keys, 4096*keyBytes)
	for i := 0; i < len(k); i += keyBytes {
		name(k[i:], 0)
	}
	return k
}

// distributions are the orders of keys that limiters are measured with.
var distributions = []struct {
	name string
	make func(n int) keys
}{
	{"uniform", uniform},
	{"zipf1.0", zipf},
}

func TestKeysAreDistinctAndUsed(t *testing.T) {
	count := func(k keys) map[string]int {
		seen := map[string]int{}
		for i := range k.len() {
			seen[k.at(i)]++
		}
		return seen
	}
	all := count(uniform(100_000))
	if len(all) != 100_000 {
		t.Errorf("uniform has %d distinct keys, want 100000", len(all))
	}
	if n := len(count(hot())); n != 1 {
		t.Errorf("hot has %d distinct keys, want 1", n)
	}
	// Of 4 M draws the most frequent of n keys gets 1/H(n), about 1/12.09 for
	// 100,000, within five standard deviations.
	top := 0
	drawn := count(zipf(100_000))
	for _, n := range drawn {
		top = max(top, n)
	}
	want := 4 * (1 << 20) / 12.0901
	if math.Abs(float64(top)-want) > 5*math.Sqrt(want) {
		t.Errorf("zipf draws its most frequent key %d times, want about %.0f", top, want)
	}
	if len(drawn) < 95_000 {
		t.Errorf("zipf uses %d of 100000 keys", len(drawn))
	}
}
