package accuracy

import (
	"context"
	"math/bits"

	"github.com/cespare/xxhash/v2"
	"github.com/sketchlimit/sketchlimit/accuracy/internal/draw"
)

// Sample is the part of the keys that a measurement rests on. A hash of the key decides
// whether it is in the sample, so it is the same keys every time, and all requests of a
// key in it count. Counts are of these keys alone: in proportion to all on average, but
// the fewer keys make up a figure, the more it depends on which of them are in the
// sample. The key with the highest load may be outside.
type Sample struct {
	OneKeyIn   int    `json:"one_key_in"`  // a power of two; 1: all keys
	Requests   uint64 `json:"requests"`    // of the keys in the sample
	OfRequests uint64 `json:"of_requests"` // of all keys
}

// keySample is the set of keys whose hash ends in zeros where mask has ones. The zero
// value is all keys.
type keySample struct{ mask uint64 }

// sampleSeed parts the hash from all those that limiters are likely to be given a
// seed for, which spread their keys by the same xxhash.
const sampleSeed = 0x6b657973_616d706c

func (s keySample) has(key string) bool {
	return s.mask == 0 || sampleHash(key)&s.mask == 0
}

func sampleHash(key string) uint64 { return draw.Mix(xxhash.Sum64String(key) ^ sampleSeed) }

// of returns the Sample of a stream of all requests, of which requests were of its keys.
func (s keySample) of(requests, all uint64) Sample {
	return Sample{OneKeyIn: int(s.mask) + 1, Requests: requests, OfRequests: all}
}

const (
	sampleKeys = 1000 // that a sample has at least
	sampleMost = 30   // the fewest keys are one in 1<<30
)

// sampleOf chooses the keys to be measured: all where src has at most so many
// requests, else half as many as often as it takes to expect no more, but not fewer
// than sampleKeys.
func sampleOf(ctx context.Context, src Source, above int) (keySample, error) {
	halvings := 0
	for halvings < sampleMost && src.Len()>>halvings > above {
		halvings++
	}
	if halvings == 0 {
		return keySample{}, nil
	}
	// keys[i] of those seen so far are in the sample of one in 1<<i. A key that adds to
	// no number below sampleKeys is not remembered.
	keys, seen := make([]int, halvings+1), make(map[string]struct{})
	looked := 0
	for r := range src.Requests() {
		if looked++; looked%progressRequests == 0 && ctx.Err() != nil {
			return keySample{}, ctx.Err()
		}
		fits := min(bits.TrailingZeros64(sampleHash(r.Key)), halvings)
		if keys[fits] >= sampleKeys {
			continue
		}
		if _, before := seen[r.Key]; before {
			continue
		}
		seen[r.Key] = struct{}{}
		for i := range fits + 1 {
			keys[i]++
		}
		if keys[halvings] >= sampleKeys {
			break
		}
	}
	for halvings > 0 && keys[halvings] < sampleKeys {
		halvings--
	}
	return keySample{1<<halvings - 1}, nil
}
