package main

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// recorder admits everything and remembers how often.
type recorder struct {
	mu   sync.Mutex
	seen map[string]int
}

func (r *recorder) Allow(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[string([]byte(key))]++
	return true
}

func TestKeysAreDistinctAndUsed(t *testing.T) {
	for _, c := range []struct {
		name                    string
		keys                    keys
		batches, distinct, each int
	}{
		{"uniform", uniform(20_000), 20, 20_000, 1},
		{"uniform twice", uniform(20_000), 40, 20_000, 2},
		{"hot, one after another", hot(5, 3), 15, 5, 3 * batchKeys},
		{"hot", hot(1, 1), 7, 1, 7 * batchKeys},
	} {
		t.Run(c.name, func(t *testing.T) {
			warm := &recorder{seen: map[string]int{}}
			(&contestant{limiter: warm}).warm(workload{keys: c.keys, warm: 1})
			assert.Len(t, warm.seen, c.distinct)
			for _, n := range goroutines {
				used := &recorder{seen: map[string]int{}}
				// From a batch in the middle on, as in the rounds after the first.
				assert.Equal(t, c.batches*batchKeys, decide(used, c.keys, 5*c.batches, c.batches, n))
				assert.Len(t, used.seen, c.distinct)
				for key, times := range used.seen {
					if times != c.each || warm.seen[key] != 1 {
						t.Fatalf("%x: used %d times and warmed up %d times, want %d and 1", key, times, warm.seen[key], c.each)
					}
				}
			}
		})
	}
}

func TestHotKeysStayHot(t *testing.T) {
	k := hot(3, 2)
	for i, want := range []string{"0", "0", "1", "1", "2", "2", "0"} {
		batch := k.batch(i)
		key := make([]byte, keyBytes)
		name(key, uint64(want[0]-'0'))
		for at := 0; at < len(batch); at += keyBytes {
			assert.Equal(t, string(key), view(batch[at:]))
		}
	}
}
