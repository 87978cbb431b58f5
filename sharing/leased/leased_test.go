package leased

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// history is what all machines have admitted.
type history struct {
	windows
	mu    sync.Mutex
	units map[uint64][]unit
}

type unit struct {
	time int64
	n    int
}

func (h *history) add(key uint64, now int64, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.units == nil {
		h.units = map[uint64][]unit{}
	}
	h.units[key] = append(h.units[key], unit{now, n})
}

// over returns by how many units all keys together exceed what the exact algorithm
// admits of each, and how many units were admitted.
func (h *history) over(limit int) (over, sum int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, units := range h.units {
		sort.SliceStable(units, func(i, j int) bool { return units[i].time < units[j].time })
		var c count
		for _, u := range units {
			c.decide(&h.windows, u.time, u.n, 1<<30, false)
			over = max(over, c.used(&h.windows, u.time)-limit)
			sum += u.n
		}
	}
	return over, sum
}

// clock is the time of a machine, which may be off.
type clock struct{ base, off *atomic.Int64 }

func (c clock) now() time.Time { return time.Unix(1_700_000_000, c.base.Load()+c.off.Load()) }

// cuttable is an engine that may be cut off.
type cuttable struct {
	sharing.Engine
	away atomic.Bool
}

var errAway = errors.New("away")

func (c *cuttable) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	if !c.away.Load() {
		return c.Engine.Append(ctx, entries)
	}
	results := make([]sharing.Result, len(entries))
	for i := range results {
		results[i].Err = errAway
	}
	return results
}

func (c *cuttable) Read(ctx context.Context, from []sharing.Cursor, wait time.Duration) ([]sharing.Record, error) {
	if c.away.Load() {
		return nil, errAway
	}
	records, err := c.Engine.Read(ctx, from, min(wait, 20*time.Millisecond))
	if c.away.Load() {
		return nil, errAway
	}
	return records, err
}

// world is some machines in one process.
type world struct {
	t       testing.TB
	memory  *sharingtest.Memory
	config  sketchlimit.Config
	options Options
	base    atomic.Int64
	history history
	all     []*machine
	prepare func(*machine) // nil: nothing
}

type machine struct {
	*Limiter
	engine *cuttable
	faulty *sharingtest.Faulty
	off    *atomic.Int64
}

func newWorld(t testing.TB, c sketchlimit.Config, o Options) *world {
	c.Seed = 5
	w := &world{t: t, memory: &sharingtest.Memory{}, config: c, options: o}
	w.history.windows = windows{int64(c.Window), c.Algorithm == sketchlimit.SlidingWindow}
	t.Cleanup(func() {
		for _, m := range w.all {
			m.Leave()
		}
	})
	return w
}

// start starts a machine in a place, over again if there is one.
func (w *world) start(i int) *machine {
	faulty := &sharingtest.Faulty{Engine: w.memory}
	m := &machine{engine: &cuttable{Engine: faulty}, faulty: faulty, off: &atomic.Int64{}}
	if i < len(w.all) {
		m.off = w.all[i].off
	}
	c := w.config
	c.Clock = clock{&w.base, m.off}.now
	o := w.options
	o.Log = slog.New(slog.DiscardHandler)
	l, err := New(m.engine, c, o, "the memory")
	require.NoError(w.t, err)
	l.observe = w.history.add
	m.Limiter = l
	if w.prepare != nil {
		w.prepare(m)
	}
	if i < len(w.all) {
		w.all[i] = m
	} else {
		w.all = append(w.all, m)
	}
	return m
}

// advance lets time pass, in steps in which machines may write and read.
func (w *world) advance(d time.Duration) {
	w.base.Add(int64(d))
	for _, m := range w.all {
		m.settle(w.t)
	}
}

// settle waits until the machine has nothing to write, and has read all.
func (m *machine) settle(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m.node.sweep()
	for again := true; again && ctx.Err() == nil; {
		again, _ = m.node.write(ctx)
		m.node.readAll(ctx)
	}
}

// open waits until a new log grants claims.
func (w *world) open() {
	for i := 0; i < 100 && w.all[0].now() < w.all[0].node.closed.Load(); i++ {
		w.advance(w.options.Lease / 4)
	}
	w.advance(0)
	w.advance(0)
}

func TestLeased_ShareThenClaims(t *testing.T) {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.FixedWindow, sketchlimit.SlidingWindow} {
		w := newWorld(t, sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 1000, Algorithm: algorithm},
			Options{Machines: 4, Lease: 10 * time.Second, Wait: 2 * time.Second})
		for i := range 4 {
			w.start(i)
		}
		admitted := 0
		for range 30 {
			if w.all[0].Allow("a") {
				admitted++
			}
		}
		require.Equal(t, 25, admitted, "a new log grants no more than shares")
		w.open()
		require.Equal(t, 4, w.all[0].Stats().Members)
		admitted = 0
		for range 200 {
			if w.all[1].Allow("b") {
				admitted++
			}
		}
		require.Equal(t, 100, admitted, "one machine gets all")
		require.False(t, w.all[2].Allow("b"))
		require.Less(t, w.all[1].Stats().Waited, uint64(20))
		over, _ := w.history.over(100)
		require.Zero(t, over)
	}
}

