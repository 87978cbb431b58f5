package main

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// setup says what an episode tries. With it and its operations an episode is played again
// to the bit, except for limiters that grow: these are replaced in the background.
type setup struct {
	kind    string
	configs []sketchlimit.Config // one a limiter; their Clock is the world's
	limits  []int                // of the requests' own
	group   bool                 // all limiters together
	common  []bool               // of a group: which limiters count all requests together; nil if none does
	shared  bool                 // all limiters share the limit
	alone   bool                 // one key: nothing collides, so answers are exact
	start   int64                // unix time, ns
}

// kinds are what episodes try, one at a time. Those of the second list are concurrent.
var (
	sequential = []string{"fixed", "sliding", "subwindows", "bucket", "tiers", "group", "storm", "share", "share-grow", "grow", "group-grow", "snapshot", "alone", "deny_proven", "common", "low"}
	concurrent = []string{"threads", "threads-common", "threads-low", "threads-group", "threads-share", "threads-share-grow", "threads-grow", "threads-group-grow", "threads-spare"}
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x61647665727361)) }

// draw returns the setup of an episode.
func draw(r *rand.Rand, kind string) setup {
	s := setup{kind: kind, start: drawStart(r)}
	switch kind {
	case "threads-common", "threads-low", "threads-group", "threads-share", "threads-share-grow", "threads-grow", "threads-group-grow", "threads-spare":
		s = draw(r, strings.TrimPrefix(kind, "threads-"))
		s.kind = kind
		return s
	}
	s.drawConfigs(r)
	if kind == "tiers" || r.IntN(5) == 0 || kind == "low" && r.IntN(2) == 0 {
		s.drawLimits(r)
	}
	return s
}

// drawStart returns the time at which an episode's limiters are made.
func drawStart(r *rand.Rand) int64 {
	start := 1_700_000_000_000_000_000 + r.Int64N(1<<55)
	switch r.IntN(40) {
	case 0, 1:
		return -r.Int64N(1 << 59) // before 1970
	case 2:
		return lastTime - r.Int64N(1<<40)
	case 3:
		return -lastTime + r.Int64N(1<<40)
	}
	return start
}

// drawConfigs chooses the limiters of a kind.
func (s *setup) drawConfigs(r *rand.Rand) {
	switch s.kind {
	case "fixed":
		s.add(drawConfig(r, sketchlimit.FixedWindow))
	case "sliding":
		s.add(drawConfig(r, sketchlimit.SlidingWindow))
	case "subwindows":
		c := drawConfig(r, sketchlimit.SlidingWindow)
		for c.SubWindows < 2 {
			c = drawConfig(r, sketchlimit.SlidingWindow)
		}
		s.add(c)
	case "bucket":
		s.add(drawConfig(r, sketchlimit.TokenBucket))
	case "group":
		s.drawGroup(r)
	case "common":
		s.drawCommon(r)
	case "low":
		if r.IntN(2) == 0 {
			s.drawGroup(r)
		} else {
			s.add(drawConfig(r, anyAlgorithm(r)))
		}
	case "storm":
		s.drawStorm(r)
	case "share", "share-grow":
		s.shared = true
		c := drawConfig(r, anyWindow(r))
		if s.kind == "share-grow" {
			c = grows(c)
		}
		for range 2 + r.IntN(2) {
			s.add(c)
		}
	case "grow":
		s.add(grows(drawConfig(r, anyAlgorithm(r))))
	case "group-grow":
		for s.drawGroup(r); s.shared; s.drawGroup(r) {
			s.configs, s.shared = nil, false
		}
		for i, c := range s.configs {
			if i == 0 || r.IntN(2) == 0 {
				s.configs[i] = grows(c)
			}
		}
	case "deny_proven":
		s.drawSpare(r)
	default:
		s.alone = s.kind == "alone"
		s.add(drawConfig(r, anyAlgorithm(r)))
	}
}

// grows returns a configuration as one of a limiter that grows, from the fewest KiB
// that it can be made of: more would hold all keys that episodes have.
func grows(c sketchlimit.Config) sketchlimit.Config {
	c.Plan, c.MaxMemoryBytes = nil, 1<<20
	for c.MemoryBytes = 4 << 10; c.MemoryBytes < 64<<10; c.MemoryBytes *= 2 {
		if l, err := sketchlimit.New(c); err == nil {
			l.Close()
			break
		}
	}
	return c
}

