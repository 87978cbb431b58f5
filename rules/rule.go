package rules

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/tune"
)

const (
	// DefaultKeys is the keys of a rule that leaves values open and does not say how
	// many there are.
	DefaultKeys = 100_000

	defaultFalseDenialRate = 1e-5
)

// Rule is a rate_limit of a file.
type Rule struct {
	Domain string
	Path   string // key_value.key_value…, from the outermost level to the innermost
	Line   string // of the descriptor, FILE:LINE
	Name   string // "" if it has none

	Warning string // how it differs from what the file says or seems to mean, FILE:LINE: text; "" if it does not

	Limit     int                   // units per counter and Window; 0 blocks
	Window    time.Duration         // 0 if Unlimited; 31 days if Months
	Months    bool                  // windows are months of the calendar in UTC, see Options.CalendarMonths
	Algorithm sketchlimit.Algorithm // of no meaning if Unlimited
	Burst     int                   // units that a bucket holds; 0 of other algorithms
	Unlimited bool                  // it matches, and counts nothing
	Shadow    bool                  // it counts, and refuses nobody
	Quota     bool                  // it refuses only together with all other quotas of the request
	Charge    bool                  // units count whether they fit or not, and only an Ask for 0 units is refused
	Override  bool                  // it is of no file, and counts limits that come with requests, see Override

	Keyed           bool    // it leaves values open; otherwise there is one counter
	Keys            int     // that it is sized for; 0 if it only says how much memory
	UnitsPerKey     float64 // that it is sized for; 0 if it does not say
	Headroom        float64 // that it is sized for; 0 if it does not say
	FalseDenialRate float64 // that it is sized for; 0 if it says how much memory

	Shared   bool                 // it states no size: with Options.SharedBytes, it has a share of that
	Overload sketchlimit.Overload // what it does when more comes than it is sized for

	Metadata       map[string]any // of the file, for dynamic metadata of answers; nil if there is none. Not to be changed
	NamedByRequest bool           // its StatsName has values of requests

	limiter  *sketchlimit.Limiter // nil if it is Unlimited or blocks
	index    int                  // of the limiter in the set's group
	title    string               // see String
	label    string               // see Counting
	replaces []string
	counter  counter
	formers  atomic.Pointer[[]predecessor] // nil if none matters
	origin   origin
	heirOf   *predecessor // whose limiter it goes on with, under its own limit, once it counts; nil if it does not
	could    *predecessor // the same, if there is no memory for both
	renews   bool         // its limiter is to have a shape of its own again
	lost     int          // former limiters that it has let go
	tally    *tally       // nil of Check
	levels   []level      // see StatsName
	detailed bool
	monthly  bool // its unit is a month
	bytes    int
}

// counter is what two rules must agree in for one to carry on the other's counts.
type counter struct {
	place     place
	limit     int
	window    time.Duration
	algorithm sketchlimit.Algorithm
	burst     int
	keys      int
	units     float64
	headroom  float64
	rate      float64
	memory    int
	overload  sketchlimit.Overload
	months    bool
}

// origin is what a rule's limiter was made for, if it has gone on under other limits
// since.
type origin struct {
	limit, burst int
	reach        int       // the highest limit since, or burst
	since        time.Time // the first other limit; zero if there was none
}

// newRule returns the rule of a descriptor, without a limiter.
func newRule(p place, d *descriptor, line string) (*Rule, error) {
	l := d.limit
	r := &Rule{
		Domain: p.domain, Path: p.path, Line: line, Name: l.name,
		Unlimited: l.unlimited, Shadow: d.shadow, Quota: d.quota, Charge: l.charge, Keyed: p.keyed,
		replaces: l.replaces, counter: counter{place: p}, Metadata: d.metadata, detailed: d.detailed,
	}
	if l.unlimited {
		return r, nil
	}
	r.Limit, r.Algorithm = int(min(l.requests, math.MaxInt32)), l.algorithm
	switch {
	case !l.stated:
		r.Warning = fmt.Sprintf("%s: no requests_per_unit, blocks all requests: 0 says so without this warning", line)
	case l.requests > math.MaxInt32:
		r.Warning = fmt.Sprintf("%s: requests_per_unit %d, is held to %d", line, l.requests, r.Limit)
	}
	r.Window, _ = l.window()
	r.monthly = strings.EqualFold(l.unit, "month") && l.multiplier == 1 && l.algorithm == sketchlimit.FixedWindow
	if r.Algorithm == sketchlimit.TokenBucket {
		r.Burst = cmp.Or(l.burst, r.Limit)
	}
	switch {
	case !r.Keyed && l.keys > 0:
		return nil, fmt.Errorf("%s: keys %d, goes with open values only: this rule has one counter", line, l.keys)
	case !r.Keyed && (l.units > 0 || l.headroom > 0):
		return nil, fmt.Errorf("%s: units_per_key and headroom, go with open values only: this rule has one counter", line)
	case !r.Keyed && l.overload != sketchlimit.Deny:
		return nil, fmt.Errorf("%s: overload %v, goes with open values only: this rule has one counter", line, l.overload)
	case !r.Keyed:
		r.Keys = 1
	case l.keys > 0 || l.memory > 0:
		r.Keys = l.keys
	default:
		r.Keys = DefaultKeys
	}
	switch {
	case l.rate > 0:
		r.FalseDenialRate = l.rate
	case l.memory == 0:
		r.FalseDenialRate = defaultFalseDenialRate
	}
	r.Shared = r.Keyed && r.Limit > 0 && l.keys == 0 && l.units == 0 && l.headroom == 0 && l.rate == 0 && l.memory == 0
	if most := 0.6 * float64(r.Limit); r.Algorithm != sketchlimit.TokenBucket && r.Limit > 16 && l.units > most && r.Warning == "" {
		r.Warning = fmt.Sprintf("%s: units_per_key %v, above %v, 0.6 times the limit, first requests of new keys are denied: state less and a higher headroom",
			line, l.units, math.Round(10*most)/10)
	}
	r.UnitsPerKey, r.Headroom, r.Overload = l.units, l.headroom, l.overload
	r.counter = counter{p, r.Limit, r.Window, r.Algorithm, r.Burst, r.Keys, l.units, l.headroom, r.FalseDenialRate, l.memory, l.overload, false}
	if r.Limit > 0 {
		var err error
		if _, r.bytes, err = r.config().Size(); err != nil {
			return nil, fmt.Errorf("%s: %s", line, inFile.Replace(err.Error()))
		}
	}
	return r, nil
}

