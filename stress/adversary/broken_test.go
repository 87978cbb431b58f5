package main

import (
	"bytes"
	"io"
	"iter"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// broken is a limiter that breaks a promise in one of its methods; those that are nil are
// the limiter's own.
type broken struct {
	*sketchlimit.Limiter
	takeAt  func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision
	peekAt  func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision
	do      func(l *sketchlimit.Limiter, r sketchlimit.Request) sketchlimit.Decision
	reserve func(l *sketchlimit.Limiter, r sketchlimit.Request) (time.Duration, error)
	stats   func(sketchlimit.Stats) sketchlimit.Stats
	forgets bool   // what a snapshot holds
	writes  func() // a snapshot
}

func (b *broken) unwrap() *sketchlimit.Limiter { return b.Limiter }

func (b *broken) TakeAt(now time.Time, key string, n int) sketchlimit.Decision {
	if b.takeAt == nil {
		return b.Limiter.TakeAt(now, key, n)
	}
	return b.takeAt(b.Limiter, now, key, n)
}

// Do asks peekAt and takeAt what these can be asked.
func (b *broken) Do(r sketchlimit.Request) sketchlimit.Decision {
	simple := r.Limit == 0 && r.Bytes == nil && !r.Addr.IsValid() && !r.Time.IsZero()
	n := r.N
	if n == 0 {
		n = 1
	}
	switch {
	case b.do != nil:
		return b.do(b.Limiter, r)
	case simple && r.Peek && b.peekAt != nil:
		return b.peekAt(b.Limiter, r.Time, r.Key, n)
	case simple && !r.Peek && b.takeAt != nil:
		return b.takeAt(b.Limiter, r.Time, r.Key, n)
	}
	return b.Limiter.Do(r)
}

// peekAt is a peek of the limiter that is not broken.
func peekAt(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
	return l.Do(sketchlimit.Request{Key: key, N: n, Time: now, Peek: true})
}

func (b *broken) Reserve(r sketchlimit.Request) (time.Duration, error) {
	if b.reserve != nil {
		return b.reserve(b.Limiter, r)
	}
	return b.Limiter.Reserve(r)
}

func (b *broken) WriteTo(w io.Writer) (int64, error) {
	if b.writes != nil {
		b.writes()
	}
	return b.Limiter.WriteTo(w)
}

func (b *broken) Stats() sketchlimit.Stats {
	s := b.Limiter.Stats()
	if b.stats != nil {
		return b.stats(s)
	}
	return s
}

func (b *broken) ReadFrom(r io.Reader) (int64, error) {
	if b.forgets {
		return io.Copy(io.Discard, r)
	}
	return b.Limiter.ReadFrom(r)
}

// making returns a maker of broken limiters.
func making(f func(b *broken)) maker {
	return makingBy(func(b *broken, _ func() time.Time) { f(b) })
}

// makingBy is making for limiters that are broken by their clock.
func makingBy(f func(b *broken, clock func() time.Time)) maker {
	m := real
	m.limiter = func(c sketchlimit.Config) (subject, error) {
		l, err := sketchlimit.New(c)
		if err != nil {
			return nil, err
		}
		b := &broken{Limiter: l}
		f(b, c.Clock)
		return b, nil
	}
	return m
}

// answering returns a maker of limiters whose decisions, of Take and Peek alike, are
// changed.
func answering(change func(d *sketchlimit.Decision)) maker {
	return making(func(b *broken) {
		b.takeAt = func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
			d := l.TakeAt(now, key, n)
			change(&d)
			return d
		}
		b.peekAt = func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
			d := peekAt(l, now, key, n)
			change(&d)
			return d
		}
	})
}

// taking returns a maker of limiters whose Take is another one.
func taking(take func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision) maker {
	return making(func(b *broken) { b.takeAt = take })
}

// everySo returns a function that is true once in n calls.
func everySo(n int64) func() bool {
	var calls atomic.Int64
	return func() bool { return calls.Add(1)%n == 0 }
}