// drawGroup chooses two limiters or three that are asked together. Half of the groups
// are much alike, so that all of them are near their limits at once, and some of these
// share a limit besides.
func (s *setup) drawGroup(r *rand.Rand) {
	s.group = true
	for range 2 + r.IntN(2) {
		s.add(drawConfig(r, anyAlgorithm(r)))
	}
	if r.IntN(2) > 0 {
		return
	}
	first := s.configs[0]
	for i := range s.configs[1:] {
		s.configs[1+i] = resize(r, first, max(1, first.Limit-r.IntN(1+first.Limit/5)))
		s.configs[1+i].Seed += uint64(i) + 1
	}
	if r.IntN(4) == 0 && first.Algorithm != sketchlimit.TokenBucket {
		s.shared, s.configs = true, []sketchlimit.Config{first, first}
	}
}

// drawCommon chooses a group of which some limiters, but not the first, count all
// requests together.
func (s *setup) drawCommon(r *rand.Rand) {
	for s.drawGroup(r); s.shared; s.drawGroup(r) {
		s.configs, s.shared = nil, false
	}
	s.common = make([]bool, len(s.configs))
	for i := 1; i < len(s.configs); i++ {
		s.common[i] = i == 1 || r.IntN(2) == 0
		if c := &s.configs[i]; s.common[i] && c.Limit < 1000 && r.IntN(2) == 0 { // or else it refuses most
			*c = resize(r, *c, c.Limit*(1+r.IntN(6)))
		}
	}
}

// drawStorm chooses a group of two sliding windows with heavy tables, the second one's
// limit a little lower.
func (s *setup) drawStorm(r *rand.Rand) {
	s.group = true
	c := drawConfig(r, sketchlimit.SlidingWindow)
	for c.SubWindows > 1 || c.Plan == nil || c.Plan.HeavyEntries == 0 {
		c = drawConfig(r, sketchlimit.SlidingWindow)
	}
	s.add(c)
	s.add(resize(r, c, max(1, c.Limit-r.IntN(1+c.Limit/5))))
}

func (s *setup) add(c sketchlimit.Config) { s.configs = append(s.configs, c) }

// drawLimits chooses limits of the requests' own.
func (s *setup) drawLimits(r *rand.Rand) {
	whole := s.configs[0].Limit
	for range 1 + r.IntN(3) {
		s.limits = append(s.limits, 1+r.IntN(whole))
	}
	for i := range s.configs {
		setLowest(&s.configs[i], s.limits)
	}
}

func anyAlgorithm(r *rand.Rand) sketchlimit.Algorithm { return sketchlimit.Algorithm(r.IntN(3)) }
func anyWindow(r *rand.Rand) sketchlimit.Algorithm    { return sketchlimit.Algorithm(r.IntN(2)) }

