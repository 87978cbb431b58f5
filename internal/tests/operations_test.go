package tests

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

const trialWindow = 1200 * ms // 100 ms a unit of 12, and whole for all limits

// narrow is a plan in which keys collide all the time.
var narrow = &sketchlimit.Plan{Shards: 2, BloomBytes: 64, BloomProbes: 2, Depth: 2, Width: 16, CellBits: 8}

// trials are the limiters that operations are tried on.
var trials = []sketchlimit.Config{
	{Limit: 12, Algorithm: sketchlimit.FixedWindow},
	{Limit: 12},
	{Limit: 12, SubWindows: 4},
	{Limit: 12, Algorithm: sketchlimit.TokenBucket},
	{Limit: 12, Algorithm: sketchlimit.TokenBucket, Burst: 4},
	{Limit: 60}, // with a table of heavy keys
	{Limit: 60, Algorithm: sketchlimit.FixedWindow},
	{Limit: 1},
	{Limit: 120_000}, // cells of 32 bits
	{Limit: 60, MaxMemoryBytes: 1 << 20},
	{Limit: 12, SubWindows: 3, MaxMemoryBytes: 1 << 20},
	{Limit: 60, Algorithm: sketchlimit.FixedWindow, MaxMemoryBytes: 1 << 20},
	{Limit: 12, Plan: narrow},
	{Limit: 60, Plan: narrow},
	{Limit: 60, Plan: &sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 1, Width: 8, CellBits: 8, HeavyEntries: 16, PromoteAt: 3}},
	{Limit: 60, Algorithm: sketchlimit.FixedWindow, Plan: narrow},
	{Limit: 12, SubWindows: 4, Plan: narrow},
	{Limit: 12, Burst: 20, Algorithm: sketchlimit.TokenBucket, Plan: &sketchlimit.Plan{Shards: 2, Depth: 8, Width: 1, CellBits: 32}},
}

// trial holds a limiter against the exact algorithm, which counts what the limiter
// admits.
type trial struct {
	testing.TB
	config           sketchlimit.Config
	l                *sketchlimit.Limiter
	oracles          map[int]exact.Limiter // by the limit of a request
	generation       time.Duration
	now, latest      time.Time // latest: the greatest so far
	floor            time.Time // no time lies before: start of the latest generation
	admitted, denied uint64    // units
	charges          []charge  // to the oracles
	snapshot         saved
}

// charge is what an oracle was told.
type charge struct {
	at       time.Time
	key      string
	n, limit int
}

// saved is a snapshot of the limiter, and of what the oracles knew then.
type saved struct {
	bytes   []byte
	charges int
	floor   time.Time
}

func newTrial(t testing.TB, c sketchlimit.Config) *trial {
	c.Window, c.LowestLimit = trialWindow, max(1, c.Limit/3)
	x := &trial{TB: t, now: time.Unix(1_700_000_000, 0)}
	if c.Plan == nil {
		c.MemoryBytes = 16 << 10 // for 8 keys: they do not collide
	}
	if c.MaxMemoryBytes > 0 {
		c.MemoryBytes, c.MaxMemoryBytes = 8<<10, 1<<20
	}
	c.Seed, c.Clock = 1, func() time.Time { return x.now }
	x.config = c
	x.generation = trialWindow / time.Duration(max(1, c.SubWindows))
	if x.bucket() {
		x.generation = generation(c)
	}
	x.l = x.limiter()
	x.forget()
	return x
}

// limiter returns a new one, which changes its size when told to alone.
func (x *trial) limiter() *sketchlimit.Limiter {
	l, err := sketchlimit.New(x.config)
	require.NoError(x, err)
	require.NoError(x, l.Close())
	x.floor = time.Time{}
	return l
}

