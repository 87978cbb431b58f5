package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

// purse is the budget under test, or a broken one.
type purse interface {
	Do(r sketchlimit.Request) (ticket, sketchlimit.Decision)
	Held(key string) int
	Stats() budget.Stats
	WriteTo(w io.Writer) (int64, error)
	ReadFrom(r io.Reader) (int64, error)
	Close() error
}

// ticket is what a request holds.
type ticket interface {
	Settle(n int) bool
	Extend(n int) sketchlimit.Decision
	Units() int
}

type realPurse struct{ *budget.Budget }

func (p realPurse) Do(r sketchlimit.Request) (ticket, sketchlimit.Decision) { return p.Budget.Do(r) }

func newPurse(c budget.Config) (purse, error) {
	b, err := budget.New(c)
	if err != nil {
		return nil, err
	}
	return realPurse{b}, nil
}

// held is a hold that was admitted. It has ended when it was settled, or when it has
// expired and that was noticed.
type held struct {
	ticket
	key     int
	units   int64
	expires int64  // at the earliest: its shard may not have seen the latest time, and times are rounded
	surely  int64  // it has expired
	early   *int64 // when it was settled in full at the earliest; nil: it has not expired
}

// account is a budget beside exact books.
type account struct {
	*trial
	config budget.Config
	purse  purse
	clock  atomic.Int64
	latest int64
	books  []*oracle
	open   []*held
	ended  []*held
	keys   int

	settled, expired uint64
	tooLow           []uint64
}

// newAccount draws a budget of one limit to three.
func newAccount(t *trial, inFlight int) (*account, error) {
	a := &account{trial: t, keys: 1 + t.IntN(12)}
	a.clock.Store(1_700_000_000_000_000_000 + t.Int64N(1<<50))
	a.latest = a.clock.Load()
	least := 2
	if inFlight > 300 && t.IntN(2) == 0 { // rooms are to be full before limits are
		least = 200
	}
	for range 1 + t.IntN(3) {
		c := drawConfig(t.Rand, anyAlgorithm(t.Rand))
		for c.Limit < least || c.Limit > 1<<20 || c.Window > 1<<50 || c.Hash != nil {
			c = drawConfig(t.Rand, anyAlgorithm(t.Rand))
		}
		c.Clock = func() time.Time { return at(a.clock.Load()) }
		a.config.Limits = append(a.config.Limits, c)
		a.books = append(a.books, newOracle(c, nil))
		t.made += "  limit: " + describe(c) + "\n"
	}
	a.tooLow = make([]uint64, len(a.books))
	a.config.InFlight = inFlight
	a.config.HoldFor = max(time.Millisecond, time.Duration(1+t.Int64N(2*int64(a.config.Limits[0].Window))))
	t.made += fmt.Sprintf("  InFlight %d, HoldFor %v, %d keys", inFlight, a.config.HoldFor, a.keys)
	var err error
	a.purse, err = t.b.make.budget(a.config)
	return a, err
}

// free returns what the exact books have left of a limit beside what is held, if holds
// that have expired were settled as early as can be.
func (a *account) free(i, key int) int64 {
	book, now := a.books[i], a.latest
	var units int64
	for _, h := range a.open {
		switch {
		case h.key != key:
		case h.early == nil:
			units += h.units
		default:
			if book == a.books[i] {
				book = book.clone()
			}
			book.chargeEarly(*h.early, key, h.units)
		}
	}
	return book.free(now, key, int64(a.config.Limits[i].Limit)) - units
}

// chargeEarly grants units at a time that has passed, in the generation of that. Of a
// bucket it is not known how much of them has flowed back: that is taken to be all.
func (o *oracle) chargeEarly(t int64, key int, n int64) {
	latest := o.latest
	o.latest = math.MinInt64
	generation, _ := o.position(t)
	if o.scale == nil && generation > latest-int64(o.kept) {
		o.charge(t, key, n, o.limit)
	}
	o.latest = max(latest, generation)
}

// see lets the clock's time come, at which holds expire.
func (a *account) see() {
	a.latest = max(a.latest, a.clock.Load())
	for _, b := range a.books {
		b.see(a.latest)
	}
	for _, h := range a.open {
		if h.early == nil && h.expires <= a.latest {
			now := a.latest
			h.early = &now
		}
	}
}

