package accuracy

import (
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy/internal/windows"
	"github.com/sketchlimit/sketchlimit/exact"
)

// trial is a limiter before its judge, the oracle that knows what the limiter has
// admitted. It is a lane. The limiter sees all keys, the judge those of the sample, and
// what is counted is of these.
type trial struct {
	limiter Limiter
	do      doer   // the limiter, if it is one
	key     []byte // of the request that do decides on
	judge   exact.Limiter
	keys    keySample

	requests, all       uint64 // judged, seen by the limiter
	v                   Verdict
	deniedKeys          map[string]struct{}
	wrongedInnocents    map[string]struct{}
	unitsEarly          Histogram
	estimateError       Histogram
	tooSmall            uint64
	liveMax, liveLatest float64
	audited             sketchlimit.Audit // at the last look

	outcomes  []outcome // of the last batch
	looks     []look    // during the last batch
	windows   windows.Clock
	clock     *replayClock
	sinceLook uint64 // requests since the last look at Stats
	spacing   uint64 // requests that must lie between two looks
	last      time.Time
}

// doer is a limiter that answers as [sketchlimit.Limiter.Do].
type doer interface {
	Do(sketchlimit.Request) sketchlimit.Decision
}

type outcome uint8

const (
	admitted      outcome = 1 << iota
	falselyDenied         // by a limiter
	ofLightKey            // by the lone oracle: the key had used less than half of its limit
)

func (o outcome) has(all outcome) bool { return o&all == all }

// isFalseDenial reports whether a light key was denied wrongly, by what limiter and
// lone oracle made of its request.
func isFalseDenial(limiter, lone outcome) bool {
	return limiter.has(falselyDenied) && lone.has(ofLightKey|admitted)
}

// look is what a limiter stated of light keys.
type look struct {
	at   time.Time
	rate float64
}

// replayClock shows a limiter the time of the stream in place of the wall clock,
// which lies decades after most traces.
type replayClock struct{ ns atomic.Int64 }

func (c *replayClock) set(t time.Time) { c.ns.Store(t.UnixNano()) }
func (c *replayClock) now() time.Time  { return time.Unix(0, c.ns.Load()).UTC() }

// newTrial builds the limiter at the time of the first request.
func newTrial(c Contest, first time.Time) (*trial, error) {
	t := &trial{
		deniedKeys:       make(map[string]struct{}),
		wrongedInnocents: make(map[string]struct{}),
		windows:          windows.NewClock(c.Window),
		clock:            new(replayClock),
	}
	t.clock.set(first)
	var err error
	if t.limiter, err = c.Limiter(t.clock.now); err != nil {
		return nil, err
	}
	t.do, _ = t.limiter.(doer)
	if t.judge, err = c.Oracle(); err != nil {
		return nil, err
	}
	if l, ok := t.limiter.(interface{ MemoryBytes() int }); ok {
		t.v.MemoryBytes = l.MemoryBytes()
	}
	// Stats reads all cells. So many requests between two looks keep them a small
	// part of the run, however short the windows are.
	t.spacing = max(4096, uint64(t.v.MemoryBytes)/32)
	return t, nil
}

func (t *trial) run(batch []Request) {
	t.outcomes, t.looks = t.outcomes[:0], t.looks[:0]
	for _, r := range batch {
		if t.windows.Turn(r.Time) || t.sinceLook >= 2*t.spacing {
			t.look(false)
		}
		var o outcome
		if t.keys.has(r.Key) {
			o = t.take(r.Time, r.Key, r.Cost)
		} else {
			t.decide(r.Time, r.Key, r.Cost)
		}
		t.outcomes = append(t.outcomes, o)
		t.last = r.Time
		t.all++
		t.sinceLook++
	}
}

// decide asks the limiter: by Do if it has that. Do takes a cost of 0 for 1 and the
// zero time for now, so such requests go through TakeAt.
func (t *trial) decide(now time.Time, key string, n int) sketchlimit.Decision {
	if t.do == nil || n == 0 || now.IsZero() {
		return t.limiter.TakeAt(now, key, n)
	}
	t.key = append(t.key[:0], key...)
	return t.do.Do(sketchlimit.Request{Time: now, Bytes: t.key, N: n})
}