// forget makes oracles that know the charges alone.
func (x *trial) forget() {
	x.oracles = map[int]exact.Limiter{}
	for part := range 3 {
		limit := x.limit(part)
		oracle, err := x.oracle(limit)
		require.NoError(x, err)
		x.oracles[limit] = oracle
	}
	for _, c := range x.charges {
		x.charge(c)
	}
}

// charge charges the oracles. A bucket's time is that of one limit alone: a unit of
// another one takes longer.
func (x *trial) charge(c charge) {
	for of, oracle := range x.oracles {
		if of == c.limit || !x.bucket() {
			oracle.Charge(c.at, c.key, c.n)
		}
	}
}

func (x *trial) oracle(limit int) (exact.Limiter, error) {
	switch c := &x.config; {
	case c.Algorithm == sketchlimit.FixedWindow:
		return exact.NewFixedWindow(limit, trialWindow)
	case c.SubWindows > 0:
		return exact.NewSlots(limit, trialWindow, c.SubWindows)
	case c.Algorithm == sketchlimit.SlidingWindow:
		return exact.NewSlidingWindow(limit, trialWindow)
	}
	return exact.NewGCRA(limit, trialWindow, x.quota(limit))
}

// quota returns how many units of a limit a key can have at once.
func (x *trial) quota(limit int) int {
	if c := &x.config; c.Burst > 0 {
		return max(1, c.Burst*limit/c.Limit)
	}
	return limit
}

// limit returns one of the limits that requests are held against.
func (x *trial) limit(part int) int { return max(1, x.config.Limit/(1+part%3)) }

func (x *trial) bucket() bool { return x.config.Algorithm == sketchlimit.TokenBucket }

// advance makes the generation of now the latest.
func (x *trial) advance() {
	start := time.Unix(0, x.now.UnixNano()/int64(x.generation)*int64(x.generation))
	if start.After(x.floor) {
		x.floor = start
	}
	if x.now.After(x.latest) {
		x.latest = x.now
	}
}

// taken is the time that now is taken as.
func (x *trial) taken() time.Time {
	if x.now.Before(x.floor) {
		return x.floor
	}
	return x.now
}

// take sends a request and judges the answer.
func (x *trial) take(key string, n, limit int) {
	x.advance()
	want := x.ask(x.now, key, n, limit)
	var got sketchlimit.Decision
	if limit == x.config.Limit {
		got = x.l.TakeAt(x.now, key, n)
	} else {
		got = x.l.Do(sketchlimit.Request{Time: x.now, Key: key, N: n, Limit: limit})
	}
	x.count(want, got.Allowed, key, n, limit)
	if got.Allowed {
		left := x.ask(x.now, key, n, limit)
		want.Remaining, want.ResetAfter = left.Remaining, left.ResetAfter
	} else {
		require.Equal(x, got, x.l.Do(sketchlimit.Request{Time: x.now, Key: key, N: n, Limit: limit, Peek: true}), "what is told is what is decided")
		if got.RetryAfter != sketchlimit.Never {
			require.True(x, x.l.Do(sketchlimit.Request{Time: x.now.Add(got.RetryAfter), Key: key, N: n, Limit: limit, Peek: true}).Allowed, "after %v", got.RetryAfter)
			require.False(x, x.l.Do(sketchlimit.Request{Time: x.now.Add(got.RetryAfter - 1), Key: key, N: n, Limit: limit, Peek: true}).Allowed, "before %v", got.RetryAfter)
		}
	}
	x.judge(want, got)
}

// ask returns the exact answer at a time, with durations that are counted from there
// also where it is taken as a later one.
func (x *trial) ask(at time.Time, key string, n, limit int) sketchlimit.Decision {
	lag := max(0, x.floor.Sub(at))
	d := x.oracles[limit].PeekAt(at.Add(lag), key, n)
	if d.RetryAfter > 0 && d.RetryAfter != sketchlimit.Never {
		d.RetryAfter += lag
	}
	if d.ResetAfter > 0 {
		d.ResetAfter += lag
	}
	d.Limit = limit
	return d
}

