package leased

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// BenchmarkForms replays traffic to machines that share a limit, in steps of a
// millisecond, which is also the round trip. It measures what share of the decisions is
// local, how many units fewer than the exact algorithm each key gets, and the bytes.
func BenchmarkForms(b *testing.B) {
	if testing.Short() {
		b.Skip("it takes an hour: make bench-leased")
	}
	for _, traffic := range []traffic{zipf("Zipf", 0), zipf("Zipf, abusers", 0.01), nasa(b)} {
		for _, sticky := range []float64{0, 0.9} {
			for _, limit := range []int{10, 100, 1000} {
				for _, machines := range []int{4, 16, 64} {
					s := &scene{traffic: traffic, sticky: sticky, machines: machines, limit: limit, window: time.Minute}
					b.Run(fmt.Sprintf("%s/sticky=%v/limit=%d/machines=%d", traffic.name, sticky, limit, machines), func(b *testing.B) {
						for range b.N {
							for _, f := range []form{newLeasedForm(b, s, false), newLeasedForm(b, s, true), &rounds{scene: s}, &exchanged{scene: s}} {
								fmt.Println(s.row(s.run(f)))
							}
						}
						b.ReportMetric(0, "ns/op")
					})
				}
			}
		}
	}
}

// traffic is requests in the order of their times, ms.
type traffic struct {
	name string
	ms   []int32
	keys []uint32
}