// soonest and surely return when a hold expires that is made or extended now.
func (a *account) soonest(now int64) int64 { return now + int64(a.config.HoldFor) - a.slack() }
func (a *account) surely() int64           { return a.latest + int64(a.config.HoldFor) + a.slack() }

// slack is more than what times are rounded by.
func (a *account) slack() (slack int64) {
	for _, b := range a.books {
		slack = max(slack, b.turn>>13+1)
	}
	return slack
}

// end enters a hold that has ended into the books.
func (a *account) end(h *held, n, when int64) {
	a.enter(h, n, when)
	a.open = slices.DeleteFunc(a.open, func(o *held) bool { return o == h })
}

// enter is end of one of many holds, which is still among those that are open.
func (a *account) enter(h *held, n, when int64) {
	for i, b := range a.books {
		switch {
		case n < 1:
		case h.early != nil && when == *h.early:
			b.chargeEarly(when, h.key, n)
		default:
			b.charge(when, h.key, n, int64(a.config.Limits[i].Limit))
		}
	}
	a.settled += uint64(n)
	a.ended = append(a.ended, h)
	if len(a.ended) > 50 {
		a.ended = a.ended[1:]
	}
}

// sweep makes the budget settle all that has expired, and enters that.
func (a *account) sweep() {
	a.clock.Store(max(a.clock.Load(), a.latest)) // which not all shards have seen
	a.see()
	s, ended := a.purse.Stats(), map[*held]bool{}
	for _, h := range a.open {
		switch gone := h.Units() == 0; {
		case gone && h.early != nil:
			a.expired++
			a.enter(h, h.units, *h.early)
			ended[h] = true
		case gone:
			a.fail("expiry", "a hold of key %d has ended before its time", h.key)
			a.over = true
		case a.latest >= h.surely:
			a.fail("expiry", "a hold of key %d is open after its time", h.key)
			a.over = true
		}
	}
	a.open = slices.DeleteFunc(a.open, func(h *held) bool { return ended[h] })
	var units int64
	for _, h := range a.open {
		units += h.units
	}
	if s.Open != len(a.open) || s.Held != units || s.Settled != a.settled || s.Expired != a.expired || s.Overdraft != 0 {
		a.fail("books", "Stats %+v; %d open, %d held, %d settled, %d expired", s, len(a.open), units, a.settled, a.expired)
		a.over = true
	}
	for i, l := range s.Limits {
		if l.TooLow != a.tooLow[i] {
			a.fail("too low", "limit %d: TooLow %d of %d", i, l.TooLow, a.tooLow[i])
		}
	}
	for key := range a.keys {
		units = 0
		for _, h := range a.open {
			if h.key == key {
				units += h.units
			}
		}
		if held := a.purse.Held(name(key)); int64(held) != units {
			a.fail("books", "Held %d of key %d, must be %d", held, key, units)
			a.over = true
		}
	}
}

// playBudget plays holds one after another: settled once, twice and late, extended, and
// restored from snapshots.
func playBudget(t *trial) {
	a, err := newAccount(t, []int{1, 5, 100, 300, 1500}[t.IntN(5)])
	if err != nil {
		t.fail("setup", "%v", err)
		return
	}
	defer func() { a.purse.Close() }()
	a.hold() // time begins: before that a step back would be the first that the limits see
	for range 200 + t.IntN(600) {
		if t.steps++; t.over {
			return
		}
		switch t.IntN(12) {
		case 0, 1, 2, 3, 4:
			a.hold()
		case 5, 6:
			a.settle()
		case 7:
			a.settleAgain()
		case 8:
			a.extend()
		case 9, 10:
			a.move()
		default:
			if a.sweep(); t.IntN(6) == 0 {
				a.restore()
			}
		}
	}
	a.sweep()
}

// move lets time pass, and sometimes step back.
func (a *account) move() {
	length := a.books[a.IntN(len(a.books))].turn
	switch now := a.clock.Load(); a.IntN(8) {
	case 0:
		a.clock.Store(now - a.Int64N(1+length))
	case 1:
		a.clock.Store(now - now%length + length)
	case 2:
		a.clock.Store(now + int64(a.config.HoldFor))
	case 3:
		a.clock.Store(now + a.Int64N(4*length))
	default:
		a.clock.Store(now + a.Int64N(1+length/4))
	}
	a.note("clock %d", a.clock.Load())
}

