package budget_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/internal/inside"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/internal/testkit/books"
)

var (
	steps = flag.Int("steps", 500_000/testkit.Divisor, "steps of random histories")
	seed  = flag.Uint64("seed", 1, "of the first history")
	kind  = flag.Int("kind", -1, "of budget; -1 for all")
)

// kinds are budgets of all kinds, with so much memory that no key reads another's
// units, but for those that are crowded.
var kinds = []struct {
	name    string
	limits  []sketchlimit.Config
	holdFor time.Duration
	crowded bool
}{
	{name: "sliding", limits: []sketchlimit.Config{{Limit: 100, Window: time.Minute}}, holdFor: 30 * time.Second},
	{name: "fixed", limits: []sketchlimit.Config{{Limit: 100, Window: time.Minute, Algorithm: sketchlimit.FixedWindow}}, holdFor: 2 * time.Minute},
	{name: "sub-windows", limits: []sketchlimit.Config{{Limit: 1000, Window: time.Hour, SubWindows: 4}}, holdFor: time.Minute},
	{name: "bucket", limits: []sketchlimit.Config{{Limit: 100, Window: time.Minute, Algorithm: sketchlimit.TokenBucket}}, holdFor: 10 * time.Second},
	{name: "burst", limits: []sketchlimit.Config{{Limit: 600, Window: time.Hour, Burst: 7, Algorithm: sketchlimit.TokenBucket}}, holdFor: time.Minute},
	{name: "minute and day", limits: []sketchlimit.Config{{Limit: 100, Window: time.Minute}, {Limit: 1000, Window: 24 * time.Hour, Algorithm: sketchlimit.FixedWindow}}, holdFor: 2 * time.Minute},
	{name: "300e6 a month", limits: []sketchlimit.Config{{Limit: 300_000_000, Window: 30 * 24 * time.Hour}, {Limit: 1 << 20, Window: time.Minute, Algorithm: sketchlimit.TokenBucket}}, holdFor: time.Hour},
	{name: "limit 1", limits: []sketchlimit.Config{{Limit: 1, Window: time.Second}}, holdFor: time.Second},
	{name: "crowded sliding", limits: []sketchlimit.Config{{Limit: 100, Window: time.Minute}}, holdFor: 30 * time.Second, crowded: true},
	{name: "crowded bucket", limits: []sketchlimit.Config{{Limit: 100, Window: time.Minute, Algorithm: sketchlimit.TokenBucket}}, holdFor: 30 * time.Second, crowded: true},
	{name: "growing", limits: []sketchlimit.Config{{Limit: 100, Window: time.Minute, MaxMemoryBytes: 4 << 20}}, holdFor: 30 * time.Second},
}

// TestHistoriesAgainstExactBooks plays random holds, settlements, extensions, charges,
// expiries, restores and steps of the clock, and holds each of them against the
// definitions in rational arithmetic: what is settled and what is held is never more
// than a limit, and where no keys meet every answer is the exact one.
func TestHistoriesAgainstExactBooks(t *testing.T) {
	testkit.Computes(t)
	const each = 1000
	for history := range max(1, *steps/each) {
		k := history % len(kinds)
		if *kind >= 0 {
			k = *kind
		}
		func() {
			s := *seed + uint64(history)
			defer func() {
				if t.Failed() {
					t.Logf("%s: -kind %d -seed %d -steps %d", kinds[k].name, k, s, each)
				}
			}()
			newPlay(t, k, s, rand.NewPCG(s, 7)).run(each)
		}()
	}
}

// FuzzHistories lets the bytes choose what happens.
func FuzzHistories(f *testing.F) {
	for kind := range kinds {
		f.Add(byte(kind), bytes.Repeat([]byte("hold, settle, charge, extend; and the clock. "), kind+1))
	}
	f.Fuzz(func(t *testing.T, kind byte, choices []byte) {
		source := &chosen{left: choices, Source: rand.NewPCG(1, 7)}
		newPlay(t, int(kind)%len(kinds), 1, source).run(min(len(choices)/8, 500))
	})
}

// chosen is a source of the numbers in bytes, and of others when they end.
type chosen struct {
	left []byte
	rand.Source
}

func (c *chosen) Uint64() uint64 {
	if len(c.left) < 8 {
		return c.Source.Uint64()
	}
	n := binary.LittleEndian.Uint64(c.left)
	c.left = c.left[8:]
	return n
}

// play is one history.
type play struct {
	*testing.T
	*rand.Rand
	config  budget.Config
	b       *budget.Budget
	now     time.Time
	books   []*books.Books
	latest  [8]int64 // times
	keys    int
	exact   bool // every answer is to be that of the books
	tidy    bool // nothing is charged unheld or settled above
	holds   []*entry
	held    map[string]int64
	lowest  int // limit of a request's own
	tier    int // that of all requests if there is a bucket, in which units of another would flow back otherwise; or -1
	over    uint64
	expired uint64
	settled uint64
	step    int
}

