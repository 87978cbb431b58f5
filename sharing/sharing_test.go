package sharing_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// memory returns a server in memory, whose clients meet faults.
func memory(fault func(n int) sharingtest.Fault) sharingtest.Server {
	m := &sharingtest.Memory{}
	return sharingtest.Server{Wipe: m.Wipe, Patience: 3 * time.Second, Open: func() (sharing.Engine, error) {
		f := &sharingtest.Faulty{Engine: m}
		f.Set(fault)
		return f, nil
	}}
}

func TestMemory(t *testing.T) {
	require.NoError(t, sharingtest.Check(memory(nil)))
}

// TestCheckCatches: engines that break their promise now and then do not pass.
func TestCheckCatches(t *testing.T) {
	for _, c := range []struct {
		fault sharingtest.Fault
		want  string
	}{
		{sharingtest.Forget, "keeps each entry once: "},
		{sharingtest.Repeat, "keeps each entry once: "},
		{sharingtest.Refuse, "order: append: "},
		{sharingtest.Delay, "order: append: "},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			err := sharingtest.Check(memory(func(n int) sharingtest.Fault {
				if n%20 == 19 {
					return c.fault
				}
				return sharingtest.None
			}))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// counting counts calls of an engine.
type counting struct {
	sharing.Engine
	appends, reads, trims atomic.Int64
}

func (c *counting) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	c.appends.Add(1)
	return c.Engine.Append(ctx, entries)
}

func (c *counting) Read(ctx context.Context, from []sharing.Cursor, wait time.Duration) ([]sharing.Record, error) {
	c.reads.Add(1)
	return c.Engine.Read(ctx, from, wait)
}

func (c *counting) Trim(ctx context.Context, log string, upTo sharing.Place) error {
	c.trims.Add(1)
	return c.Engine.Trim(ctx, log, upTo)
}

func (c *counting) calls() int64 { return c.appends.Load() + c.reads.Load() + c.trims.Load() }

// join lets so many limiters share their limits in logs of their own, through one hub.
func join(t *testing.T, hub *sharing.Hub, limiters, limit int) (all []*sketchlimit.Limiter, nodes []*sharing.Node) {
	return joinWith(t, hub, limiters, limit, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
}

// joinWith is join with a function that is given the result of each exchange.
func joinWith(t *testing.T, hub *sharing.Hub, limiters, limit int, report func(error)) (all []*sketchlimit.Limiter, nodes []*sharing.Node) {
	for i := range limiters {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: time.Hour, Keys: 1000, Seed: 1})
		require.NoError(t, err)
		share, err := l.Share()
		require.NoError(t, err)
		n, err := hub.Join(t.Context(), share, sharing.Config{Log: fmt.Sprint(i), Interval: 100 * time.Millisecond,
			Timeout: time.Second, Window: time.Hour, Report: report})
		require.NoError(t, err)
		t.Cleanup(func() { n.Leave(); l.Close() })
		all, nodes = append(all, l), append(nodes, n)
	}
	return all, nodes
}

// TestIdleCostsNothing: limiters that nobody asks cost two calls a second at most,
// however many they are; and ten that are busy no more than one that appends and one
// that reads in each interval.
func TestIdleCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &counting{Engine: &sharingtest.Memory{}}
		hub := sharing.NewHub(engine)
		other := sharing.NewHub(engine.Engine)
		all, _ := join(t, hub, 10, 1<<20)
		others, _ := join(t, other, 10, 1<<20)
		time.Sleep(5 * time.Second)
		before := engine.calls()
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, engine.calls()-before, int64(2*10))
		require.Positive(t, engine.calls()-before)

		appends, reads := engine.appends.Load(), engine.reads.Load()
		for range 10_000 {
			time.Sleep(time.Millisecond)
			all[rand.IntN(10)].Allow("k")
			others[rand.IntN(10)].Allow("k")
		}
		require.LessOrEqual(t, engine.appends.Load()-appends, int64(110))
		require.LessOrEqual(t, engine.reads.Load()-reads, int64(110))
		require.Greater(t, engine.appends.Load()-appends, int64(90))
		require.Greater(t, engine.reads.Load()-reads, int64(90))
	})
}

// silent is an engine that does not answer from a time on, and heeds no context.
type silent struct {
	sharing.Engine
	since   atomic.Bool
	answers chan struct{} // closed in the end
}