// While the engine is away, keys claim again and again. The queue of claims keeps its
// size.
func TestLeased_QueueIsBounded(t *testing.T) {
	w := newWorld(t, sketchlimit.Config{Limit: 8, Window: time.Minute, Keys: 1000},
		Options{Machines: 4, Lease: time.Hour, Wait: -1, Timeout: time.Millisecond, Entries: 20})
	m := w.start(0)
	w.open()
	m.engine.away.Store(true)
	for range 100 {
		for key := range 200 {
			m.Take(fmt.Sprint(key), 1)
		}
	}
	m.node.wants.Lock()
	queued := len(m.node.wants.ops)
	m.node.wants.Unlock()
	require.LessOrEqual(t, queued, 20)
	require.Positive(t, m.Stats().Refused)
}

// hostile makes trouble for some machines, and returns by how many units they exceed the
// limit. Prepare is called with each machine.
func hostile(t testing.TB, seed uint64, machines, limit int, algorithm sketchlimit.Algorithm, d time.Duration, prepare func(*machine)) int {
	r := rand.New(rand.NewPCG(seed, 1))
	const window = time.Minute
	w := newWorld(t, sketchlimit.Config{Limit: limit, Window: window, Keys: 1000, Algorithm: algorithm},
		Options{Machines: machines, Lease: 20 * time.Second, Wait: time.Millisecond, Timeout: 100 * time.Millisecond, Entries: 100})
	w.prepare = prepare
	for i := range machines {
		w.start(i)
	}
	w.open()
	end, rounds, restarts, cuts := time.Now().Add(d), 0, 0, 0
	for rounds < 20 || time.Now().Before(end) {
		rounds++
		for i := range w.all {
			m := w.all[i]
			switch r.IntN(60) {
			case 0:
				m.Leave()
				w.start(i)
				restarts++
			case 1, 2:
				m.engine.away.Store(true)
				cuts++
			case 3, 4, 5, 6, 7:
				m.engine.away.Store(false)
			case 8:
				m.off.Add(r.Int64N(int64(20*time.Second)) - int64(10*time.Second))
			case 9:
				m.off.Store(0)
			case 10, 11:
				faults := rand.New(rand.NewPCG(r.Uint64(), 3))
				m.faulty.Set(func(int) sharingtest.Fault {
					return max(0, sharingtest.Fault(faults.IntN(12))-6)
				})
			case 12, 13:
				m.faulty.Set(nil)
			case 14:
				m.Close()
				w.start(i)
			}
		}
		var all sync.WaitGroup
		for _, m := range w.all {
			seed := r.Uint64()
			if r.IntN(10) == 0 {
				continue // it is frozen
			}
			all.Go(func() {
				r := rand.New(rand.NewPCG(seed, 2))
				for range 1 + r.IntN(min(limit, 12)) {
					m.Take(fmt.Sprint("k", int(r.ExpFloat64()*5)), 1+r.IntN(1+min(3, limit/4)))
				}
			})
		}
		all.Wait()
		w.base.Add(r.Int64N(int64(8 * time.Second)))
	}
	over, sum := w.history.over(limit)
	s := Stats{}
	for _, m := range w.all {
		o := m.Stats()
		s.Resets, s.Restarts, s.Members = max(s.Resets, o.Resets), max(s.Restarts, o.Restarts), max(s.Members, o.Members)
		s.Local, s.Waited, s.Granted, s.Starved = s.Local+o.Local, s.Waited+o.Waited, s.Granted+o.Granted, s.Starved+o.Starved
	}
	t.Logf("%d machines, limit %d, %v: %d rounds, %d restarts, %d cuts: %d units admitted, %d over; %+v", machines, limit, algorithm, rounds, restarts, cuts, sum, over, s)
	require.Greater(t, sum, limit)
	return over
}

var long = flag.Duration("hostile", 0, "how long TestLeased_Hostile lasts")

func TestLeased_Hostile(t *testing.T) {
	d := 300 * time.Millisecond
	all := []struct{ machines, limit int }{{2, 10}, {3, 4}, {5, 20}, {16, 100}, {64, 200}}
	for round := 0; round == 0 || d*time.Duration(2*len(all)*round) < *long; round++ {
		for i, c := range all {
			for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.FixedWindow, sketchlimit.SlidingWindow} {
				require.LessOrEqual(t, hostile(t, uint64(round*len(all)+i), c.machines, c.limit, algorithm, max(d, *long/40), nil), 0)
			}
		}
		if *long > 0 {
			d = *long / 40
		}
	}
}

// A machine that decides by the whole limit, and not by its share, is found.
func TestLeased_HostileFindsFlaw(t *testing.T) {
	over := hostile(t, 1, 4, 20, sketchlimit.FixedWindow, 300*time.Millisecond, func(m *machine) {
		var err error
		m.local, err = sketchlimit.New(sketchlimit.Config{Limit: 20, Window: time.Minute, Keys: 1000, Algorithm: sketchlimit.FixedWindow, Clock: m.config.Clock})
		require.NoError(t, err)
	})
	require.Positive(t, over)
}
