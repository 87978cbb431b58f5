package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit"
)

// forged is the kind that makes limiters of whatever a Config can say, and restores
// snapshots that somebody has changed and sealed again. Both must be refused or work:
// never panic.
const forged = "forged"

// nasty returns a number that somebody may not have thought of.
func nasty(r *rand.Rand) int64 {
	switch r.IntN(4) {
	case 0:
		return []int64{0, -1, 1, 7, 8, 9, -100, 16, 64, 100, 1 << 24, 1 << 31, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}[r.IntN(16)]
	case 1:
		return r.Int64N(1 << 10)
	case 2:
		return int64(1)<<r.IntN(63) + r.Int64N(3) - 1
	}
	return 8 * r.Int64N(40)
}

func (b *bench) forge(seed uint64) {
	r := newRand(seed)
	steps := 0
	for range 100 {
		steps++
		var c sketchlimit.Config
		var what string
		func() {
			defer func() {
				if p := recover(); p != nil {
					b.report(forged, seed, violation{rule: "panic", step: steps, text: fmt.Sprintf("%s %s: %v\n%s", what, describe(c), p, debug.Stack())}, nil, nil)
				}
			}()
			if r.IntN(2) == 0 {
				what, c = "made of", wildConfig(r)
				l, err := b.make.limiter(c)
				if err == nil {
					defer l.Close()
					b.use(r, seed, l, c)
				}
				if _, _, sizeErr := c.Size(); (sizeErr == nil) != (err == nil) {
					b.report(forged, seed, violation{rule: "size", step: steps, text: fmt.Sprintf("%s: New %v, Size %v", describe(c), err, sizeErr)}, nil, nil)
				}
				return
			}
			what, c = "restored from a forged snapshot", drawConfig(r, anyWindow(r))
			if r.IntN(2) == 0 {
				c.Plan, c.Keys, c.MemoryBytes, c.AuditBytes = nil, 0, 8<<10+r.IntN(32<<10), 0
				c.MaxMemoryBytes = 1 << 20
				if r.IntN(3) == 0 {
					c.Limit = 1 + r.IntN(2)
				}
			}
			b.restoreForged(r, seed, c)
		}()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally[forged].episodes++
	b.tally[forged].steps += int64(steps)
	b.total += int64(steps)
}

// wildConfig returns a Config of which some fields are nasty, that takes no more than
// some MiB.
func wildConfig(r *rand.Rand) sketchlimit.Config {
	for {
		c := drawConfig(r, anyAlgorithm(r))
		if r.IntN(2) == 0 && c.Plan != nil {
			c.Limit = 1 // where a Bloom filter does alone
		}
		if c.Plan != nil {
			p := *c.Plan
			c.Plan = &p
			if c.Limit == 1 && r.IntN(2) == 0 {
				p.Width = 0
			}
		}
		for range 1 + r.IntN(3) {
			n := nasty(r)
			if field := r.IntN(ofConfig + ofPlan); field < ofConfig {
				spoilConfig(r, &c, field, n)
			} else if c.Plan != nil {
				spoilPlan(r, &c, field-ofConfig, n)
			}
		}
		if c.Plan == nil || bytesOf(c.SubWindows, c.Plan) < 1<<23 {
			return c
		}
	}
}

const (
	ofConfig = 9  // fields that spoilConfig knows
	ofPlan   = 14 // and spoilPlan
)

// spoilConfig makes a field of a Config nasty.
func spoilConfig(r *rand.Rand, c *sketchlimit.Config, field int, n int64) {
	switch field {
	case 0:
		c.Limit = int(n)
	case 1:
		c.Window = time.Duration(n)
	case 2:
		c.SubWindows = int(n)
	case 3:
		c.Burst = int(n)
	case 4:
		c.Algorithm = sketchlimit.Algorithm(n)
	case 5:
		c.LowestLimit = int(n)
	case 6:
		c.MaxMemoryBytes = int(min(n, 1<<20)) // which it might grow to
	case 7:
		c.FalseDenialRate = []float64{0, -1, 1, 0.5, 1e-9, 1 - 1e-16, math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(9)]
	case 8:
		c.MemoryBytes = int(min(n, 1<<20))
	}
}

// spoilPlan makes a field of a Config's Plan nasty.
func spoilPlan(r *rand.Rand, c *sketchlimit.Config, field int, n int64) {
	p := c.Plan
	switch field {
	case 0:
		p.Shards = int(n)
	case 1:
		p.BloomBytes = int(n)
	case 2:
		p.BloomProbes = int(n)
	case 3:
		p.Depth = int(n)
	case 4:
		p.Width = int(n)
	case 5:
		p.CellBits = int(n)
	case 6:
		p.HeavyEntries = int(n)
	case 7:
		p.PromoteAt = int(n)
	case 8:
		p.Limit = []int{c.Limit, int(n)}[r.IntN(2)] // from here on what the plan is for
	case 9:
		p.LowestLimit = int(n)
	case 10:
		p.Algorithm = sketchlimit.Algorithm(n)
	case 11:
		p.SubWindows = int(n)
	case 12:
		p.Burst = int(n)
	case 13:
		p.Keys, p.FalseDenialRate = []float64{0, -1, 1e-300, 5, math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(7)], float64(n)
	}
}

// bytesOf returns what a plan might take, or more.
func bytesOf(subWindows int, p *sketchlimit.Plan) float64 {
	abs := func(n int) float64 { return math.Abs(float64(n)) }
	one := abs(p.BloomBytes) + 4*abs(p.Depth)*abs(p.Width) + 8*abs(p.HeavyEntries) + 64
	return abs(p.Shards) * (abs(subWindows) + 2) * one
}

// use asks a limiter for a while, for answers that cannot be and for panics.
func (b *bench) use(r *rand.Rand, seed uint64, l subject, c sketchlimit.Config) {
	now := int64(1_700_000_000_000_000_000)
	most := max(c.Limit, c.Burst)
	for i := range 60 {
		key, n := r.IntN(10), 1+r.IntN(3)
		if r.IntN(10) == 0 {
			n = int(nasty(r))
		}
		for _, d := range []sketchlimit.Decision{
			l.Do(sketchlimit.Request{Key: name(key), N: n, Time: at(now), Peek: true}), l.TakeAt(at(now), name(key), n),
			l.Do(sketchlimit.Request{Key: name(key), N: n, Time: at(now), Limit: int(nasty(r))}),
		} {
			if d.Remaining < 0 || d.Remaining > most || d.RetryAfter < 0 || d.ResetAfter < 0 {
				b.report(forged, seed, violation{rule: "answer", step: i, key: key, text: fmt.Sprintf("%s: %d units: %+v", describe(c), n, d)}, nil, nil)
			}
		}
		if wait, err := l.Reserve(sketchlimit.Request{Key: name(key), N: n, Time: at(now), Limit: int(nasty(r))}); wait < 0 || err != nil && wait != 0 {
			b.report(forged, seed, violation{rule: "answer", step: i, key: key, text: fmt.Sprintf("%s: %d units reserved: wait %v, error %v", describe(c), n, wait, err)}, nil, nil)
		}
		now += r.Int64N(int64(min(c.Window, 1<<50)))
	}
	l.Stats()
	var out bytes.Buffer
	l.WriteTo(&out)
}

// restoreForged changes a snapshot, seals it again and restores it.
func (b *bench) restoreForged(r *rand.Rand, seed uint64, c sketchlimit.Config) {
	const header = 8 + 8*(2+5+8+8+1) // magic and version, seed and hash, rule, plans, since
	c.Clock = func() time.Time { return at(1_700_000_000_000_000_000) }
	l, err := b.make.limiter(c)
	if err != nil {
		return
	}
	defer l.Close()
	for range 50 {
		l.Take(name(r.IntN(20)), 1+r.IntN(2))
	}
	var out bytes.Buffer
	l.WriteTo(&out)
	s := out.Bytes()
	if len(s) < header+16 {
		return
	}
	for range 1 + r.IntN(3) {
		word := 3 + r.IntN(header/8-3) // of the header, behind the hash
		if r.IntN(4) == 0 {
			word = header/8 + 1 + r.IntN((len(s)-header)/8-2)
		}
		binary.LittleEndian.PutUint64(s[8*word:], uint64(nasty(r)))
	}
	digest := xxhash.New()
	digest.Write(s[:header])
	binary.LittleEndian.PutUint64(s[header:], digest.Sum64())
	digest.Write(s[header+8 : len(s)-8])
	binary.LittleEndian.PutUint64(s[len(s)-8:], digest.Sum64())
	other, err := b.make.limiter(c)
	if err != nil {
		return
	}
	defer other.Close()
	if _, err := other.ReadFrom(bytes.NewReader(s)); err == nil {
		b.use(r, seed, other, c)
	}
}