// inFile has the names that files give to the fields of a limiter's Config.
var inFile = strings.NewReplacer("sketchlimit: ", "", "FalseDenialRate", "false_denial_rate", "UnitsPerKey", "units_per_key", "Headroom", "headroom",
	"MemoryBytes", "memory", "Keys", "keys", "Burst", "burst", "Overload", "overload", "with Limit", "with requests_per_unit")

// String returns domain.key_value.key_value…, which tells the rules of all files apart.
func (r *Rule) String() string { return r.title }

func (r *Rule) config() sketchlimit.Config {
	lowest := 0
	if r.Override {
		lowest = 1
	}
	return sketchlimit.Config{
		Limit: r.Limit, LowestLimit: lowest, Window: r.Window, Algorithm: r.Algorithm, Burst: r.Burst,
		Keys: r.Keys, UnitsPerKey: r.UnitsPerKey, Headroom: r.Headroom, FalseDenialRate: r.FalseDenialRate,
		MemoryBytes: r.counter.memory, Overload: r.Overload,
	}
}

// Forecast returns what the rule is expected to get wrong if in one window Keys keys
// come of five requests each on average (of a token bucket, of a fifth of it) or, if it
// says how many, UnitsPerKey, and from one in a hundred three times the limit, the same
// ones in every window and all of them spread over it. It takes a second or so. It
// returns an error if Keys is 0, and where [tune.Predict] does.
func (r *Rule) Forecast() (tune.Forecast, error) {
	plan, _, err := r.config().Size()
	if err != nil {
		return tune.Forecast{}, err
	}
	traffic, units := tune.Traffic{Keys: r.Keys, Abusers: 0.01, Even: true, Steady: true}, r.UnitsPerKey
	if r.Algorithm == sketchlimit.TokenBucket { // whose units are those of the time in which a bucket fills
		units = max(1, cmp.Or(units, float64(r.Burst)/5)) * float64(r.Limit) / float64(r.Burst)
	}
	if units > 0 {
		traffic.Requests = int(float64(r.Keys) * (units + traffic.Abusers*3*float64(r.Limit)))
	}
	return tune.Predict(traffic,
		tune.Goal{Limit: r.Limit, Algorithm: r.Algorithm, Burst: r.Burst}, plan)
}

// build gives the rule a limiter of its own.
func (r *Rule) build(clock func() time.Time, hash sketchlimit.Hash, seed uint64) (err error) {
	if r.Unlimited || r.Limit == 0 {
		return nil
	}
	c := r.config()
	c.Clock, c.Hash, c.Seed = clock, hash, seed
	if r.Months {
		c.Clock = func() time.Time { return monthTime(clock()) }
	}
	if r.limiter, err = sketchlimit.New(c); err != nil && r.Line != "" { // more than the machine has
		return fmt.Errorf("%s: %s", r.Line, inFile.Replace(err.Error()))
	}
	return err
}

// MemoryBytes returns the memory of the rule's counts, which does not change.
func (r *Rule) MemoryBytes() int { return r.bytes }

// Stats is a picture of the rule's counts, see [sketchlimit.Limiter.Stats]. It is zero
// for a rule that is unlimited or blocks.
func (r *Rule) Stats() sketchlimit.Stats {
	if r.limiter == nil {
		return sketchlimit.Stats{}
	}
	return r.limiter.Stats()
}

// Counters is Stats without what reads the cells, see [sketchlimit.Limiter.Counters].
func (r *Rule) Counters() sketchlimit.Stats {
	if r.limiter == nil {
		return sketchlimit.Stats{}
	}
	return r.limiter.Counters()
}
