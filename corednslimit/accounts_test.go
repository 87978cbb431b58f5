package corednslimit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// clock is a time that tests move.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Unix(1_700_000_000, 0)} }

func (c *clock) read() time.Time      { return c.now }
func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

// responsesOnly returns accounts of one category.
func responsesOnly(t testing.TB, c *clock, perSecond, window float64) *accounts {
	r := rates{window: window, memory: 1 << 20, clock: c.read}
	r.perSecond[response] = perSecond
	a, err := newAccounts(r)
	require.NoError(t, err)
	t.Cleanup(func() { a.close() })
	return a
}

// balance returns the whole units of an account beyond its debt.
func (a *accounts) balance(c category, key string) int {
	of := a.of[c]
	return a.limiter.Do(sketchlimit.Request{Key: key, Limit: of.limit, Peek: true}).Remaining - of.debt
}

// An account holds one second of its allowance, gains it evenly, and is charged by what
// it refuses too.
func TestDebit(t *testing.T) {
	c := newClock()
	a := responsesOnly(t, c, 10, 5)
	key := []byte("a")
	require.Equal(t, 10, a.balance(response, "a"))
	for step, s := range []struct {
		pass    time.Duration
		debits  int
		allowed int
		balance int
	}{
		{0, 1, 1, 9},
		{0, 10, 9, -1},
		{100 * time.Millisecond, 1, 0, -1}, // it gains one, and owes one
		{200 * time.Millisecond, 1, 1, 0},
		{time.Hour, 0, 0, 10},
		{0, 25, 10, -15},
		{1400 * time.Millisecond, 1, 0, -2},
		{299 * time.Millisecond, 1, 0, -1}, // of which a part has come back
		{0, 1000, 0, -50},
		{4900 * time.Millisecond, 0, 0, -1},
		{200 * time.Millisecond, 1, 1, 0},
	} {
		c.pass(s.pass)
		allowed := 0
		for range s.debits {
			if a.debit(response, key) {
				allowed++
			}
		}
		require.Equal(t, s.allowed, allowed, "step %d", step)
		require.Equal(t, s.balance, a.balance(response, "a"), "step %d", step)
	}
}

// exact is an account by the rule, in units of 1/perSecond ns.
type exact struct {
	perSecond, balance, window int64
	last                       time.Time
}

func (e *exact) debit(now time.Time) bool {
	const second = int64(time.Second)
	e.balance = min(e.balance+now.Sub(e.last).Nanoseconds()*e.perSecond, second*e.perSecond)
	e.last = now
	if after := e.balance - second; after >= -e.window*second*e.perSecond {
		e.balance = after
		return after >= 0
	}
	return false
}

// Each decision on an account is that of exact arithmetic, at any time, for each of
// several allowances.
func TestDebitIsExact(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := rates{window: float64(1 + random.IntN(20)), memory: 1 << 20}
		r.perSecond[response], r.perSecond[nxdomain] = float64(1+random.IntN(200)), float64(1+random.IntN(1000))
		kind := []category{response, nxdomain}[random.IntN(2)]
		c := newClock()
		r.clock = c.read
		a, err := newAccounts(r)
		require.NoError(t, err)
		rate := r.perSecond[kind]
		e := exact{perSecond: int64(rate), balance: int64(rate * 1e9), window: int64(r.window), last: c.now}
		for step := range 3000 {
			pause := random.ExpFloat64() / rate * []float64{0.1, 1, 3}[step/1000]
			if random.IntN(500) == 0 {
				pause = 30 * random.Float64()
			}
			c.pass(time.Duration(pause * 1e9))
			require.Equal(t, e.debit(c.now), a.debit(kind, []byte("a")), "seed %d, step %d: %v", seed, step, r)
		}
		a.close()
	}
}

// Allowances are limited each by itself; 0 limits nothing.
func TestAllowanceForRtype(t *testing.T) {
	c := newClock()
	r := rates{window: 15, memory: 1 << 20, clock: c.read, perSecond: [categories]float64{100, 50, 10, 2, 0, 7}}
	a, err := newAccounts(r)
	require.NoError(t, err)
	for kind, rate := range r.perSecond {
		kind := category(kind)
		require.Equal(t, rate > 0, a.limits(kind), options[kind])
		if rate > 0 {
			require.Equal(t, int(rate), a.balance(kind, fmt.Sprint(kind)), options[kind])
			require.Equal(t, int(15*rate), a.of[kind].debt, options[kind])
		}
	}
	none, err := newAccounts(rates{window: 15, memory: 1 << 20})
	require.NoError(t, err)
	require.Zero(t, none.memoryBytes())
	require.Zero(t, none.falseDenialRate())
	require.NoError(t, none.close())
}

// An allowance may be a fraction. Below one a second an account holds one response.
func TestFractions(t *testing.T) {
	for rate, counts := range map[float64][2]int{ // at once, and in the hundred seconds after a pause
		2.5: {2, 250}, 0.5: {1, 50}, 0.01: {1, 1}, 0.1: {1, 10}, 1: {1, 100}, 33.333: {33, 3333},
	} {
		c := newClock()
		a := responsesOnly(t, c, rate, 15)
		count := func(times int, every time.Duration) (allowed int) {
			for range times {
				if c.pass(every); a.debit(response, []byte("a")) {
					allowed++
				}
			}
			return allowed
		}
		require.Equal(t, counts[0], count(counts[0]+1, 0), "%v a second", rate)
		c.pass(time.Hour)
		count(counts[0], 0)
		pace := time.Duration(float64(time.Second)/rate).Truncate(time.Microsecond) + time.Microsecond
		require.Equal(t, counts[1], count(counts[1], pace), "%v a second", rate)
	}
}

// As many accounts as stated, of which one in a hundred is deep in debt, hardly disturb
// a new one.
func TestKeysAreEnough(t *testing.T) {
	for _, rate := range []float64{5, 100} {
		c := newClock()
		r := rates{window: 15, keys: 10_000, clock: c.read}
		for kind := range r.perSecond {
			r.perSecond[kind] = rate
		}
		a, err := newAccounts(r)
		require.NoError(t, err)
		for key := range r.keys {
			debits := 1 + int(rate/5)
			if key%100 == 0 {
				debits = int(16 * rate)
			}
			for range debits {
				a.debit(response, fmt.Append(nil, key))
			}
		}
		t.Logf("%v a second: %d KiB, false denials %.1g", rate, a.memoryBytes()>>10, a.falseDenialRate())
		require.LessOrEqual(t, a.falseDenialRate(), 1e-5, "%v a second", rate)
		a.close()
	}
}

// Who asks 24 times a second at an allowance of 20 gets nothing after ten seconds, as
// with rrl, and with window 0 its allowance.
func TestWindowZeroIsAPlainLimit(t *testing.T) {
	for window, want := range map[float64][2]int{0: {20, 20}, defaultWindow: {0, 0}} {
		now := time.Unix(1_790_000_000, 0)
		r := rates{window: window, memory: 1 << 20, clock: func() time.Time { return now }}
		r.perSecond[response] = 20
		a, err := newAccounts(r)
		require.NoError(t, err)
		defer a.close()
		sent := 0
		for i := range 24 * 20 {
			if i == 24*10 {
				sent = 0
			}
			if a.debit(response, []byte("client")) {
				sent++
			}
			now = now.Add(time.Second / 24)
		}
		require.GreaterOrEqual(t, sent, 10*want[0], window)
		require.LessOrEqual(t, sent, 10*want[1]+1, window)
	}
}