// entry is a hold in the books.
type entry struct {
	budget.Hold
	key     string
	units   int64
	limit   int // of its own
	expires int64
	gone    bool
}

func newPlay(t *testing.T, kind int, seed uint64, source rand.Source) *play {
	k := kinds[kind]
	p := &play{T: t, Rand: rand.New(source), keys: 4, exact: !k.crowded, held: map[string]int64{}}
	p.tidy = p.IntN(2) == 0
	p.now = time.Unix(1_700_000_000, p.Int64N(1e9))
	p.config = budget.Config{InFlight: 100, HoldFor: k.holdFor}
	bucket := false
	p.lowest = k.limits[0].Limit
	for _, c := range k.limits {
		p.lowest = min(p.lowest, c.Limit)
	}
	p.lowest, p.tier = max(1, p.lowest/10), -1
	for _, c := range k.limits {
		c.LowestLimit = p.lowest
		c.Seed, c.Clock = seed, func() time.Time { return p.now }
		if c.MemoryBytes = 128 << 10; k.crowded {
			c.MemoryBytes, p.keys = 8<<10, 2000
		}
		p.config.Limits = append(p.config.Limits, c)
		bucket = bucket || c.Algorithm == sketchlimit.TokenBucket
	}
	if bucket && p.exact { // of several keys of a shard, one has its last unit a tick late
		p.keys = 1
	}
	if bucket {
		p.tier = p.IntN(2) * (p.lowest + p.IntN(p.config.Limits[0].Limit))
	}
	p.b = p.build()
	for i, c := range p.config.Limits {
		if lower := p.lower(i, p.tier); c.Algorithm == sketchlimit.TokenBucket {
			c.Burst = max(1, int(int64(cmp.Or(c.Burst, c.Limit))*int64(lower)/int64(c.Limit))) // an int may have 32 bits
			c.Limit = lower
		}
		p.books = append(p.books, books.New(c, p.generation(i)))
	}
	return p
}

func (p *play) build() *budget.Budget {
	b, err := budget.New(p.config)
	require.NoError(p, err)
	return b
}

func (p *play) generation(i int) time.Duration {
	l, err := sketchlimit.New(p.config.Limits[i])
	require.NoError(p, err)
	defer l.Close()
	line := inside.Of(l).Line
	return time.Duration(line.Length())
}

// lower returns the limit that one of the budget's comes to for a request with a limit
// of its own.
func (p *play) lower(i, limit int) int {
	if whole := p.config.Limits[i].Limit; limit > 0 && limit < whole {
		return limit
	}
	return p.config.Limits[i].Limit
}

// own returns a limit for a request, 0 for none.
func (p *play) own() int {
	switch {
	case p.tier >= 0:
		return p.tier
	case p.IntN(3) > 0:
		return 0
	}
	return p.lowest + p.IntN(p.config.Limits[0].Limit)
}

// freeOf returns the units of a key that one of the books has free at a limit of the
// request's own, beside what is held.
func (p *play) freeOf(i int, at []int64, key string, limit int) int64 {
	free := p.books[i].Free(at[i], key) - p.held[key]
	if p.config.Limits[i].Algorithm != sketchlimit.TokenBucket { // whose books are of that limit
		free -= int64(p.config.Limits[i].Limit - p.lower(i, limit))
	}
	return free
}

func (p *play) run(n int) {
	defer func() { p.b.Close() }()
	for p.step = range n {
		if p.IntN(3) == 0 {
			p.now = p.now.Add(p.jump())
		}
		switch i := p.IntN(40); {
		case i < 16:
			p.hold()
		case i < 28:
			p.settle()
		case i < 32:
			p.extend()
		case i < 34:
			p.charge()
		case i < 36:
			p.again()
		case i < 37 && p.IntN(10) == 0:
			p.stats()
		case i == 39 && p.IntN(20) == 0 && p.config.Limits[0].MaxMemoryBytes == 0:
			p.restore()
		}
		if p.Failed() {
			return
		}
	}
	p.stats()
}

// jump returns a step of the clock: most times a little, at times windows, at times back.
func (p *play) jump() time.Duration {
	window := p.config.Limits[p.IntN(len(p.config.Limits))].Window
	switch step := p.Int64N(int64(window)); p.IntN(16) {
	case 0:
		return time.Duration(step)
	case 1:
		return time.Duration(p.IntN(4)) * window
	case 2:
		return -time.Duration(step / 2)
	case 3:
		return p.config.HoldFor
	default:
		return time.Duration(step / 100)
	}
}

// see makes the clock's time seen, and returns it for each limit; and the time by which
// holds expire.
func (p *play) see() (at []int64, expire int64) {
	shortest := 0
	for i, b := range p.books {
		p.latest[i] = max(p.latest[i], b.See(p.now)) // for a key, time does not go back
		at = append(at, p.latest[i])
		if b.Length() < p.books[shortest].Length() {
			shortest = i
		}
	}
	return at, at[shortest]
}