// brokenGroup is a group that is asked in another way.
type brokenGroup struct {
	group
	subjects []subject
	do       func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision
}

func (g *brokenGroup) Do(r sketchlimit.Request) sketchlimit.Decision {
	return g.do(g, r)
}

// grouping returns a maker of groups whose Do is another one but for peeks, and peeking
// of those whose peeks are others.
func grouping(f func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision) maker {
	return groupingBy(func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision {
		if r.Peek {
			return g.group.Do(r)
		}
		return f(g, r)
	})
}

func peeking(f func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision) maker {
	return groupingBy(func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision {
		if r.Peek {
			return f(g, r)
		}
		return g.group.Do(r)
	})
}

func groupingBy(f func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision) maker {
	m := real
	m.group = func(common []bool, subjects ...subject) (group, error) {
		g, err := real.group(common, subjects...)
		return &brokenGroup{g, subjects, f}, err
	}
	return m
}

// apart returns a maker of groups whose limiters all count each key by itself.
func apart() maker {
	m := real
	m.group = func(_ []bool, subjects ...subject) (group, error) { return real.group(nil, subjects...) }
	return m
}

// deaf is a share that leaves out what others have admitted.
type deaf struct{ sharing }

func (d deaf) SetOthers(int, int64, []uint64) bool               { return true }
func (d deaf) AddOthers(int, int64, iter.Seq2[int, uint32]) bool { return true }

// lossy is a share that hands out cells with one in so many of them missing.
type lossy struct {
	sharing
	lose func() bool
}

func (l lossy) Own(part int, generation int64, to []uint64) bool {
	ok := l.sharing.Own(part, generation, to)
	for i := range to {
		if l.lose() {
			to[i] = 0
		}
	}
	return ok
}

func sharingBy(f func(s sharing) sharing) maker {
	m := real
	m.share = func(s subject) (sharing, error) {
		share, err := real.share(s)
		return f(share), err
	}
	return m
}

// smaller returns a maker of limiters that are made by another Config than the oracles
// know.
func smaller(change func(c *sketchlimit.Config)) maker {
	m := real
	m.limiter = func(c sketchlimit.Config) (subject, error) {
		change(&c)
		return real.limiter(c)
	}
	return m
}

// brokenPurse is a budget that breaks a promise.
type brokenPurse struct {
	purse
	room    func() bool // is true for a hold that is admitted though it does not fit
	again   func() bool // and for a settled hold that settles once more
	forgets bool        // what snapshots hold
}

type brokenTicket struct {
	ticket
	again func() bool
}

func (b brokenTicket) Settle(n int) bool {
	return b.ticket.Settle(n) || b.again != nil && b.again()
}

func (b *brokenPurse) Do(r sketchlimit.Request) (ticket, sketchlimit.Decision) {
	h, d := b.purse.Do(r)
	if !d.Allowed && b.room != nil && b.room() {
		d.Allowed = true
	}
	return brokenTicket{h, b.again}, d
}

func (b *brokenPurse) ReadFrom(r io.Reader) (int64, error) {
	if b.forgets {
		return io.Copy(io.Discard, r)
	}
	return b.purse.ReadFrom(r)
}

// budgeting returns a maker of broken budgets.
func budgeting(f func(b *brokenPurse)) maker {
	m := real
	m.budget = func(c budget.Config) (purse, error) {
		p, err := newPurse(c)
		b := &brokenPurse{purse: p}
		f(b)
		return b, err
	}
	return m
}

// brokenRules are rules of which an edit, or a restart, makes new ones.
type brokenRules struct {
	ruler
	mu             sync.RWMutex
	options        rules.Options
	edits, restart bool
}

func (b *brokenRules) Do(domain string, asks ...rules.Ask) rules.Answer {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.ruler.Do(domain, asks...)
}

func (b *brokenRules) Replace(files ...rules.File) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.edits {
		return b.ruler.Replace(files...)
	}
	b.ruler, err = newRuler(b.options, files[0])
	return err
}

