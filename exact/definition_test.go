package exact

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// event is units admitted or charged at a time.
type event struct{ t, n int64 }

// definition is an algorithm by the book: what a history of events weighs at a later
// time. All else follows from it.
type definition struct {
	limit int64
	told  int64 // limit that decisions name; 0: limit
	align int64 // 0: the clock is the key's
	load  func(h []event, t int64) *big.Rat

	floor   int64
	history map[string][]event
}

// admits reports whether n units fit at t.
func (d *definition) admits(h []event, t, n int64) bool {
	sum := new(big.Rat).SetInt64(n)
	return sum.Add(sum, d.load(h, t)).Cmp(big.NewRat(d.limit, 1)) <= 0
}

// taken is the time that now is taken as.
func (d *definition) taken(now int64, key string, moves bool) int64 {
	if d.align == 0 {
		if h := d.history[key]; len(h) > 0 {
			now = max(now, h[len(h)-1].t)
		}
		return now
	}
	now = max(now, d.floor)
	if moves {
		d.floor = now - now%d.align // no times below 0
	}
	return now
}

// check holds a decision for n units, asked for at a time, taken as one not before it
// and after the history h, to the definition.
func (d *definition) check(t *testing.T, got sketchlimit.Decision, h []event, asked, at, n int64, consumed bool) {
	t.Helper()
	require.Equal(t, cmp.Or(d.told, d.limit), int64(got.Limit))
	switch {
	case n < 1 || n > d.limit:
		require.False(t, got.Allowed)
		require.Equal(t, sketchlimit.Never, got.RetryAfter)
	case got.Allowed:
		require.True(t, d.admits(h, at, n), "over-admission")
		require.Zero(t, got.RetryAfter)
	default:
		retry := asked + int64(got.RetryAfter)
		require.Positive(t, got.RetryAfter, "denied without need, or without a wait")
		require.False(t, d.admits(h, retry-1, n), "RetryAfter too late")
		require.True(t, d.admits(h, retry, n), "RetryAfter too early")
	}
	if consumed {
		h = append(h, event{at, n})
	}
	load := d.load(h, at)
	free := new(big.Rat).Sub(big.NewRat(d.limit, 1), load)
	require.Equal(t, max(0, floor(free)), int64(got.Remaining))
	whole := asked + int64(got.ResetAfter)
	if got.ResetAfter == 0 {
		whole = at
	}
	require.Zero(t, d.load(h, whole).Sign(), "ResetAfter too early")
	if got.ResetAfter > 0 {
		require.Positive(t, d.load(h, whole-1).Sign(), "ResetAfter too late")
	}
}

func floor(x *big.Rat) int64 {
	return new(big.Int).Div(x.Num(), x.Denom()).Int64() // Euclidean: down, as the denominator is positive
}

// op is one call of a schedule.
type op struct {
	kind byte // see run
	at   int64
	key  string
	n    int
}

const (
	opTake = iota
	opPeek
	opCharge
	opSweep
)

// run holds a limiter to its definition over a schedule, which starts at time 0.
func run(t *testing.T, l Limiter, d *definition, ops []op) {
	t.Helper()
	d.history = map[string][]event{}
	for _, o := range ops {
		now, h := time.Unix(0, o.at), d.history[o.key]
		at := d.taken(o.at, o.key, o.kind == opTake || o.kind == opCharge)
		switch o.kind {
		case opTake:
			got := l.TakeAt(now, o.key, o.n)
			d.check(t, got, h, o.at, at, int64(o.n), got.Allowed)
			if got.Allowed {
				d.history[o.key] = append(h, event{at, int64(o.n)})
			}
		case opPeek:
			d.check(t, l.PeekAt(now, o.key, o.n), h, o.at, at, int64(o.n), false)
		case opCharge:
			l.Charge(now, o.key, o.n)
			if o.n > 0 {
				d.history[o.key] = append(h, event{at, int64(o.n)})
			}
		case opSweep:
			if d.align > 0 {
				at = d.floor // a peek may have been ahead
			}
			l.(interface{ sweep(int64) }).sweep(at)
		}
	}
}

