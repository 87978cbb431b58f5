package budget_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
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
	steps = flag.Int("steps", 500_000/testkit.Slowdown, "steps of random histories")
	seed  = flag.Uint64("seed", 1, "of the first history")
	kind  = flag.Int("kind", -1, "of budget; -1 for all")
)

// kinds are budgets of all kinds, with so much memory that no key reads another's units, but for those that are crowded.
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

// TestHistoriesAgainstExactBooks plays random holds, settlements, extensions, charges, expiries, restores and steps of the
// clock, and holds each of them against the definitions in rational arithmetic: what is settled and what is held is never
// more than a limit, and where no keys meet every answer is the exact one.
func TestHistoriesAgainstExactBooks(t *testing.T) {
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
			p := newPlay(t, k, s)
			defer func() { p.b.Close() }()
			p.run(each)
		}()
	}
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
	expires int64
	gone    bool
}

func newPlay(t *testing.T, kind int, seed uint64) *play {
	k := kinds[kind]
	p := &play{T: t, Rand: rand.New(rand.NewPCG(seed, 7)), keys: 4, exact: !k.crowded, held: map[string]int64{}}
	p.tidy = p.IntN(2) == 0
	p.now = time.Unix(1_700_000_000, p.Int64N(1e9))
	p.config = budget.Config{InFlight: 100, HoldFor: k.holdFor}
	bucket := false
	for _, c := range k.limits {
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
	p.b = p.build()
	for i, c := range p.config.Limits {
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
	c := p.config.Limits[i]
	c.MemoryBytes, c.MaxMemoryBytes = 8<<10, 0
	l, err := sketchlimit.New(c)
	require.NoError(p, err)
	defer l.Close()
	line := inside.Of(l).Line
	return time.Duration(line.Length())
}

func (p *play) run(n int) {
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

// see makes the clock's time seen, and returns it for each limit; and the time by which holds expire.
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

// expire settles what the budget does at each request: at most two holds.
func (p *play) expire(at []int64, now int64) {
	for range 2 {
		if len(p.holds) == 0 || p.holds[0].expires > now {
			return
		}
		p.close(p.holds[0], at, p.holds[0].units)
		p.expired++
	}
}

// close settles a hold in the books.
func (p *play) close(e *entry, at []int64, n int64) {
	over := int64(0)
	for i, b := range p.books {
		free := b.Free(at[i], e.key) - p.held[e.key]
		b.Charge(at[i], e.key, n)
		over = max(over, max(0, n-e.units)-max(0, free))
	}
	p.over += uint64(over)
	p.settled += uint64(n)
	p.held[e.key] -= e.units
	e.gone = true
	for i := range p.holds {
		if p.holds[i] == e {
			p.holds = append(p.holds[:i], p.holds[i+1:]...)
			break
		}
	}
}

// add puts a hold behind all others that expire.
func (p *play) add(e *entry, now int64) {
	e.expires = now + int64(p.config.HoldFor)
	if n := len(p.holds); n > 0 {
		e.expires = max(e.expires, p.holds[n-1].expires)
	}
	p.holds = append(p.holds, e)
}

// free returns the units of a key that the books have free beside what is held.
func (p *play) free(at []int64, key string) int64 {
	free := int64(1 << 62)
	for i, b := range p.books {
		free = min(free, b.Free(at[i], key)-p.held[key])
	}
	return free
}

func (p *play) key() string { return fmt.Sprint(p.IntN(p.keys)) }

// cost returns what a request may ask for: most times a little.
func (p *play) cost() int {
	limit := p.config.Limits[0].Limit
	if b := cmp.Or(p.config.Limits[0].Burst, limit); p.IntN(5) == 0 {
		return 1 + p.IntN(b+b/8+1)
	}
	return 1 + p.IntN(limit/20+1)
}

func (p *play) hold() {
	key, n := p.key(), p.cost()
	at, now := p.see()
	p.expire(at, now)
	free := p.free(at, key)
	peeked := sketchlimit.Decision{}
	if p.IntN(4) == 0 && len(p.holds) == 0 { // with nothing to expire, it says what Hold does
		_, peeked = p.b.Do(sketchlimit.Request{Key: key, N: n, Peek: true})
	}
	hold, d := p.b.Hold(key, n)
	if peeked.Limit > 0 {
		if peeked.Allowed {
			peeked.Remaining -= n
		}
		peeked.ResetAfter, d.ResetAfter = 0, 0
		require.Equal(p, peeked, d, "step %d", p.step)
	}
	fits := int64(n) <= free
	if len(p.holds) >= p.config.InFlight+p.config.InFlight/4 {
		require.False(p, d.Allowed, "step %d: %d holds are open", p.step, len(p.holds))
		return
	}
	if p.exact && fits != d.Allowed || !fits && d.Allowed {
		require.Fail(p, "an answer", "step %d: %d units of %s, %d free, %d held: %+v", p.step, n, key, free, p.held[key], d)
	}
	if p.exact && fits {
		require.EqualValues(p, free-int64(n), d.Remaining, "step %d", p.step)
	}
	beside := p.books[d.By].Free(at[d.By], key) - p.held[key]
	require.LessOrEqual(p, int64(d.Remaining), max(0, beside), "step %d", p.step)
	require.Equal(p, d.Allowed, hold.Units() > 0)
	if !d.Allowed {
		require.Positive(p, d.RetryAfter)
		require.False(p, hold.Settle(1))
		return
	}
	p.held[key] += int64(n)
	p.add(&entry{Hold: hold, key: key, units: int64(n)}, now)
	p.check(at, key)
}

// check is the promise.
func (p *play) check(at []int64, key string) {
	if !p.tidy {
		return
	}
	for i, b := range p.books {
		require.GreaterOrEqual(p, b.Free(at[i], key), p.held[key], "step %d, limit %d: %d held of %s", p.step, i, p.held[key], key)
	}
}

func (p *play) any() *entry {
	if len(p.holds) == 0 {
		return nil
	}
	return p.holds[p.IntN(len(p.holds))]
}

func (p *play) settle() {
	e := p.any()
	if e == nil {
		return
	}
	n := p.Int64N(e.units + 1)
	if !p.tidy && p.IntN(4) == 0 {
		n += int64(p.cost())
	}
	at, now := p.see()
	p.close(e, at, n)
	p.expire(at, now)
	require.True(p, e.Settle(int(n)), "step %d", p.step)
	require.False(p, e.Settle(int(n)), "step %d: twice", p.step)
	require.False(p, e.Extend(1).Allowed, "step %d: after its end", p.step)
	p.check(at, e.key)
}

func (p *play) extend() {
	e, n := p.any(), int64(0)
	if e == nil {
		return
	}
	if p.IntN(3) > 0 {
		n = int64(p.cost())
	}
	at, now := p.see()
	free := p.free(at, e.key)
	d := e.Extend(int(n))
	fits := n == 0 || n <= free
	if p.exact && fits != d.Allowed || !fits && d.Allowed {
		require.Fail(p, "an answer", "step %d: %d units more of %s, %d free, %d held: %+v", p.step, n, e.key, free, p.held[e.key], d)
	}
	if !d.Allowed {
		return
	}
	p.held[e.key] += n
	e.units += n
	for i := range p.holds {
		if p.holds[i] == e {
			p.holds = append(p.holds[:i], p.holds[i+1:]...)
			break
		}
	}
	p.add(e, now)
	p.check(at, e.key)
}

func (p *play) charge() {
	if p.tidy {
		return
	}
	key, n := p.key(), p.cost()
	at, now := p.see()
	p.expire(at, now)
	over := max(0, int64(n)-max(0, p.free(at, key)))
	for i, b := range p.books {
		b.Charge(at[i], key, int64(n))
	}
	got := int64(p.b.Charge(key, n))
	if p.settled, p.over = p.settled+uint64(n), p.over+uint64(over); p.exact {
		require.Equal(p, over, got, "step %d", p.step)
	}
	require.GreaterOrEqual(p, got, over, "step %d", p.step)
}

// again settles what is over, and what never was.
func (p *play) again() {
	require.False(p, budget.Hold{}.Settle(1))
	require.False(p, budget.Hold{}.Extend(1).Allowed)
}

func (p *play) stats() {
	at, now := p.see()
	for len(p.holds) > 0 && p.holds[0].expires <= now {
		p.close(p.holds[0], at, p.holds[0].units)
		p.expired++
	}
	s, units := p.b.Stats(), int64(0)
	for _, n := range p.held {
		units += n
	}
	require.Equal(p, []any{len(p.holds), units, p.settled, p.expired}, []any{s.Open, s.Held, s.Settled, s.Expired}, "step %d", p.step)
	if require.GreaterOrEqual(p, s.Overdraft, p.over); p.exact {
		require.Equal(p, p.over, s.Overdraft)
	}
	if p.tidy {
		require.Zero(p, s.Overdraft)
	}
	key := p.key()
	require.EqualValues(p, p.held[key], p.b.Held(key))
}

// restore goes on with a budget that has read a snapshot: all that was held counts in full.
func (p *play) restore() {
	for i := range p.books {
		if p.now.UnixNano() < p.latest[i] { // a snapshot from the future may be refused
			return
		}
	}
	var file bytes.Buffer
	_, err := p.b.WriteTo(&file)
	require.NoError(p, err)
	next := p.build()
	_, err = next.ReadFrom(&file)
	require.NoError(p, err)
	at, _ := p.see()
	p.expired, p.settled, p.over = 0, 0, 0
	for len(p.holds) > 0 {
		p.close(p.holds[0], at, p.holds[0].units)
		p.expired++
	}
	p.b.Close()
	p.b = next
	for _, c := range p.config.Limits { // whose last key's time has been rounded up to a tick
		p.exact = p.exact && c.Algorithm != sketchlimit.TokenBucket
	}
}