func (b *brokenRules) Restore(folder string) error {
	if b.restart {
		return nil
	}
	return b.ruler.Restore(folder)
}

func ruling(edits, restart bool) maker {
	m := real
	m.rules = func(o rules.Options, f rules.File) (ruler, error) {
		r, err := newRuler(o, f)
		return &brokenRules{ruler: r, options: o, edits: edits, restart: restart}, err
	}
	return m
}

// childOf returns a maker whose kind process runs this test's binary, as what the
// environment says.
func childOf(broken string) maker {
	m := real
	m.child = []string{os.Args[0], childFlag + broken}
	return m
}

// TestMain is the process of the kind process as well.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && strings.HasPrefix(os.Args[1], childFlag) {
		broken := real
		switch os.Args[1] {
		case childFlag + "-late": // by a clock of its own, that stands still for long
			broken.limiter = func(c sketchlimit.Config) (subject, error) {
				var now atomic.Int64
				now.Store(time.Now().UnixNano())
				go func() {
					for range time.Tick(170 * time.Millisecond) {
						now.Store(time.Now().UnixNano())
					}
				}()
				c.Clock = func() time.Time { return time.Unix(0, now.Load()) }
				return real.limiter(c)
			}
		case childFlag + "-busy":
			broken.limiter = func(c sketchlimit.Config) (subject, error) {
				var ticks atomic.Int64
				go func() {
					for range time.Tick(time.Millisecond) {
						ticks.Add(1)
					}
				}()
				return real.limiter(c)
			}
		}
		child(os.Args[2], broken)
		return
	}
	os.Exit(m.Run())
}

// ahead returns a maker of limiters whose default clock runs twice as fast as it should.
func ahead() maker {
	m := real
	m.limiter = func(c sketchlimit.Config) (subject, error) {
		start := time.Now()
		c.Clock = func() time.Time { return start.Add(2 * time.Since(start)) }
		return real.limiter(c)
	}
	return m
}

// keeping returns a maker of limiters that somebody has after all.
func keeping() maker {
	m := real
	var kept []subject
	var mu sync.Mutex
	m.limiter = func(c sketchlimit.Config) (subject, error) {
		c.Clock = time.Now
		l, err := real.limiter(c)
		mu.Lock()
		defer mu.Unlock()
		if kept = append(kept, l); len(kept) > 300 {
			kept = kept[:300]
		}
		return l, err
	}
	return m
}

// reopening is a limiter that forgets all when its clock steps back.
func reopening() maker {
	m := real
	m.limiter = func(c sketchlimit.Config) (subject, error) {
		l, err := real.limiter(c)
		return &reopened{subject: l, now: l, config: c, latest: c.Clock().UnixNano()}, err
	}
	return m
}

type reopened struct {
	subject // that is asked in other ways
	config  sketchlimit.Config
	mu      sync.Mutex
	now     subject
	latest  int64
}

func (r *reopened) Take(key string, n int) sketchlimit.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.config.Clock().UnixNano()
	if now < r.latest {
		r.now, _ = real.limiter(r.config)
	}
	r.latest = now
	return r.now.Take(key, n)
}