// schedule draws operations at times around the window, which may step back. Sweeps
// come only where dropping may change nothing: with aligned generations, or in order.
func schedule(r *rand.Rand, length int, window, limit int64, aligned bool) []op {
	ops := make([]op, length)
	inOrder := r.IntN(2) == 0
	now, latest := r.Int64N(window), int64(0)
	for i := range ops {
		switch r.IntN(12) {
		case 0:
			now += r.Int64N(3 * window)
		case 1:
			if !inOrder {
				now = max(0, now-r.Int64N(2*window))
			}
		case 2:
			now += window
		case 3, 4, 5: // same time
		default:
			now += r.Int64N(window/limit + 2)
		}
		latest = max(latest, now)
		o := op{kind: opTake, at: now, key: string(rune('a' + r.IntN(2))), n: 1 + r.IntN(2)}
		switch r.IntN(16) {
		case 0, 1:
			o.kind = opPeek
		case 2:
			o.kind, o.n = opCharge, r.IntN(3*int(limit))
		case 3:
			o.n = r.IntN(int(limit) + 2)
		case 4:
			if aligned || inOrder {
				o.kind, o.at = opSweep, latest
			}
		}
		ops[i] = o
	}
	return ops
}

// contestant is a limiter with its definition, and the window that its schedules are
// drawn around.
type contestant struct {
	Limiter
	*definition
	window int64
}

// contestants draws all algorithms with parameters small enough for edges to be hit
// often, and odd enough for fractions to matter.
func contestants(r *rand.Rand) map[string]contestant {
	limit, window, burst := 1+r.Int64N(9), 1+r.Int64N(60), 1+r.Int64N(9)
	slots, portion := 1+r.Int64N(5), 1+r.Int64N(4)
	n, w, b := int(limit), time.Duration(window), int(burst)
	counter := func(align, m int64, weigh bool) *definition {
		return &definition{limit: limit, align: align, load: slotLoad(align, m, weigh)}
	}
	log := func(limit int64) *definition { return &definition{limit: limit, load: logLoad(window)} }
	bucket := &definition{limit: burst, told: limit, load: fluidLoad(limit, window)}
	queue := &definition{limit: burst, load: queueLoad(window)}
	portions := &definition{limit: burst, load: portionLoad(window, portion)}
	whole, m := window*slots, int(slots)
	return map[string]contestant{
		"FixedWindow":    {must(NewFixedWindow(n, w)), counter(window, 1, false), window},
		"SlidingWindow":  {must(NewSlidingWindow(n, w)), counter(window, 1, true), window},
		"Slots":          {must(NewSlots(n, time.Duration(whole), m)), counter(window, slots, true), whole},
		"SlidingLog":     {must(NewSlidingLog(n, w)), log(limit), window},
		"TokenBucket":    {must(NewTokenBucket(n, w, b)), bucket, window},
		"LeakyMeter":     {must(NewLeakyMeter(n, w, b)), bucket, window},
		"GCRA":           {must(NewGCRA(n, w, b)), bucket, window},
		"LeakyQueue":     {must(NewLeakyQueue(b, w)), queue, window * burst},
		"DiscreteBucket": {must(NewDiscreteBucket(b, w, int(portion))), portions, window * burst},
		"MinInterval":    {must(NewMinInterval(w)), log(1), window},
	}
}

func TestAgainstDefinition(t *testing.T) {
	testkit.Computes(t)
	for seed := range 40 {
		for name, c := range contestants(random(seed)) {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				run(t, c.Limiter, c.definition, schedule(random(seed), 100, c.window, c.limit, c.align > 0))
			})
		}
	}
}

// logLoad is every unit younger than the window.
func logLoad(window int64) func([]event, int64) *big.Rat {
	return func(h []event, t int64) *big.Rat {
		var sum int64
		for _, e := range h {
			if t-e.t < window {
				sum += e.n
			}
		}
		return big.NewRat(sum, 1)
	}
}

// slotLoad is every unit times the part of its slot that lies in the window of m
// slots that ends at t; or, unweighted, every unit of the slot of t.
func slotLoad(slot, m int64, weigh bool) func([]event, int64) *big.Rat {
	return func(h []event, t int64) *big.Rat {
		sum := new(big.Rat)
		for _, e := range h {
			start := e.t / slot * slot // schedules have no negative times
			inside := min(slot, start+slot-(t-m*slot))
			if !weigh && start == t/slot*slot {
				inside = slot
			} else if !weigh || inside < 0 {
				inside = 0
			}
			sum.Add(sum, big.NewRat(e.n*inside, slot))
		}
		return sum
	}
}

// fluidLoad is Reich's formula: what is in a leaking bucket is the most, over all
// times s, that came since s less what could have leaked since s.
func fluidLoad(limit, window int64) func([]event, int64) *big.Rat {
	return func(h []event, t int64) *big.Rat {
		most, came := new(big.Rat), int64(0)
		for i := len(h) - 1; i >= 0; i-- {
			came += h[i].n
			level := big.NewRat(came*window-limit*(t-h[i].t), window)
			if level.Cmp(most) > 0 {
				most = level
			}
		}
		return most
	}
}

