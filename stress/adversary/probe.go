package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// probed are the kinds of which the rate that a limiter tells of itself is held against
// new keys: so many of them are asked about, and none counted, that the share which is
// denied must be that rate.
//
// Of tiers and costs a limiter tells it by FalseDenialRate, otherwise by Stats, for the
// mean cost.
var probed = []string{"probe-fixed", "probe-sliding", "probe-subwindows", "probe-bucket", "probe-grow", "probe-share", "probe-tiers", "probe-costs"}

const (
	probes = 400_000
	// likely is the deviation, in standard ones, beyond which a rate is wrong. The
	// rates of an hour are thousands: 4 would be passed by some that are right.
	likely = 6
	least  = 1e-4 // rates below are not probed, nor those that are almost 1
)

// state is a limiter in which new keys are denied now and then.
type state struct {
	w     *world
	n     int  // units that are asked for
	usual bool // they are the mean cost, which Stats states its rate for
	limit int  // the request's own, 0 if there is none
	rate  float64
}

// probe makes a limiter of a kind, loads it, and probes it in a state or two.
func (b *bench) probe(kind string, seed uint64) {
	r := newRand(seed)
	s := drawProbed(r, kind)
	w, err := newWorld(s, b.make)
	if err != nil {
		b.report(kind, seed, violation{rule: "setup", text: err.Error()}, &s, nil)
		return
	}
	defer func() { w.close() }()
	states := 0
	for range 3 {
		if st, ok := load(r, w); ok {
			states++
			denied, same := st.ask(b.probes(), r.Uint64())
			z := (float64(denied) - float64(b.probes())*st.rate) / math.Sqrt(float64(b.probes())*st.rate*(1-st.rate))
			if same && math.Abs(z) > b.likely() {
				rate := st.stated()
				text := fmt.Sprintf("%d of %d new keys denied %d units, the rate told is %.4g: z %.1f", denied, b.probes(), st.n, rate, z)
				if st.limit > 0 {
					text += fmt.Sprintf(", at limit %d", st.limit)
				}
				v := violation{rule: "rate", text: text}
				b.report(kind, seed, v, &s, nil)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tally[kind]
	t.episodes++
	t.steps += int64(states)
	b.total += int64(states)
}

func (b *bench) probes() int {
	if b.probeKeys > 0 {
		return b.probeKeys
	}
	return probes
}

func (b *bench) likely() float64 {
	if b.deviation > 0 {
		return b.deviation
	}
	return likely
}

func drawProbed(r *rand.Rand, kind string) setup {
	base := kind[len("probe-"):]
	s := setup{kind: kind}
	for {
		switch base {
		case "tiers", "costs":
			s = draw(r, []string{"fixed", "sliding", "subwindows", "bucket"}[r.IntN(4)])
		default:
			s = draw(r, base)
		}
		if c := s.configs[0]; c.Plan != nil == (base != "grow") && c.Hash == nil && c.Window < 1<<53 && c.Limit <= 1000 && c.Limit > 1 && c.Burst <= 1000 && s.start > 0 && s.start < 1<<61 { // beyond, rates are rounded up
			break
		}
	}
	s.kind, s.limits = kind, nil
	if base == "tiers" {
		s.drawLimits(r)
	}
	for i := range s.configs {
		setLowest(&s.configs[i], s.limits)
		if base == "grow" { // less than it would like to grow to
			s.configs[i].MemoryBytes, s.configs[i].MaxMemoryBytes, s.configs[i].AuditBytes = 8<<10, 20<<10, 0
		}
		if p := s.configs[i].Plan; p != nil && i == 0 {
			p.Width <<= r.IntN(4)
			if p.BloomBytes > 0 {
				p.BloomBytes <<= r.IntN(4)
			}
		}
		s.configs[i].Plan = s.configs[0].Plan
	}
	return s
}

// load adds keys until the limiter tells a rate that can be probed.
func load(r *rand.Rand, w *world) (st state, ok bool) {
	n := w.nodes[0]
	limit := n.config.Limit
	st = drawState(r, w)
	// A state begins in the midst of a generation.
	length := n.oracle.length
	if n.oracle.scale != nil {
		length = n.oracle.window
	}
	now := max(w.start, n.seen) + r.Int64N(2*length)
	goal := math.Pow(10, -4*r.Float64())
	cost := 1 + r.IntN(1+limit/(1+r.IntN(8)))
	key := r.IntN(1 << 16)
	// More keys at a time, the more have come without effect.
	for batch, added := 1, 0; added < 1<<16; added += batch {
		batch = 1 + added/40
		for range batch {
			key = (key + 1) % mostKeys
			w.takeAnywhere(r, now, key, cost)
		}
		if r.IntN(40) == 0 {
			now += r.Int64N(length)
		}
		w.carry(now)
		n.clock.Store(now)
		n.limiter.Take(name(0), 0) // rates are as of now, where requests have come by the clock
		n.see(now)
		st.rate = st.stated()
		if st.rate >= max(goal, least) && st.rate < 0.9999 {
			return st, true
		}
		// In a share that leaves others' cells out, new keys are denied and the rate is
		// 0.
		if st.rate < least && added > 300 && batch > 8 && w.shared && r.IntN(8) == 0 {
			if denied, _ := st.ask(1000, r.Uint64()); denied > 100 {
				st.rate = least
				return st, true
			}
		}
		if st.rate >= 0.9999 {
			now += length/2 + r.Int64N(length)
		}
	}
	return st, false
}

// drawState chooses what new keys will ask for.
func drawState(r *rand.Rand, w *world) state {
	st := state{w: w, n: 1}
	switch n := w.nodes[0]; w.kind {
	case "probe-costs":
		st.n = 1 + r.IntN(int(n.oracle.most(int64(n.config.Limit))))
	case "probe-tiers":
		st.limit = w.limits[r.IntN(len(w.limits))]
	}
	return st
}

// takeAnywhere takes up to cost units of a key, of a shared limit at the other limiters
// mostly.
func (w *world) takeAnywhere(r *rand.Rand, now int64, key, cost int) {
	to := w.nodes[0]
	if w.shared && r.IntN(3) > 0 {
		to = w.nodes[1+r.IntN(len(w.nodes)-1)]
	}
	to.limiter.TakeAt(at(now), name(key), 1+r.IntN(cost))
	to.see(now)
}

// carry brings the first limiter what the others have admitted of a shared limit, and
// lets one that grows do so.
func (w *world) carry(now int64) {
	if w.shared {
		w.mail = w.mail[:0]
		for i := 1; i < len(w.nodes); i++ {
			w.post(op{node: i, at: now})
		}
		for i := range w.mail {
			w.deliver(op{node: 0, at: now, arg: i})
		}
	}
	if w.kind == "probe-grow" {
		time.Sleep(100 * time.Microsecond) // it is replaced in the background
	}
}

// stated returns the rate that the limiter tells for such requests.
func (st *state) stated() float64 {
	n := st.w.nodes[0]
	switch {
	case st.limit > 0:
		return n.limiter.FalseDenialRate(st.n, st.limit)
	case st.n > 1 && !st.usual:
		return n.limiter.FalseDenialRate(st.n, n.config.Limit)
	}
	s := n.limiter.Stats()
	st.usual = true
	st.n = min(int(math.Ceil(s.MeanCost)), cmp.Or(n.config.LowestLimit, n.config.Limit)) // what its rate is for
	return s.FalseDenialRate
}

// ask asks for new keys, and tells how many would be denied, and whether the limiter
// stayed the same meanwhile.
func (st *state) ask(keys int, seed uint64) (denied int, same bool) {
	n := st.w.nodes[0]
	now := at(n.clock.Load())
	var key [16]byte // of no other key's length and beginning
	binary.BigEndian.PutUint64(key[:], seed|1<<63)
	for i := range keys {
		binary.BigEndian.PutUint64(key[8:], uint64(i))
		if !n.limiter.Do(sketchlimit.Request{Bytes: key[:], N: st.n, Limit: st.limit, Time: now, Peek: true}).Allowed {
			denied++
		}
	}
	rate := st.stated()
	return denied, rate == st.rate || st.rate == least
}