func (s *silent) wait() {
	if s.since.Load() {
		<-s.answers
	}
}

func (s *silent) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	s.wait()
	return s.Engine.Append(ctx, entries)
}

func (s *silent) Read(ctx context.Context, from []sharing.Cursor, wait time.Duration) ([]sharing.Record, error) {
	s.wait()
	return s.Engine.Read(ctx, from, wait)
}

// TestSilentServer: a server that answers nobody is away for each of many nodes after
// three timeouts, whether they have joined before or not; and the nodes that wait for it
// do not wait for each other.
func TestSilentServer(t *testing.T) {
	for _, joined := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			engine := &silent{Engine: &sharingtest.Memory{}, answers: make(chan struct{})}
			engine.since.Store(!joined)
			hub := sharing.NewHub(engine)
			const nodes, timeout = 20, time.Second
			var failures [nodes]atomic.Int64
			var all []*sharing.Node
			for i := range nodes {
				l, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Hour, Keys: 100, Seed: 1})
				require.NoError(t, err)
				share, err := l.Share()
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				n, err := hub.Join(ctx, share, sharing.Config{Log: fmt.Sprint(i), Interval: 100 * time.Millisecond, Timeout: timeout,
					Window: time.Hour, Report: func(err error) {
						if err != nil {
							failures[i].Add(1)
						}
					}})
				cancel()
				require.NoError(t, err)
				all = append(all, n)
			}
			time.Sleep(5 * time.Second)
			engine.since.Store(true)
			for i := range failures {
				require.Equal(t, joined, failures[i].Load() == 0)
				failures[i].Store(0)
			}
			time.Sleep(3 * (2*time.Second + 2*timeout)) // a reading may wait for two seconds before the timeout begins
			for i := range failures {
				require.GreaterOrEqual(t, failures[i].Load(), int64(3), "node %d", i)
			}
			close(engine.answers)
			for _, n := range all {
				n.Leave()
			}
		})
	}
}

// TestTwoIntervals: what one node admits another one knows two intervals later, also
// after both have been idle.
func TestTwoIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &sharingtest.Memory{}
		a, _ := join(t, sharing.NewHub(m), 3, 1000)
		b, _ := join(t, sharing.NewHub(m), 3, 1000)
		used := 0
		for range 50 {
			time.Sleep(time.Duration(rand.Int64N(int64(3 * time.Second))))
			require.True(t, a[1].AllowN("k", 3))
			used += 3
			time.Sleep(201 * time.Millisecond)
			require.Equal(t, 1000-used, b[1].Peek("k").Remaining)
		}
	})
}

// TestNoMoreThanTheBound: of one key that all nodes are offered all the time, all admit
// at most what Synced promises.
func TestNoMoreThanTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, limit, rate = 4, 100, 100
		m := &sharingtest.Memory{}
		var admitted atomic.Int64
		var all sync.WaitGroup
		for range nodes {
			l, _ := join(t, sharing.NewHub(m), 1, limit)
			all.Go(func() {
				for range 10 * rate {
					time.Sleep(time.Second / rate)
					if l[0].Allow("k") {
						admitted.Add(1)
					}
				}
			})
		}
		all.Wait()
		require.GreaterOrEqual(t, admitted.Load(), int64(limit))
		require.LessOrEqual(t, admitted.Load(), int64(limit+(nodes-1)*rate/5))
	})
}

// stuck is an engine whose next calls of a kind never return, and heed no context.
type stuck struct {
	sharing.Engine
	appends, trims atomic.Int64 // to come that hang
	hanging        atomic.Int64
	most           atomic.Int64 // that hung at once
	release        chan struct{}
}

func (s *stuck) hang(left *atomic.Int64) {
	if left.Add(-1) < 0 {
		return
	}
	s.most.Store(max(s.most.Load(), s.hanging.Add(1)))
	<-s.release
	s.hanging.Add(-1)
}

func (s *stuck) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	s.hang(&s.appends)
	return s.Engine.Append(ctx, entries)
}

func (s *stuck) Trim(ctx context.Context, log string, upTo sharing.Place) error {
	s.hang(&s.trims)
	return s.Engine.Trim(ctx, log, upTo)
}