// queueLoad is the number of units that have not left yet.
func queueLoad(interval int64) func([]event, int64) *big.Rat {
	return func(h []event, t int64) *big.Rat {
		var leaves, waiting int64
		for _, e := range h {
			for range e.n {
				leaves = max(leaves, e.t) + interval
				if leaves > t {
					waiting++
				}
			}
		}
		return big.NewRat(waiting, 1)
	}
}

// portionLoad is what is missing after every refill that was due, one at a time.
func portionLoad(refillTime, refillAmount int64) func([]event, int64) *big.Rat {
	return func(h []event, t int64) *big.Rat {
		var missing, next int64
		refill := func(t int64) {
			for ; missing > 0 && next <= t; next += refillTime {
				missing = max(0, missing-refillAmount)
			}
		}
		for _, e := range h {
			refill(e.t)
			if missing == 0 {
				next = e.t + refillTime
			}
			missing += e.n
		}
		refill(t)
		return big.NewRat(missing, 1)
	}
}

// same drives limiters that must give the same answers in every field.
func same(t *testing.T, ops []op, a, b Limiter) {
	t.Helper()
	for i, o := range ops {
		now := time.Unix(0, o.at)
		switch o.kind {
		case opTake:
			require.Equal(t, a.TakeAt(now, o.key, o.n), b.TakeAt(now, o.key, o.n), "op %d: %v", i, o)
		case opPeek:
			require.Equal(t, a.PeekAt(now, o.key, o.n), b.PeekAt(now, o.key, o.n), "op %d: %v", i, o)
		case opCharge:
			a.Charge(now, o.key, o.n)
			b.Charge(now, o.key, o.n)
		}
	}
}

func TestOneSlotIsTheSlidingWindow(t *testing.T) {
	for seed := range 100 {
		r := random(seed)
		limit, window := 1+r.Int64N(50), time.Duration(1+r.Int64N(int64(time.Minute)))
		same(t, schedule(r, 200, int64(window), limit, true),
			must(NewSlidingWindow(int(limit), window)), must(NewSlots(int(limit), window, 1)))
	}
}

func TestTokenBucketIsLeakyMeterIsGCRA(t *testing.T) {
	for seed := range 100 {
		r := random(seed)
		limit, window, burst := 1+r.Int64N(1<<r.IntN(20)), time.Duration(1+r.Int64N(1<<r.IntN(40))), 1+r.IntN(20)
		ops := schedule(r, 200, int64(window), limit, false)
		for i := range ops {
			if r.IntN(50) == 0 {
				ops[i].kind, ops[i].n = opCharge, int(r.Int64N(min(1<<62, math.MaxInt))) // past where debts saturate
			}
		}
		build := func() (Limiter, Limiter, Limiter) {
			return must(NewTokenBucket(int(limit), window, burst)), must(NewLeakyMeter(int(limit), window, burst)),
				must(NewGCRA(int(limit), window, burst))
		}
		bucket, meter, gcra := build()
		same(t, ops, bucket, meter)
		bucket, _, _ = build()
		same(t, ops, bucket, gcra)
	}
}

func TestLeakyQueueAdmitsAsGCRA(t *testing.T) {
	for seed := range 100 {
		r := random(seed)
		capacity, interval := 1+r.IntN(20), time.Duration(1+r.Int64N(1<<r.IntN(40)))
		same(t, schedule(r, 200, int64(interval), 1, false),
			must(NewLeakyQueue(capacity, interval)), inBurst{must(NewGCRA(1, interval, capacity)), capacity})
	}
}

// inBurst is a bucket whose decisions name its burst as the limit, as a queue's name
// its capacity.
type inBurst struct {
	*GCRA
	burst int
}

func (b inBurst) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	d := b.GCRA.TakeAt(now, key, n)
	d.Limit = b.burst
	return d
}

func (b inBurst) PeekAt(now time.Time, key string, n int) sketchlimit.Decision {
	d := b.GCRA.PeekAt(now, key, n)
	d.Limit = b.burst
	return d
}

func TestMinIntervalIsLogAndGCRAOfOne(t *testing.T) {
	for seed := range 100 {
		r := random(seed)
		interval := time.Duration(1 + r.Int64N(1<<r.IntN(40)))
		ops := schedule(r, 200, int64(interval), 1, false)
		same(t, ops, must(NewMinInterval(interval)), must(NewSlidingLog(1, interval)))
		for i := range ops {
			ops[i].n = min(ops[i].n, 1) // GCRA adds charges up, the others have the last time only
			if ops[i].kind == opCharge {
				ops[i].kind = opPeek
			}
		}
		same(t, ops, must(NewMinInterval(interval)), must(NewGCRA(1, interval, 1)))
	}
}