func (a *account) cost() int64 {
	if a.IntN(3) == 0 {
		return 1 + a.Int64N(int64(a.config.Limits[0].Limit))
	}
	return 1 + a.Int64N(1+int64(a.config.Limits[0].Limit)/10)
}

func (a *account) hold() {
	a.see()
	key, n := a.IntN(a.keys), a.cost()
	r := sketchlimit.Request{Key: name(key), N: int(n)}
	if a.IntN(10) == 0 {
		r.Limit = 1
		for i, c := range a.config.Limits {
			if c.Limit > 1 && c.LowestLimit == 0 {
				a.tooLow[i]++
			}
		}
	}
	now := a.clock.Load()
	h, d := a.purse.Do(r)
	a.note("hold %d of key %d, limit %d: %+v", n, key, r.Limit, d)
	if !d.Allowed {
		return
	}
	for i := range a.books {
		if free := a.free(i, key); n > free || r.Limit == 1 {
			a.fail("over-admission", "%d units of key %d held, %d are free of limit %d: %+v", n, key, free, i, d)
		}
	}
	if d.Remaining < 0 || int64(d.Remaining) > max(0, a.free(d.By, key)-n) {
		a.fail("remaining", "%d units of key %d: %+v, the books have %d", n, key, d, a.free(d.By, key)-n)
	}
	a.open = append(a.open, &held{ticket: h, key: key, units: n, expires: a.soonest(now), surely: a.surely()})
}

func (a *account) settle() {
	if len(a.open) == 0 {
		return
	}
	a.see()
	h := a.open[a.IntN(len(a.open))]
	n := a.Int64N(h.units + 1)
	first := h.Settle(int(n))
	a.note("settle %d of %d of key %d: %v", n, h.units, h.key, first)
	switch {
	case first:
		a.end(h, n, a.clock.Load())
	case h.early == nil:
		a.fail("settle", "a hold was not settled that is open")
		a.over = true
	default:
		a.expired++
		a.end(h, h.units, *h.early)
	}
	if h.Settle(int(h.units)) || h.Units() != 0 || h.Extend(0).Allowed {
		a.fail("twice", "a hold of key %d that has ended was settled again, or has units", h.key)
	}
}

// settleAgain settles a hold that has ended long ago, in whose place there may be
// another.
func (a *account) settleAgain() {
	if len(a.ended) == 0 {
		return
	}
	a.see()
	h := a.ended[a.IntN(len(a.ended))]
	a.note("settle again, of key %d", h.key)
	if h.Units() != 0 || h.Extend(1).Allowed || h.Settle(int(h.units)) {
		a.fail("twice", "a hold of key %d that has ended was settled again, or has units", h.key)
	}
}

func (a *account) extend() {
	if len(a.open) == 0 {
		return
	}
	h, n := a.open[a.IntN(len(a.open))], a.cost()
	if h.early != nil || h.expires <= max(a.latest, a.clock.Load()) {
		return
	}
	a.see()
	d := h.Extend(int(n))
	a.note("extend key %d by %d: %+v", h.key, n, d)
	if !d.Allowed {
		return
	}
	for i := range a.books {
		if free := a.free(i, h.key); n > free {
			a.fail("over-admission", "a hold of key %d extended by %d, %d are free of limit %d: %+v", h.key, n, free, i, d)
		}
	}
	h.units += n
	h.expires, h.surely = a.soonest(a.clock.Load()), a.surely()
}

// restore goes on with a new budget of a snapshot: what was held counts in full.
func (a *account) restore() {
	if a.over || a.clock.Load() < a.latest {
		return
	}
	var file bytes.Buffer
	_, err := a.purse.WriteTo(&file)
	next, failed := a.b.make.budget(a.config)
	if err == nil && failed == nil {
		_, err = next.ReadFrom(&file)
	}
	if err != nil || failed != nil {
		a.fail("snapshot", "%v, %v", err, failed)
		a.over = true
		return
	}
	a.note("restored")
	a.purse.Close()
	a.purse = next
	a.settled, a.expired = 0, uint64(len(a.open))
	clear(a.tooLow)
	for _, h := range slices.Clone(a.open) {
		a.end(h, h.units, a.clock.Load())
	}
	a.ended = nil
}