// drawConfig returns a limiter so small that its keys collide.
func drawConfig(r *rand.Rand, algorithm sketchlimit.Algorithm) sketchlimit.Config {
	c := sketchlimit.Config{Algorithm: algorithm, Seed: 1 + r.Uint64N(math.MaxUint64)}
	limit := 1 + r.IntN(300)
	switch r.IntN(10) {
	case 0:
		limit = 1 + r.IntN(12)
	case 1:
		limit = []int{100, 1000, 65536, 100_000, 3_000_000, math.MaxInt32}[r.IntN(6)]
	case 2:
		limit = []int{7, 15, 16, 17, 100, 255, 256, 257}[r.IntN(8)]
	}
	// 1 ms … 1 h, odd; sometimes a round span, or months.
	window := int64(math.Exp(math.Log(1e6)+r.Float64()*math.Log(3.6e6))) | 1
	switch r.IntN(8) {
	case 0:
		window = []int64{1e9, 60e9, 3600e9, 86400e9, 1e6, 1000003}[r.IntN(6)]
	case 1:
		window = 86400e9*(1+r.Int64N(90)) + r.Int64N(1e9)
	case 2:
		if r.IntN(8) == 0 {
			window = 1<<61 - r.Int64N(1<<uint(r.IntN(61)))
		}
	}
	c.Window = time.Duration(max(window, 1e6))
	if algorithm == sketchlimit.SlidingWindow && r.IntN(3) == 0 {
		c.SubWindows = 1 + r.IntN(9)
		c.Window = max(c.Window/time.Duration(c.SubWindows), time.Millisecond) * time.Duration(c.SubWindows)
	}
	if algorithm == sketchlimit.TokenBucket && r.IntN(2) == 0 {
		c.Burst = 1 + r.IntN(min(2*limit, math.MaxInt32))
		if r.IntN(3) == 0 {
			c.Burst = 1 + r.IntN(20)
		}
	}
	if r.IntN(30) == 0 {
		c.Hash = oneHash(r.Uint64() * r.Uint64N(2)) // all keys are one
	}
	c = resize(r, c, limit)
	switch r.IntN(40) {
	case 0:
		c.Plan, c.MemoryBytes = nil, 8<<10+r.IntN(32<<10)
	case 1:
		if limit <= 1000 {
			c.Plan, c.Keys = nil, 1+r.IntN(2000)
		}
	}
	if c.MemoryBytes == 0 { // which might leave too little beside it
		c.AuditBytes = 8 << 10 // or else it is too small to have an audit
	}
	return c
}

// oneHash is a Hash under which all keys collide.
type oneHash uint64

func (h oneHash) Sum64([]byte) uint64 { return uint64(h) }

// resize gives a limiter a limit and a small plan.
func resize(r *rand.Rand, c sketchlimit.Config, limit int) sketchlimit.Config {
	c.Limit, c.Keys, c.MemoryBytes = limit, 0, 0
	if c.Window > 1<<50 { // a bucket must fill in 73 years
		c.Burst = min(c.Burst, limit)
	}
	p := &sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 1 + r.IntN(4), Depth: 4, Width: 16, CellBits: 4}
	if r.IntN(4) == 0 {
		p.Shards = 1 + r.IntN(3)
	}
	if r.IntN(4) == 0 {
		p.BloomBytes = 64 << r.IntN(4)
	}
	if r.IntN(3) == 0 {
		p.Depth = 1 + r.IntN(4)
	}
	if r.IntN(3) == 0 {
		p.Width = 16 << r.IntN(5)
	}
	for limit-1 >= 1<<p.CellBits {
		p.CellBits *= 2
	}
	if p.CellBits < 32 && r.IntN(5) == 0 {
		p.CellBits *= 2
	}
	if c.Algorithm == sketchlimit.TokenBucket {
		p.BloomBytes, p.BloomProbes, p.CellBits = 0, 0, 32
		p.Depth, p.Width = []int{6, 8, 9, 10}[r.IntN(4)], 1<<r.IntN(7)
	} else if generations := 2; c.SubWindows < generations && bits.Len(uint(limit)) <= 21 && r.IntN(4) > 0 {
		p.HeavyEntries, p.PromoteAt = 16<<r.IntN(2), 16
		if r.IntN(3) == 0 {
			p.PromoteAt = 1 + r.IntN(limit+2)
		}
	}
	if limit == 1 && c.Algorithm != sketchlimit.TokenBucket && r.IntN(2) == 0 {
		p.Width, p.HeavyEntries, p.PromoteAt = 0, 0, 0
	}
	c.Plan = p
	return c
}

// String returns the setup as somebody would write it down in Go.
func (s *setup) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "  made at %d", s.start)
	if len(s.limits) > 0 {
		fmt.Fprintf(&text, ", limits of requests %v", s.limits)
	}
	text.WriteByte('\n')
	for i, c := range s.configs {
		fmt.Fprintf(&text, "  limiter %d: %s\n", i, describe(c))
	}
	return text.String()
}

func describe(c sketchlimit.Config) string {
	p := c.Plan
	c.Plan, c.Clock = nil, nil
	text := fmt.Sprintf("%+v", c)
	if p != nil {
		text += fmt.Sprintf(" Plan %+v", *p)
	}
	return text
}