// TestFindsWhatIsBroken breaks limiters in one way after another. The bench must find
// each, by the rule that is for it, and by that rule nothing in limiters that are
// whole.
func TestFindsWhatIsBroken(t *testing.T) {
	retry := func(d *sketchlimit.Decision, by time.Duration) {
		if !d.Allowed && d.RetryAfter != sketchlimit.Never {
			d.RetryAfter += by
		}
	}
	now, later := everySo(20), everySo(50)
	for _, c := range []struct {
		name, kind, rule string
		make             maker
	}{
		{"a unit too many now and then", "fixed", "over-admission", answering(func(d *sketchlimit.Decision) {
			if !d.Allowed && d.RetryAfter != sketchlimit.Never && now() {
				d.Allowed, d.RetryAfter = true, 0
			}
		})},
		{"a limit that is one higher", "sliding", "over-admission", smaller(func(c *sketchlimit.Config) {
			if c.Limit < 250 {
				p := *c.Plan
				c.Limit, c.Plan, p.CellBits = c.Limit+1, &p, 8
			}
		})},
		{"a window that is one nanosecond shorter", "fixed", "over-admission", smaller(func(c *sketchlimit.Config) {
			if c.Window > time.Millisecond {
				c.Window--
			}
		})},
		{"weights of a later time", "sliding", "over-admission", taking(func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
			return l.TakeAt(now.Add(l.Window()/8), key, n)
		})},
		{"a bucket that holds one more", "bucket", "over-admission", smaller(func(c *sketchlimit.Config) {
			if c.Burst > 0 && c.Burst < 1<<20 {
				c.Burst++
			}
		})},
		{"Remaining one above exact", "fixed", "remaining", answering(func(d *sketchlimit.Decision) { d.Remaining++ })},
		{"Remaining one above exact after a Take", "subwindows", "remaining", taking(func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
			d := l.TakeAt(now, key, n)
			if d.Allowed {
				d.Remaining++
			}
			return d
		})},
		{"RetryAfter a nanosecond early", "fixed", "retry", answering(func(d *sketchlimit.Decision) { retry(d, -1) })},
		{"RetryAfter a nanosecond late", "sliding", "retry late", answering(func(d *sketchlimit.Decision) { retry(d, 1) })},
		{"ResetAfter a nanosecond early", "fixed", "reset", answering(func(d *sketchlimit.Decision) { d.ResetAfter -= min(d.ResetAfter, 1) })},
		{"ResetAfter a nanosecond late", "fixed", "reset late", answering(func(d *sketchlimit.Decision) { d.ResetAfter++ })},
		{"Never for what will pass", "fixed", "never", answering(func(d *sketchlimit.Decision) {
			if !d.Allowed && later() {
				d.RetryAfter = sketchlimit.Never
			}
		})},
		{"a wait for what never passes", "fixed", "never", answering(func(d *sketchlimit.Decision) {
			if d.RetryAfter == sketchlimit.Never {
				d.RetryAfter = time.Hour
			}
		})},
		{"a Take that denies what Peek admits", "fixed", "take is not peek", making(func(b *broken) {
			so := everySo(20)
			b.takeAt = func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
				if so() {
					return peekAt(l, now, key, -1)
				}
				return l.TakeAt(now, key, n)
			}
		})},
		{"a denial that is told again later", "fixed", "stale denial", making(func(b *broken) {
			last := map[string]sketchlimit.Decision{}
			b.takeAt = func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
				d := l.TakeAt(now, key, n)
				if was, ok := last[key]; ok && !d.Allowed && d.RetryAfter != sketchlimit.Never {
					return was
				}
				delete(last, key)
				if !d.Allowed && d.RetryAfter != sketchlimit.Never {
					last[key] = d
				}
				return d
			}
		})},
		{"who has waited is denied once more", "fixed", "honoured", making(func(b *broken) {
			denied := map[string]bool{}
			b.takeAt = func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
				if denied[key] {
					denied[key] = false
					return peekAt(l, now, key, -1)
				}
				d := l.TakeAt(now, key, n)
				denied[key] = !d.Allowed
				return d
			}
		})},
		{"another Limit is told", "fixed", "limit", answering(func(d *sketchlimit.Decision) { d.Limit++ })},
		{"a Reserve whose wait is a nanosecond short", "bucket", "reserve", making(func(b *broken) {
			b.reserve = func(l *sketchlimit.Limiter, r sketchlimit.Request) (time.Duration, error) {
				wait, err := l.Reserve(r)
				return max(0, wait-1), err
			}
		})},
		{"a Reserve that reserves though it only looks", "bucket", "reserve", making(func(b *broken) {
			b.reserve = func(l *sketchlimit.Limiter, r sketchlimit.Request) (time.Duration, error) {
				r.Peek = false
				return l.Reserve(r)
			}
		})},
		{"a Reserve below the lowest limit that is not counted", "bucket", "too low", making(func(b *broken) {
			b.reserve = func(l *sketchlimit.Limiter, r sketchlimit.Request) (time.Duration, error) {
				r.Peek = r.Peek || r.Limit > 0 && r.Limit < l.LowestLimit()
				return l.Reserve(r)
			}
		})},
		{"a panic", "fixed", "panic", answering(func(*sketchlimit.Decision) {
			if later() {
				panic("broken")
			}
		})},
		{"a limit of a request's own that is too low counts as the whole", "fixed", "over-admission", making(func(b *broken) {
			b.do = func(l *sketchlimit.Limiter, r sketchlimit.Request) sketchlimit.Decision {
				if r.Limit < 0 {
					r.Limit = 0
				}
				return l.Do(r)
			}
		})},
		{"time that begins with New", "alone", "alone", makingBy(func(b *broken, clock func() time.Time) { b.Limiter.TakeAt(clock(), "", 0) })},
		{"Stats that begin a generation", "fixed", "over-admission", makingBy(func(b *broken, clock func() time.Time) {
			b.stats = func(s sketchlimit.Stats) sketchlimit.Stats {
				b.Limiter.TakeAt(clock(), "", 0)
				return s
			}
		})},
		{"a snapshot that begins a generation", "fixed", "over-admission", makingBy(func(b *broken, clock func() time.Time) {
			b.writes = func() { b.Limiter.TakeAt(clock(), "", 0) }
		})},
		{"a Peek that begins a generation", "fixed", "over-admission", making(func(b *broken) {
			b.peekAt = func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
				l.TakeAt(now, key, 0)
				return peekAt(l, now, key, n)
			}
		})},
		{"a snapshot that forgets", "snapshot", "remaining", making(func(b *broken) { b.forgets = true })},
		{"a group that charges the first though it refuses", "group", "half-consumed", grouping(
			func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision {
				d := g.group.Do(r)
				if r.N = 1; !d.Allowed {
					g.subjects[0].Do(r)
				}
				return d
			})},
		{"a group that charges the last alone", "group", "half-consumed", grouping(
			func(g *brokenGroup, r sketchlimit.Request) (d sketchlimit.Decision) {
				for i, s := range g.subjects {
					peek := r
					peek.Peek = true
					if d = s.Do(peek); !d.Allowed {
						d.By = i
						return d
					}
				}
				d = g.subjects[len(g.subjects)-1].Do(r)
				d.By = len(g.subjects) - 1
				return d
			})},
		{"a group that tells of the wrong limiter", "group", "group", grouping(
			func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision {
				d := g.group.Do(r)
				d.By = (d.By + 1) % len(g.subjects)
				return d
			})},
		{"a group that leaves the request's limit out", "group", "over-admission", grouping(
			func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision {
				r.Limit = 0
				return g.group.Do(r)
			})},
		{"a group's Peek for another cost", "group", "group", peeking(
			func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision {
				r.N = max(r.N, 1) + 1
				return g.group.Do(r)
			})},
		{"a limiter of a group that counts each key by itself, and not all requests", "common", "half-consumed", apart()},
		{"goroutines' group counts each key by itself", "threads-common", "alone", apart()},
		{"a group that charges the others for what the common limiter refuses", "threads-common", "remaining", grouping(
			func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision {
				d := g.group.Do(r)
				if !d.Allowed && d.By > 0 {
					r.N = 1
					d.Allowed = g.subjects[0].Do(r).Allowed
				}
				return d
			})},
		{"a group that charges what is below the lowest limit", "low", "half-consumed", grouping(
			func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision {
				d := g.group.Do(r)
				if r.Limit < 0 {
					r.N, r.Limit = 1, 0
					g.subjects[0].Do(r)
				}
				return d
			})},
		{"goroutines' limit below the lowest is charged", "threads-low", "alone", making(func(b *broken) {
			b.do = func(l *sketchlimit.Limiter, r sketchlimit.Request) sketchlimit.Decision {
				d := l.Do(r)
				if r.Limit < 0 && !r.Peek {
					r.N, r.Limit = 1, 0
					l.Do(r)
				}
				return d
			}
		})},
		{"goroutines' limit below the lowest is not counted", "threads-low", "too low", making(func(b *broken) {
			b.do = func(l *sketchlimit.Limiter, r sketchlimit.Request) sketchlimit.Decision {
				r.Peek = r.Peek || r.Limit > 0 && r.Limit < l.LowestLimit()
				return l.Do(r)
			}
		})},
		{"a hold that does not fit", "budget", "over-admission", budgeting(func(b *brokenPurse) { b.room = everySo(5) })},
		{"a hold that is settled twice", "budget", "twice", budgeting(func(b *brokenPurse) { b.again = everySo(5) })},
		{"a budget's snapshot that forgets", "budget", "books", budgeting(func(b *brokenPurse) { b.forgets = true })},
		{"goroutines' hold that is settled twice", "threads-budget", "twice", budgeting(func(b *brokenPurse) { b.again = everySo(50) })},
		{"an edit that makes new rules", "edits", "over-admission", ruling(true, false)},
		{"rules that restore nothing", "edits", "over-admission", ruling(false, true)},
		{"an edit that makes new rules while goroutines ask", "threads-edits", "over-admission", ruling(true, false)},
		{"a window that opens again when the clock steps back", "threads-clock", "over-admission", reopening()},
		{"a default clock that is ahead", "threads-wall", "over-admission", ahead()},
		{"a goroutine for each limiter", "many", "goroutines", making(func(*broken) {
			go time.Sleep(time.Second)
		})},
		{"limiters that somebody keeps", "many", "kept", keeping()},
		{"a clock that is late after a freeze", "process", "frozen", childOf("-late")},
		{"limiters that are busy though nobody asks", "process", "busy", childOf("-busy")},
		{"a share that does not hear the others", "threads-share", "remaining", sharingBy(func(s sharing) sharing { return deaf{s} })},
		{"a share that loses cells", "share", "remaining", sharingBy(func(s sharing) sharing { return lossy{s, everySo(3)} })},
		{"a bucket that holds one less", "alone", "bucket short", smaller(func(c *sketchlimit.Config) {
			if c.Burst > 1 {
				c.Burst--
			}
		})},
		{"a window that holds one less", "alone", "alone", smaller(func(c *sketchlimit.Config) {
			if c.Limit > 1 && c.Algorithm != sketchlimit.TokenBucket {
				c.Limit--
			}
		})},
		{"check and count are two steps", "threads", "over-admission", taking(func(l *sketchlimit.Limiter, now time.Time, key string, n int) sketchlimit.Decision {
			d := peekAt(l, now, key, n)
			runtime.Gosched()
			if d.Allowed {
				l.TakeAt(now, key, n)
			}
			return d
		})},
		{"goroutines' group charges the first though it refuses", "threads-group", "alone", grouping(
			func(g *brokenGroup, r sketchlimit.Request) sketchlimit.Decision {
				d := g.group.Do(r)
				if r.N = 1; !d.Allowed {
					g.subjects[0].Do(r)
				}
				return d
			})},
		{"a New that leaves MaxMemoryBytes out", "forged", "size", smaller(func(c *sketchlimit.Config) { c.MaxMemoryBytes = 0 })},
		{"Remaining below 0", "forged", "answer", answering(func(d *sketchlimit.Decision) { d.Remaining = min(d.Remaining, 5) - 5 })},
		{"a rate that is a tenth too high", "probe-fixed", "rate", making(func(b *broken) {
			b.stats = func(s sketchlimit.Stats) sketchlimit.Stats {
				s.FalseDenialRate *= 1.1
				return s
			}
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			if slices.Contains(sequential, c.kind) {
				testkit.OneGoroutine(t)
			}
			play := func(m maker) int {
				for seed := range uint64(60) { // until it is found
					b := bench{make: m, kinds: []string{c.kind}, seed: 1 + seed, workers: 8, episodes: 1, lanes: 1, brief: true, probeKeys: 100_000, out: io.Discard}
					b.run(t.Context())
					if found := b.tally[c.kind].rules[c.rule]; found > 0 {
						return found
					}
				}
				return 0
			}
			require.NotZero(t, play(c.make), "not found")
		})
	}
}