// TestCallThatHangs: a call that never returns is given up. What it was to append is
// appended by the next one, and counts once when the first returns after all.
func TestCallThatHangs(t *testing.T) {
	for _, c := range []struct {
		name           string
		appends, trims int64
	}{{"append", 1, 0}, {"appends", 3, 0}, {"trim", 0, 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &sharingtest.Memory{}
				engine := &stuck{Engine: m, release: make(chan struct{})}
				open := func(e sharing.Engine) (*sketchlimit.Limiter, *sharing.Node) {
					l, err := sketchlimit.New(sketchlimit.Config{Limit: 1 << 20, Window: time.Hour, Keys: 1000, Seed: 1})
					require.NoError(t, err)
					share, err := l.Share()
					require.NoError(t, err)
					n, err := sharing.NewHub(e).Join(t.Context(), share, sharing.Config{Log: "log", Interval: 100 * time.Millisecond,
						Timeout: time.Second, Window: time.Hour, LogBytes: 1 << 10, Report: func(error) {}})
					require.NoError(t, err)
					t.Cleanup(func() { n.Leave(); l.Close() })
					return l, n
				}
				a, _ := open(engine)
				b, _ := open(m)
				time.Sleep(3 * time.Second)
				engine.appends.Store(c.appends)
				engine.trims.Store(c.trims)
				used := 0
				for engine.hanging.Load() < c.appends+c.trims {
					for i := range 500 { // which make the log long
						a.Allow(fmt.Sprint("other", used, i))
					}
					require.True(t, a.AllowN("k", 3))
					used += 3
					time.Sleep(200 * time.Millisecond)
				}
				require.True(t, a.AllowN("k", 5))
				used += 5
				know := func() bool { return 1<<20-b.Peek("k").Remaining >= used }
				for range 100 {
					time.Sleep(100 * time.Millisecond)
				}
				require.True(t, know(), "while %d calls hang", engine.hanging.Load())
				before := b.Peek("k").Remaining
				close(engine.release)
				time.Sleep(3 * time.Second)
				require.Zero(t, engine.hanging.Load())
				require.Equal(t, before, b.Peek("k").Remaining, "counted once")
			})
		})
	}
}

// TestCallsThatHangAreFew: however long no call returns, a hub has eight at most.
func TestCallsThatHangAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &stuck{Engine: &sharingtest.Memory{}, release: make(chan struct{})}
		all, nodes := joinWith(t, sharing.NewHub(engine), 3, 1000, func(error) {})
		engine.appends.Store(1 << 40)
		for range 100 {
			time.Sleep(time.Second)
			all[0].Allow("k")
		}
		require.LessOrEqual(t, engine.most.Load(), int64(8))
		require.Greater(t, engine.most.Load(), int64(1))
		require.Greater(t, nodes[0].Stats().Failures, uint64(20), "and is told so again and again")
		engine.appends.Store(0)
		close(engine.release)
		b, _ := join(t, sharing.NewHub(engine.Engine), 1, 1000)
		time.Sleep(3 * time.Second)
		require.Equal(t, 900, b[0].Peek("k").Remaining)
	})
}

// fromBeginning counts the readings of logs from their beginning.
type fromBeginning struct {
	sharing.Engine
	n atomic.Int64
}

func (f *fromBeginning) Read(ctx context.Context, from []sharing.Cursor, wait time.Duration) ([]sharing.Record, error) {
	for _, c := range from {
		if c.After == (sharing.Place{}) {
			f.n.Add(1)
		}
	}
	return f.Engine.Read(ctx, from, wait)
}

// TestToldAgain: what the server has lost in silence is noticed by the next message of
// the node, also while others write all the time; and others go on reading where they
// are when it is told again.
func TestToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &sharingtest.Memory{}
		forgetful, other := &sharingtest.Faulty{Engine: m}, &fromBeginning{Engine: m}
		a, node := join(t, sharing.NewHub(forgetful), 1, 1<<20)
		b, _ := join(t, sharing.NewHub(other), 1, 1<<20)
		busy := func(d time.Duration) {
			for range d / (20 * time.Millisecond) {
				time.Sleep(20 * time.Millisecond)
				a[0].Allow("k")
				b[0].Allow("k")
			}
		}
		busy(3 * time.Second)
		readings := other.n.Load()
		for range 5 {
			forgetful.Set(func(n int) sharingtest.Fault {
				if n == 0 {
					return sharingtest.Forget
				}
				return sharingtest.None
			})
			lost := node[0].Stats().Lost
			busy(time.Second)
			require.Greater(t, node[0].Stats().Lost, lost)
		}
		require.Equal(t, readings, other.n.Load())
		time.Sleep(time.Second)
		require.Equal(t, a[0].Peek("k").Remaining, b[0].Peek("k").Remaining)
		require.Equal(t, 1<<20-2*8*50, b[0].Peek("k").Remaining)
	})
}