// peek asks without a trace, at a time that may lie ahead.
func (x *trial) peek(ahead time.Duration, key string, n int) {
	at := x.now.Add(ahead)
	x.judge(x.ask(at, key, n, x.config.Limit), x.l.Do(sketchlimit.Request{Time: at, Key: key, N: n, Peek: true}))
}

// allow sends a request through the short form.
func (x *trial) allow(key string, n int) {
	x.advance()
	want := x.ask(x.now, key, n, x.config.Limit)
	allowed := false
	if n == 1 {
		allowed = x.l.Allow(key)
	} else {
		allowed = x.l.AllowN(key, n)
	}
	x.count(want, allowed, key, n, x.config.Limit)
}

// reserve queues a request: the wait is the time in which all that came before has gone.
func (x *trial) reserve(key string, n int) {
	x.advance()
	want := x.ask(x.now, key, n, x.config.Limit)
	wait, err := x.l.Reserve(sketchlimit.Request{Time: x.now, Key: key, N: n})
	ok := err == nil
	x.count(want, ok, key, n, x.config.Limit)
	switch {
	case !ok:
		require.Zero(x, wait)
	case x.exactly():
		require.Equal(x, want.ResetAfter, wait)
	default:
		require.GreaterOrEqual(x, wait, want.ResetAfter)
	}
}

// count charges the oracles what was admitted.
func (x *trial) count(want sketchlimit.Decision, allowed bool, key string, n, limit int) {
	require.True(x, want.Allowed || !allowed, "%d units of %q admitted, the exact algorithm has %d of %d left", n, key, want.Remaining, limit)
	if !allowed {
		x.denied += uint64(max(0, min(n, x.quota(limit)))) // no request counts more
		return
	}
	x.admitted += uint64(n)
	c := charge{x.taken(), key, n, limit}
	x.charges = append(x.charges, c)
	x.charge(c)
}

// save takes a snapshot.
func (x *trial) save() {
	var b bytes.Buffer
	_, err := x.l.WriteTo(&b)
	require.NoError(x, err)
	x.snapshot = saved{b.Bytes(), len(x.charges), x.floor}
}

// restore goes on with a new limiter from the snapshot, at the time that it is by now.
func (x *trial) restore() {
	if x.snapshot.bytes == nil {
		return
	}
	if x.now.Before(x.snapshot.floor) {
		x.now = x.snapshot.floor // how far back it may go depends on when shards turned
	}
	x.l = x.limiter()
	_, err := x.l.ReadFrom(bytes.NewReader(x.snapshot.bytes))
	require.NoError(x, err)
	x.advance()
	require.False(x, x.l.TakeAt(x.now, "", -1).Allowed) // what it has seen depends on when shards turned; from here on it is this
	x.admitted, x.denied, x.charges = 0, 0, x.charges[:x.snapshot.charges]
	x.forget()
}

// judge compares an answer with the exact one: it may err on one side, and where keys do
// not collide, not at all.
func (x *trial) judge(want, got sketchlimit.Decision) {
	require.Equal(x, want.Limit, got.Limit)
	require.True(x, want.Allowed || !got.Allowed)
	require.LessOrEqual(x, got.Remaining, want.Remaining)
	require.GreaterOrEqual(x, got.RetryAfter, want.RetryAfter)
	require.GreaterOrEqual(x, got.ResetAfter, want.ResetAfter)
	require.Equal(x, got.Allowed, got.RetryAfter == 0)
	if x.exactly() {
		require.Equal(x, want, got)
	}
}

// exactly reports whether nothing may err. A clock that steps back inside a generation is
// treated differently by GCRA.
func (x *trial) exactly() bool {
	return x.config.Plan == nil && !(x.bucket() && x.now.Before(x.latest))
}