// take asks the judge, then the limiter, and tells the judge what came of it.
func (t *trial) take(now time.Time, key string, n int) (o outcome) {
	truth := t.judge.PeekAt(now, key, n)
	d := t.decide(now, key, n)

	left := d.Remaining // as the limiter saw it before the request
	if d.Allowed {
		left += n
		t.judge.Charge(now, key, n)
		t.v.AdmittedRequests++
		t.v.AdmittedUnits += uint64(n)
		o |= admitted
	}
	if left > truth.Remaining {
		t.tooSmall++
	}
	t.estimateError.Add(truth.Remaining - left)

	t.requests++
	switch {
	case d.Allowed && !truth.Allowed:
		t.v.OverAdmissions++
	case !d.Allowed && truth.Allowed:
		o |= falselyDenied
		t.v.FalseDenials++
		if _, before := t.deniedKeys[key]; !before {
			t.deniedKeys[key] = struct{}{}
			t.unitsEarly.Add(truth.Remaining)
		}
	}
	return o
}

// tally counts what the last batch did to light keys. Who is one, the lone oracle
// knows: a flooder that the limiter cuts off early has been admitted little, and is
// none for it.
func (t *trial) tally(batch []Request, l *lone) {
	for i, o := range t.outcomes {
		if isFalseDenial(o, l.outcomes[i]) {
			t.v.LightFalseDenials++
			t.wrongedInnocents[batch[i].Key] = struct{}{}
		}
	}
}

// look reads the false-denial rates that the limiter states, as the last request
// has left them.
func (t *trial) look(always bool) {
	l, ok := t.limiter.(interface{ Stats() sketchlimit.Stats })
	if !ok || t.all == 0 || !always && t.sinceLook < t.spacing {
		return
	}
	t.clock.set(t.last)
	stats := l.Stats()
	t.liveLatest = stats.FalseDenialRate
	t.liveMax = max(t.liveMax, t.liveLatest)
	rate, _, _ := stats.Audit.Since(t.audited).Rate()
	t.looks, t.audited = append(t.looks, look{t.last, rate}), stats.Audit
	t.sinceLook = 0
}

func (t *trial) reset() {
	t.v = Verdict{MemoryBytes: t.v.MemoryBytes}
	clear(t.deniedKeys)
	clear(t.wrongedInnocents)
	t.unitsEarly, t.estimateError = Histogram{}, Histogram{}
	t.requests, t.all, t.tooSmall, t.liveMax = 0, 0, 0, 0
}

// verdict completes the counts with the rates.
func (t *trial) verdict(lone *lone) Verdict {
	v := t.v
	v.LightRequests, v.LightKeys, v.DeniedLightKeys = lone.innocents, len(lone.innocentKeys), len(t.wrongedInnocents)
	v.FalseDenialRate = ratio(float64(v.LightFalseDenials), float64(v.LightRequests))
	if lone.units > 0 {
		v.LostShare = 1 - float64(v.AdmittedUnits)/float64(lone.units)
	}
	return v
}

// sample is what the verdict rests on.
func (t *trial) sample() Sample { return t.keys.of(t.requests, t.all) }

// close ends the limiter's goroutines, if it has any.
func (t *trial) close() error {
	if l, ok := t.limiter.(interface{ Close() error }); ok {
		return l.Close()
	}
	return nil
}

// lone is an oracle that admits on its own the requests of the keys in the sample. It is
// a lane.
type lone struct {
	oracle          exact.Limiter
	limit           int
	keys            keySample
	requests, units uint64 // admitted
	innocents       uint64 // requests of light keys
	innocentKeys    map[string]struct{}
	outcomes        []outcome // of the last batch
}

func newLone(c Contest, keys keySample) (*lone, error) {
	oracle, err := c.Oracle()
	return &lone{oracle: oracle, limit: c.Limit, keys: keys, innocentKeys: make(map[string]struct{})}, err
}

func (l *lone) run(batch []Request) {
	l.outcomes = l.outcomes[:0]
	for _, r := range batch {
		var o outcome
		if l.keys.has(r.Key) {
			o = l.take(r)
		}
		l.outcomes = append(l.outcomes, o)
	}
}

func (l *lone) take(r Request) (o outcome) {
	d := l.oracle.TakeAt(r.Time, r.Key, r.Cost)
	free := d.Remaining // before the request
	if d.Allowed {
		free += r.Cost
		o = admitted
		l.requests++
		l.units += uint64(r.Cost)
	}
	if 2*(l.limit-free) < l.limit {
		o |= ofLightKey
		l.innocents++
		l.innocentKeys[r.Key] = struct{}{}
	}
	return o
}

func (l *lone) reset() {
	l.requests, l.units, l.innocents = 0, 0, 0
	clear(l.innocentKeys)
}
