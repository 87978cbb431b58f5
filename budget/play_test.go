package budget_test

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

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
		free := p.freeOf(i, at, e.key, e.limit)
		b.Charge(at[i], e.key, n)
		over = max(over, max(0, n-e.units)-max(0, free))
	}
	p.over += p.counted(over)
	p.settled += p.counted(n)
	p.held[e.key] -= e.units
	e.gone = true
	for i := range p.holds {
		if p.holds[i] == e {
			p.holds = append(p.holds[:i], p.holds[i+1:]...)
			break
		}
	}
}

// counted returns what Stats count of n units of one request or hold.
func (p *play) counted(n int64) uint64 {
	most := 0
	for _, c := range p.config.Limits {
		most = max(most, cmp.Or(c.Burst, c.Limit))
	}
	return uint64(min(n, int64(most)))
}

// add puts a hold behind all others that expire.
func (p *play) add(e *entry, now int64) {
	e.expires = now + int64(p.config.HoldFor)
	if n := len(p.holds); n > 0 {
		e.expires = max(e.expires, p.holds[n-1].expires)
	}
	p.holds = append(p.holds, e)
}

// free is the least that freeOf returns.
func (p *play) free(at []int64, key string, limit int) int64 {
	free := int64(1 << 62)
	for i := range p.books {
		free = min(free, p.freeOf(i, at, key, limit))
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
	key, n, limit := p.key(), p.cost(), p.own()
	at, now := p.see()
	p.expire(at, now)
	free := p.free(at, key, limit)
	peeked := sketchlimit.Decision{}
	if p.IntN(4) == 0 && len(p.holds) == 0 { // with nothing to expire, it says what Hold does
		_, peeked = p.b.Do(sketchlimit.Request{Key: key, N: n, Limit: limit, Peek: true})
	}
	hold, d := p.b.Do(sketchlimit.Request{Key: key, N: n, Limit: limit})
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
	beside := p.freeOf(d.By, at, key, limit)
	require.Equal(p, p.lower(d.By, limit), d.Limit)
	require.LessOrEqual(p, int64(d.Remaining), max(0, beside), "step %d", p.step)
	require.Equal(p, d.Allowed, hold.Units() > 0)
	if !d.Allowed {
		require.Positive(p, d.RetryAfter)
		require.False(p, hold.Settle(1))
		return
	}
	p.held[key] += int64(n)
	p.add(&entry{Hold: hold, key: key, units: int64(n), limit: limit}, now)
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
	free := p.free(at, e.key, e.limit)
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
	key, n, limit := p.key(), p.cost(), p.own()
	at, now := p.see()
	p.expire(at, now) // at the look
	p.expire(at, now)
	over := max(0, int64(n)-max(0, p.free(at, key, limit)))
	for i, b := range p.books {
		b.Charge(at[i], key, int64(n))
	}
	r := sketchlimit.Request{Key: key, N: n, Limit: limit, Peek: true}
	peeked := p.b.DoCharge(r)
	r.Peek = false
	got := int64(p.b.DoCharge(r))
	require.EqualValues(p, peeked, got, "step %d", p.step)
	if p.settled, p.over = p.settled+p.counted(int64(n)), p.over+p.counted(over); p.exact {
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

// restore goes on with a budget that has read a snapshot: all that was held counts in
// full.
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