// step moves the clock by a signed part of the window, or to a generation's edge.
func (x *trial) step(kind byte, by int16) {
	ahead := int64(by) * int64(by) / 64 * int64(trialWindow) / (1 << 22) // up to 4 windows
	switch kind {
	case 15:
		x.now = x.now.Add(-time.Duration(ahead))
	case 14:
		next := x.now.UnixNano()/int64(x.generation) + 1
		x.now = time.Unix(0, next*int64(x.generation)+int64(by%3)-1)
	default:
		x.now = x.now.Add(time.Duration(ahead / 4))
	}
}

// run reads four bytes an operation: its kind and key, a step of the clock (two), and a
// cost beside the kind of step.
func (x *trial) run(data []byte) {
	for steps := 0; len(data) >= 4 && steps < 200; data, steps = data[4:], steps+1 {
		x.step(data[3]>>4, int16(binary.LittleEndian.Uint16(data[1:])))
		key := string('a' + rune(data[0]>>5))
		n := []int{1, 1, 1, 1, 2, 3, 4, 5, -2, -1}[min(data[3]&15, 9)]
		switch data[3] & 15 {
		case 10, 11:
			n = max(1, x.config.Limit/4)
		case 12, 13:
			n = max(1, x.config.Limit/2)
		case 14, 15:
			n = x.config.Limit + int(data[3]&1)
		}
		limit := x.config.Limit
		if x.bucket() {
			limit = x.limit(int(data[0] >> 5))
		}
		switch op := data[0] & 31; {
		case op < 8:
			x.take(key, n, limit)
		case op < 16 && limit == x.config.Limit:
			x.allow(key, n)
		case op < 22 && limit == x.config.Limit:
			x.peek(time.Duration(op-16)*trialWindow/4, key, n)
		case op < 26:
			if !x.bucket() {
				limit = x.limit(int(op))
			}
			x.take(key, n, limit)
		case op < 28 && x.config.MaxMemoryBytes > 0:
			resize(x.l, 8<<10<<(op&1*2)<<(data[0]>>5&1))
		case op < 30 && limit == x.config.Limit && x.bucket():
			x.reserve(key, n)
		case op == 30 && data[0]>>5 < 3:
			x.save()
		case op == 30 && data[0]>>5 < 6:
			x.restore()
		case op > 29:
			s := x.l.Stats()
			require.Equal(x, x.admitted, s.Admitted)
			require.Equal(x, x.denied, s.Denied)
			require.True(x, s.FalseDenialRate >= 0 && s.FalseDenialRate <= 1)
		}
	}
}

// Whatever comes in whatever order, whenever: nothing is admitted that the exact
// algorithm would deny, no answer is better than its answer, and whoever waits as long
// as told passes.
func FuzzOperations(f *testing.F) {
	for which := range trials {
		f.Add(uint8(which), []byte("\x00\x00\x00\x0e\x00\x00\x00\x00\x00\xff\x20\x00\x00\x00\x00\x00"+ // take all, then more, later
			"\x08\x00\x00\x0e\x08\x00\x20\xe0\x12\x00\x10\x0c\x16\x00\x00\x05"+ // allow, peek, another limit
			"\x1a\x00\x00\x00\x28\x00\x30\xf4\x2a\x00\x40\x04\x1b\x00\x50\x01\x1c\x00\x00\x03\x1e\x00\x00\x00"+ // sizes, back, a queue, save
			"\x00\x00\x00\x02\x7e\x00\x20\x00\x00\x00\x00\x0e\x1f\x00\x00\x00")) // take, restore, statistics
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		newTrial(t, trials[int(which)%len(trials)]).run(data)
	})
}

// The same with operations drawn at random, for those who do not fuzz.
func TestOperations(t *testing.T) {
	for i, c := range trials {
		for seed := range uint64(20 / min(testkit.Divisor, 4)) {
			t.Run(fmt.Sprint(i, seed), func(t *testing.T) { newTrial(t, c).run(randomBytes(seed, 800)) })
		}
	}
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}