// TestLostBeforeItWasSummedUp: another node cuts the log while this one does not know yet
// that the server has lost some of its news.
func TestLostBeforeItWasSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &sharingtest.Memory{}
		deaf := &troubled{Engine: m}
		forgetful, cuts := &sharingtest.Faulty{Engine: deaf}, &counting{Engine: m}
		a, node := joinWith(t, sharing.NewHub(forgetful), 1, 1<<20, func(error) {})
		b, _ := join(t, sharing.NewHub(cuts), 1, 1<<20)
		require.True(t, a[0].AllowN("k", 3))
		time.Sleep(3 * time.Second)
		deaf.noReadings.Store(true)
		time.Sleep(3 * time.Second)
		forgetful.Set(func(int) sharingtest.Fault { return sharingtest.Forget })
		require.True(t, a[0].AllowN("k", 5000))
		time.Sleep(time.Second)
		forgetful.Set(nil)
		for cuts.trims.Load() == 0 {
			for i := range 300 {
				b[0].Allow(fmt.Sprint(i))
			}
			time.Sleep(100 * time.Millisecond)
		}
		deaf.noReadings.Store(false)
		time.Sleep(5 * time.Second)
		require.Positive(t, node[0].Stats().Lost)
		require.True(t, b[0].AllowN("k", 2))
		time.Sleep(time.Second)
		for _, l := range []*sketchlimit.Limiter{a[0], b[0]} { // which may count some units of other keys
			require.LessOrEqual(t, l.Peek("k").Remaining, 1<<20-3-5000-2)
			require.Greater(t, l.Peek("k").Remaining, 1<<20-3-5000-2-2000)
		}
	})
}

// dropping is an engine that drops an entry that comes again, by its ID.
type dropping struct {
	sharing.Engine
	mu      sync.Mutex
	kept    map[string]sharing.Result
	appends int
}

func (d *dropping) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	results := make([]sharing.Result, len(entries))
	d.appends += len(entries)
	for i, e := range entries {
		if r, ok := d.kept[e.ID]; ok {
			results[i] = r
		} else if results[i] = d.Engine.Append(ctx, []sharing.Entry{e})[0]; results[i].Err == nil {
			d.kept[e.ID] = results[i]
		}
		if d.appends > 1000 { // or it would never end
			results[i].Err = errTrouble
		}
	}
	return results
}

// noLog is an engine that finds no log at its next call.
type noLog struct {
	sharing.Engine
	next atomic.Bool
}

func (n *noLog) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	if !n.next.CompareAndSwap(true, false) {
		return n.Engine.Append(ctx, entries)
	}
	results := make([]sharing.Result, len(entries))
	for i := range results {
		results[i].Err = sharing.ErrNoLog
	}
	return results
}

// TestTwoBegin: two nodes that find no log at once both begin it. An engine that drops
// what it has already does not make them append that without end.
func TestTwoBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dropping{Engine: &sharingtest.Memory{}, kept: map[string]sharing.Result{}}
		late := &noLog{Engine: d}
		a, _ := join(t, sharing.NewHub(d), 1, 1000)
		b, _ := join(t, sharing.NewHub(late), 1, 1000)
		used := 0
		for round := range 10 {
			require.True(t, a[0].AllowN("k", 3))
			require.True(t, b[0].AllowN("k", 2))
			used += 5
			late.next.Store(round%3 == 2)
			time.Sleep(time.Second)
			for _, l := range []*sketchlimit.Limiter{a[0], b[0]} {
				require.Equal(t, 1000-used, l.Peek("k").Remaining, "round %d", round)
			}
		}
		require.Less(t, d.appends, 200)
	})
}