// TestTellsHowToRepeat holds what is printed against what it takes to find it again.
func TestTellsHowToRepeat(t *testing.T) {
	m := answering(func(d *sketchlimit.Decision) { d.Remaining++ })
	var out strings.Builder
	b := bench{make: m, kinds: []string{"sliding"}, seed: 40, episodes: 2, lanes: 1, out: &out}
	b.run(t.Context())
	text := out.String()
	require.Contains(t, text, "VIOLATION remaining: sliding, seed 40, step ")
	require.Contains(t, text, "again: go run -C stress ./adversary -kind sliding -seed 41 -episodes 1")
	require.Contains(t, text, "Plan {Shards:")
	require.Contains(t, text, "  1 operations show it: ")
	require.Contains(t, text, "\nsliding: remaining: ")

	var again strings.Builder
	c := bench{make: m, kinds: []string{"sliding"}, seed: 41, episodes: 1, lanes: 1, out: &again}
	c.run(t.Context())
	_, first, _ := strings.Cut(again.String(), "VIOLATION")
	first, _, _ = strings.Cut(first, "\nVIOLATION")
	require.Contains(t, text, first)
	require.Equal(t, 2, b.tally["sliding"].reported["remaining"])
}

// TestAnEpisodeRepeats plays the same seed twice, and by its operations alone.
func TestAnEpisodeRepeats(t *testing.T) {
	for _, kind := range sequential {
		if strings.HasSuffix(kind, "grow") {
			continue // is replaced in the background
		}
		play := func() (ops []op, answers []bool) {
			r := newRand(7)
			w, err := newWorld(draw(r, kind), real)
			require.NoError(t, err)
			defer w.close()
			g := newGenerator(r, w)
			for range 500 {
				o := g.next()
				w.run(o)
				ops, answers = append(ops, o), append(answers, w.last.denied)
			}
			return ops, answers
		}
		ops, answers := play()
		again, same := play()
		require.Equal(t, ops, again, kind)
		require.Equal(t, answers, same, kind)
		require.True(t, slices.Contains(answers, true) && slices.Contains(answers, false), kind)
	}
}