// zipf returns 100,000 requests in a minute, twice, of 20,000 keys by Zipf's law with
// 0.8. Of a part of the keys each sends 300 a minute.
func zipf(name string, abusers float64) traffic {
	const keys, perMinute = 20_000, 100_000
	r := rand.New(rand.NewPCG(1, 2))
	sum := make([]float64, keys)
	total := 0.0
	for i := range sum {
		total += math.Pow(float64(i+1), -0.8)
		sum[i] = total
	}
	bad := int(abusers * 2_000)
	n := 2 * (perMinute + 300*bad)
	t := traffic{name, make([]int32, n), make([]uint32, n)}
	share := float64(300*bad) / float64(perMinute+300*bad)
	for i := range n {
		t.ms[i] = int32(float64(i) / float64(n) * 120_000)
		if r.Float64() < share {
			t.keys[i] = uint32(keys + r.IntN(bad))
			continue
		}
		x, lo, hi := r.Float64()*total, 0, keys-1
		for lo < hi {
			if mid := (lo + hi) / 2; sum[mid] < x {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		t.keys[i] = uint32(lo)
	}
	return t
}

// nasa returns a recorded day, an hour of it in a minute: its clients meet their limits.
func nasa(b testing.TB) traffic {
	file, err := os.Open("../../tune/testdata/nasa_19950801.tsv.gz")
	require.NoError(b, err)
	defer file.Close()
	text, err := gzip.NewReader(file)
	require.NoError(b, err)
	t, names, first := traffic{name: "nasa"}, map[string]uint32{}, 0
	for lines := bufio.NewScanner(text); lines.Scan(); {
		at, name, _ := strings.Cut(lines.Text(), "\t")
		seconds, err := strconv.Atoi(at)
		require.NoError(b, err)
		if first == 0 {
			first = seconds
		}
		if names[name] == 0 {
			names[name] = uint32(len(names) + 1)
		}
		t.ms, t.keys = append(t.ms, int32((seconds-first)*1000/60)), append(t.keys, names[name])
	}
	return t
}

// scene is what a form is measured in.
type scene struct {
	traffic
	sticky          float64 // share of the requests of a key that come to the same machine
	machines, limit int
	window          time.Duration
	fixed           bool // windows, in which nothing is rounded
}

// form is a way to share a limit.
type form interface {
	name() string
	// ask reports whether a request is admitted, and whether it waits for others: then it
	// comes again a millisecond later, for 100 ms at most.
	ask(machine int, key uint32, ms int64, waited, last bool) (admitted, waits bool)
	step(ms int64) // another millisecond
	bytes() uint64 // sent by all machines
}

type figures struct {
	form                                  string
	asked, local, waited, withheld, above int
	bytes                                 uint64
}

func (s *scene) row(f figures) string {
	ppm := func(n int) float64 { return float64(n) / float64(f.asked) * 1e6 }
	return fmt.Sprintf("| %s | %s | %.0f %% | %d | %d | %.2f %% | %.0f | %.0f | %.1f |", f.form, s.traffic.name, 100*s.sticky, s.limit, s.machines,
		100*float64(f.local)/float64(f.asked), ppm(f.withheld), ppm(f.above), float64(f.bytes)/float64(f.asked))
}

type waiting struct {
	machine int
	key     uint32
	since   int64
}

// run replays the traffic; the first half warms up.
func (s *scene) run(f form) (sum figures) {
	r := rand.New(rand.NewPCG(9, 9))
	seed := maphash.MakeSeed()
	type tally struct {
		joint, exact count
		units        int // that the exact algorithm admits and the form does not
	}
	keys, w := map[uint32]*tally{}, windows{int64(s.window), !s.fixed}
	sum.form = f.name()
	var queue []waiting
	warm, before := len(s.ms)/2, uint64(0)
	done := func(i int, key uint32, ms int64, admitted, waited bool) {
		c := keys[key]
		if c == nil {
			c = &tally{}
			keys[key] = c
		}
		now := ms * int64(time.Millisecond)
		above := c.joint.used(&w, now) >= s.limit && admitted
		exact := c.exact.decide(&w, now, 1, s.limit, false).Allowed
		if admitted {
			c.joint.current++
		}
		if i < warm {
			return
		}
		sum.asked++
		switch {
		case waited:
			sum.waited++
		default:
			sum.local++
		}
		if above {
			sum.above++
		}
		if exact {
			c.units++
		}
		if admitted {
			c.units--
		}
	}
	next := 0
	for ms := int64(0); next < len(s.ms); ms++ {
		f.step(ms)
		rest := queue[:0]
		for _, q := range queue {
			last := ms-q.since >= 100
			if admitted, waits := f.ask(q.machine, q.key, ms, true, last); waits && !last {
				rest = append(rest, q)
			} else {
				done(next, q.key, ms, admitted, true)
			}
		}
		queue = rest
		for ; next < len(s.ms) && int64(s.ms[next]) <= ms; next++ {
			if next == warm {
				before = f.bytes()
			}
			key := s.keys[next]
			machine := r.IntN(s.machines)
			if r.Float64() < s.sticky {
				machine = int(maphash.Comparable(seed, key) % uint64(s.machines))
			}
			if admitted, waits := f.ask(machine, key, ms, false, false); waits {
				queue = append(queue, waiting{machine, key, ms})
			} else {
				done(next, key, ms, admitted, false)
			}
		}
	}
	for _, c := range keys {
		sum.withheld += max(0, c.units)
	}
	sum.bytes = f.bytes() - before
	return sum
}

// leasedForm is Leased, or the form in which nobody has a share before a claim.
type leasedForm struct {
	*scene
	label string
	w     *world
	ms    int64
	last  uint64
}

func newLeasedForm(b testing.TB, s *scene, claimsOnly bool) form {
	c := sketchlimit.Config{Limit: s.limit, Window: s.window, Keys: 25_000}
	if s.fixed {
		c.Algorithm = sketchlimit.FixedWindow
	}
	f := &leasedForm{scene: s, label: "shares and claims"}
	if claimsOnly {
		c.LowestLimit, f.label = 1, "claims"
	}
	entries := 25_000
	if s.machines == 64 {
		entries = 10_000
	}
	c.Seed = 5
	f.w = newWorld(b, c, Options{})
	f.w.memory = &sharingtest.Memory{}
	for range s.machines {
		c := c
		off := int64(0)
		c.Clock = func() time.Time { return time.Unix(1_700_000_040, f.ms*int64(time.Millisecond)+off) }
		l, err := New(f.w.memory, c, Options{Machines: s.machines, Entries: entries, Log: slog.New(slog.DiscardHandler)}, "the memory")
		require.NoError(b, err)
		l.node.stop()
		l.node.done.Wait()
		l.timer = func() int64 { return f.ms * int64(time.Millisecond) }
		f.w.all = append(f.w.all, &machine{Limiter: l})
	}
	for range 8 { // until claims are granted
		f.ms += 30_000
		for range 2 {
			for _, m := range f.w.all {
				m.settle(b)
			}
		}
	}
	f.ms-- // the first step is at a window's beginning
	return f
}

func (f *leasedForm) name() string { return f.label }

func (f *leasedForm) ask(machine int, key uint32, _ int64, waited, last bool) (bool, bool) {
	l := f.w.all[machine].Limiter
	q := request{Request: sketchlimit.Request{}, n: 1, limit: f.limit, last: last, hash: uint64(key)*0x9e3779b97f4a7c15 + 1}
	d, wait, _ := l.decide(&q, waited)
	return d.Allowed, wait != nil
}

func (f *leasedForm) step(int64) {
	f.ms++
	for _, m := range f.w.all {
		if f.ms%1000 == 0 {
			m.node.sweep()
		}
		m.node.wants.Lock()
		busy := len(m.node.wants.ops) > 0
		m.node.wants.Unlock()
		if busy || len(m.node.returns) > 0 || f.ms%1000 == 0 {
			for again := true; again; {
				again, _ = m.node.write(f.w.t.Context())
			}
		}
	}
	if records := f.w.written(); records != f.last {
		f.last = records
		for _, m := range f.w.all {
			m.node.readAll(f.w.t.Context())
		}
	}
}

// written returns the bytes that all machines have sent.
func (w *world) written() (n uint64) {
	for _, m := range w.all {
		n += m.node.stats.Sent
	}
	return n
}

func (f *leasedForm) bytes() uint64 { return f.w.written() }

// rounds is the form of allowances: every 100 ms each machine gets an equal part of half
// of what is left, of which half is its reserve, and the rest is a pool behind a round
// trip. It counts exactly.
type rounds struct {
	*scene
	keys map[uint32]*allowance
	sent uint64
}

type allowance struct {
	count
	round int64
	each  int
	pool  int
	own   map[int]int
}

func (r *rounds) name() string { return "rounds" }

func (r *rounds) ask(machine int, key uint32, ms int64, waited, last bool) (bool, bool) {
	if r.keys == nil {
		r.keys = map[uint32]*allowance{}
	}
	a := r.keys[key]
	if a == nil {
		a = &allowance{round: -1}
		r.keys[key] = a
	}
	w, now := &windows{int64(r.window), !r.fixed}, ms*int64(time.Millisecond)
	used := a.used(w, now)
	if a.round != ms/100 {
		left := r.limit - used
		a.round, a.each, a.own = ms/100, left/(2*r.machines), map[int]int{}
		a.pool = left - 2*a.each*r.machines // a reserve of the same for each machine
	}
	switch {
	case a.own[machine] < a.each:
		if a.own[machine]++; a.own[machine] == 1 {
			r.sent += 12 // that the count has risen
		}
		a.current++
		return true, false
	case a.pool == 0 && a.each == 0:
		return false, false
	case a.pool > 0 && waited:
		a.pool--
		a.current++
		r.sent += 24
		return true, false
	}
	return false, !last
}

func (r *rounds) step(int64)    {}
func (r *rounds) bytes() uint64 { return r.sent }

// exchanged is Synced with exact counts: decisions by what was known at the latest
// exchange, and by the machine's own.
type exchanged struct {
	*scene
	keys map[uint32]*exchange
	sent uint64
}

type exchange struct {
	count
	round int64
	known int
	own   map[int]int
}

func (e *exchanged) name() string { return "Synced" }

func (e *exchanged) ask(machine int, key uint32, ms int64, _, _ bool) (bool, bool) {
	if e.keys == nil {
		e.keys = map[uint32]*exchange{}
	}
	a := e.keys[key]
	if a == nil {
		a = &exchange{round: -1}
		e.keys[key] = a
	}
	w, now := &windows{int64(e.window), !e.fixed}, ms*int64(time.Millisecond)
	if used := a.used(w, now); a.round != ms/100 {
		a.round, a.known, a.own = ms/100, used, map[int]int{}
	}
	if a.known+a.own[machine] >= e.limit {
		return false, false
	}
	if a.own[machine]++; a.own[machine] == 1 {
		e.sent += 12
	}
	a.current++
	return true, false
}

func (e *exchanged) step(int64)    {}
func (e *exchanged) bytes() uint64 { return e.sent }