// playBudgets lets goroutines hold and settle in rounds, in each of which the clock
// stands still. All tickets are settled several times, by any goroutine, and those of
// rounds before as well. Nearly all places are taken, so that shards take them from
// each other.
func playBudgets(t *trial) {
	inFlight := []int{20, 700, 1024, 3000}[t.IntN(4)]
	a, err := newAccount(t, inFlight)
	if err != nil {
		t.fail("setup", "%v", err)
		return
	}
	defer a.purse.Close()
	a.keys = 64
	full := inFlight + inFlight/4 - 6 // fill all places but some
	for i := 0; len(a.open) < full && i < 4*full; i++ {
		h, d := a.purse.Do(sketchlimit.Request{Key: name(1000 + i)})
		if d.Allowed {
			a.open = append(a.open, &held{ticket: h, key: 1000 + i, units: 1, expires: a.soonest(a.latest), surely: a.surely()})
		}
	}
	for range 3 + t.IntN(5) {
		a.storm()
		if a.sweep(); t.over {
			return
		}
		for key := range a.keys {
			for i := range a.books {
				if free := a.free(i, key); free < 0 {
					a.fail("over-admission", "key %d has settled and holds %d units above limit %d", key, -free, i)
				}
			}
		}
		if t.IntN(3) == 0 {
			a.move()
		}
	}
}

// cost returns what a hold is settled for: mostly nothing, so that limits stay free.
func cost(r *rand.Rand, h *held) int64 {
	if r.IntN(50) > 0 {
		return 0
	}
	return r.Int64N(h.units + 1)
}

// storm is a round. Goroutines settle their own tickets, and now and then some that all
// of them have.
func (a *account) storm() {
	a.see()
	for _, h := range a.open {
		if h.early != nil {
			return // it may be settled meanwhile, or expire
		}
	}
	type end struct {
		*held
		n int64
	}
	var c crew
	var mu sync.Mutex
	var ends []end
	var opened []*held
	shared := slices.Concat(a.ended, a.open[max(0, len(a.open)-20):])
	for range a.b.workers {
		mine, now, surely := newRand(a.Uint64()), a.latest, a.surely()
		c.start(func() {
			var own []*held
			var settled []end
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				opened, ends = append(opened, own...), append(ends, settled...)
			}()
			for range 2000 {
				key, n := mine.IntN(a.keys), int64(1+mine.IntN(3))
				again, d := a.purse.Do(sketchlimit.Request{Key: name(key), N: int(n)})
				if d.Allowed {
					own = append(own, &held{ticket: again, key: key, units: n, expires: a.soonest(now), surely: surely})
				}
				if d.Allowed && mine.IntN(2) == 0 {
					runtime.Gosched() // others find no place in their shards
				}
				of := own
				if mine.IntN(8) == 0 {
					of = shared
				}
				if len(of) == 0 {
					continue
				}
				h := of[len(of)-1]
				if n := h.Units(); n != 0 && int64(n) != h.units {
					panic(fmt.Sprintf("a hold of %d units has %d", h.units, n))
				}
				for range 1 + mine.IntN(5) { // the first one ends it, mostly; what follows is late
					if n := cost(mine, h); h.Settle(int(n)) {
						settled = append(settled, end{h, n})
					}
				}
				if h = of[mine.IntN(len(of))]; mine.IntN(4) == 0 {
					if n := cost(mine, h); h.Settle(int(n)) {
						settled = append(settled, end{h, n})
					}
				}
			}
		})
	}
	if a.IntN(3) == 0 {
		c.start(func() { a.purse.WriteTo(io.Discard) })
		c.start(func() { a.purse.Stats() })
	}
	c.Wait()
	a.steps += a.b.workers * 2000
	for _, p := range c.panics {
		a.fail("panic", "%v", p)
		a.over = true // a lock may be held, or a list be a ring
	}
	if a.over {
		return
	}
	a.open = append(a.open, opened...)
	seen := map[*held]bool{}
	for _, e := range ends {
		if seen[e.held] {
			a.fail("twice", "a hold of key %d was settled twice", e.key)
			a.over = true
			return
		}
		seen[e.held] = true
		a.enter(e.held, e.n, a.clock.Load())
	}
	a.open = slices.DeleteFunc(a.open, func(h *held) bool { return seen[h] })
}