// TestATrialRepeats plays the same seed of kinds with operations of their own twice.
func TestATrialRepeats(t *testing.T) {
	for _, kind := range []string{"budget", "edits"} {
		play := func() []string {
			b := bench{make: real, kinds: []string{kind}, out: io.Discard, tally: map[string]*tally{kind: {rules: map[string]int{}, reported: map[string]int{}}}}
			one := &trial{Rand: newRand(7), b: &b, kind: kind, seed: 7, found: map[string]bool{}}
			trials[kind](one)
			require.NotZero(t, one.steps)
			return one.log
		}
		require.Equal(t, play(), play(), kind)
	}
}

func TestChoose(t *testing.T) {
	var b bench
	require.NoError(t, b.choose(""))
	require.Equal(t, allKinds(), b.kinds)
	require.EqualError(t, b.choose("sliding,oval"), "-kind oval, must be of "+strings.Join(allKinds(), ", "))
}

// TestAlarmIsAViolation writes what a limiter logs whose own audit finds a unit too many.
func TestAlarmIsAViolation(t *testing.T) {
	var out bytes.Buffer
	b := bench{out: &out, tally: map[string]*tally{}}
	b.plays("sliding", 7)
	logger := slog.New(alarms{&b})
	logger.Warn("the limiter is outside its plan")
	require.Zero(t, b.violations())
	logger.Error("more was admitted than the limit allows", "limit", 5, "units", 3)
	require.Equal(t, 1, b.violations())
	require.Contains(t, out.String(), `limit=5 units=3`)
	require.Contains(t, out.String(), `-kind sliding -seed 7`)
}
