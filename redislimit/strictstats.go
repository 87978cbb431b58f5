package redislimit

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
)

// StrictStats is a picture of a [Strict]. What this machine was admitted and denied is
// counted here; the rates are those of the strings in Redis, which all machines share.
type StrictStats struct {
	Health
	Admitted uint64 // units since construction, by Redis and without it
	Denied   uint64 // units since construction; of one request, at most its limit
	TooLow   uint64 // requests with limits of 1 … Config.LowestLimit-1 since construction: all denied
	// Eviction is whether Redis may lose counts because its memory is full.
	Eviction Eviction

	// FalseDenialRate is the chance, 0 … 1, that a key which nobody has seen is denied
	// its first unit now: [sketchlimit.Stats] has more of it.
	FalseDenialRate float64
	// SketchFill is the share of cells above 0 in the current generation, 0 … 1; of
	// buckets, the share of cells whose time lies ahead.
	SketchFill float64
}

// sampled is how many strings [Strict.Stats] reads at most, 4 MiB together: keys spread over
// all alike, so the others are like them.
const sampled = 256

// Stats reads the strings in Redis one after another, at most 256 of them: some 30 ms of
// round trips on the loopback, and as much here. Rates are by this machine's clock. Its
// error is Redis' or the context's, and the rates are 0 then.
func (s *Strict) Stats(ctx context.Context) (StrictStats, error) {
	return s.statsAt(ctx, time.Now())
}

func (s *Strict) statsAt(ctx context.Context, now time.Time) (StrictStats, error) {
	stats := StrictStats{Health: s.Health(), Admitted: s.admitted.Load(), Denied: s.denied.Load(), TooLow: s.tooLow.Load(),
		Eviction: s.eviction.look(ctx)}
	var denied, filled float64 // of new keys, and cells of one block, sums over blocks
	names := s.at.Load().names
	step := (len(names) + sampled - 1) / sampled
	read := 0
	for i := 0; i < len(names); i += step {
		shard, err := s.client.Get(ctx, names[i]).Bytes()
		if err != nil && !errors.Is(err, redis.Nil) {
			return stats, fmt.Errorf("redislimit: %w", err)
		}
		for block := range slices.Chunk(shard, s.blockBytes()) {
			d, f := s.look(block, micros(now))
			denied += d
			filled += f
		}
		read += int(s.blocks)
	}
	stats.FalseDenialRate, stats.SketchFill = denied/float64(read), filled/float64(read)
	return stats, nil
}

// begunAnew marks the stamp of a block that has begun anew because of a clock, as clock.lua does.
const begunAnew = 1 << 47

// look returns the chance that a new key of the block is denied one unit, and the block's fill.
func (s *Strict) look(block []byte, now int64) (denied, filled float64) {
	all := len(block) - stampBytes
	stamp := int64(number(block[all:])) &^ begunAnew
	if s.algorithm == sketchlimit.TokenBucket {
		b := &s.bucket
		if stamp > now/b.generation+far(b.generation) {
			return 0, 0 // it begins anew
		}
		since := min(max(0, now-stamp*b.generation), b.forgotten()*b.generation) * b.scale
		times := s.reading(block[:all])
		return times.atLeast(since + b.room(1) + 1), times.fill(since + 1)
	}
	now /= s.window.tick.Microseconds()
	generation, elapsed := now/s.window.length, now%s.window.length
	if stamp > generation {
		if stamp > generation+far(s.window.time(s.window.length).Microseconds()) {
			return 0, 0
		}
		generation, elapsed = stamp, 0
	}
	kept := int64(s.kept)
	counts := func(back int64) reading { // of a generation, which may not have been written to
		half := block[:all/s.kept]
		if generation-back > stamp || generation-back <= stamp-kept {
			return s.reading(make([]byte, len(half)))
		}
		return s.reading(block[int((generation-back)%kept)*len(half):][:len(half)])
	}
	current := counts(0)
	if kept == 1 {
		return current.atLeast(s.window.limit), current.fill(1)
	}
	return s.window.denied(current, counts(1), elapsed), current.fill(1)
}

// denied returns the chance that a new key is denied one unit. What it reads in two
// generations is independent, because its columns are.
func (w *window) denied(current, previous reading, elapsed int64) (chance float64) {
	counts := slices.Concat(current[:]...)
	slices.Sort(counts)
	counts = slices.Compact(counts)
	atLeast := 1.0
	for i, c := range counts {
		beyond := 0.0
		if i+1 < len(counts) {
			beyond = current.atLeast(counts[i+1])
		}
		enough := int64(0) // of the previous generation
		if free := w.limit - c - 1; free >= 0 {
			hi, lo := bits.Mul64(uint64(free), uint64(w.length))
			q, _ := bits.Div64(hi, lo, uint64(w.length-elapsed))
			enough = int64(q) + 1
		}
		chance += (atLeast - beyond) * previous.atLeast(enough)
		atLeast = beyond
	}
	return chance
}

// reading is the cells of a block in one generation, each row in ascending order.
type reading [rows][]int64

func (l *layout) reading(cells []byte) (r reading) {
	for i := range r {
		r[i] = make([]int64, 0, l.columns)
		for cell := range slices.Chunk(cells[i*len(cells)/rows:][:len(cells)/rows], l.cell) {
			r[i] = append(r[i], int64(number(cell)))
		}
		slices.Sort(r[i])
	}
	return r
}

// atLeast returns the chance that a new key reads c or more: in each row it meets a cell drawn
// at random.
func (r *reading) atLeast(c int64) float64 {
	chance := 1.0
	for _, row := range r {
		i, _ := slices.BinarySearch(row, c)
		chance *= float64(len(row)-i) / float64(len(row))
	}
	return chance
}

// fill returns the share of cells that hold c or more.
func (r *reading) fill(c int64) (share float64) {
	for _, row := range r {
		i, _ := slices.BinarySearch(row, c)
		share += float64(len(row)-i) / float64(len(row)) / rows
	}
	return share
}

// number reads bytes as scripts write them, the highest first.
func number(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}
