package sketchlimit

import (
	"fmt"
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/engine"
	"github.com/sketchlimit/sketchlimit/internal/gcra"
	"github.com/sketchlimit/sketchlimit/internal/inside"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/machine"
	"github.com/sketchlimit/sketchlimit/internal/overcapacity"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// Algorithm is the rule by which a [Limiter] admits.
type Algorithm int

const (
	// SlidingWindow admits n units while
	//
	//	count(current) + count(previous) × (1 − elapsed/window) + n ≤ limit
	//
	// compared as if without rounding. Any span of one window holds at most the
	// limit if the previous generation's units came evenly. With
	// [Config.SubWindows] m > 1 the window is cut into m generations, of which
	// only the oldest of m+1 is weighted, and the assumption concerns 1/m of it.
	SlidingWindow Algorithm = iota
	// FixedWindow admits n units while count(current) + n ≤ limit. It needs half
	// the memory, and lets up to twice the limit through around a window's edge.
	FixedWindow
	// TokenBucket admits n units while the key's bucket holds them. The bucket holds
	// [Config.Burst] units at most, which flow back evenly, Limit per Window: any
	// span s of time admits at most Burst + Limit × s / Window units. Leaky bucket
	// (as a meter) and GCRA are other names for it. Its memory is a table of
	// fingerprints and times, in which a key has an entry while its bucket is not full.
	TokenBucket
)

// String returns the algorithm's name as the command line spells it.
func (a Algorithm) String() string {
	switch a {
	case SlidingWindow:
		return "sliding"
	case FixedWindow:
		return "fixed"
	case TokenBucket:
		return "bucket"
	}
	return fmt.Sprintf("Algorithm(%d)", int(a))
}

// Config says what a [Limiter] limits and how large it is. Limit, Window and one of
// Keys, MemoryBytes and Plan must be set.
type Config struct {
	// Limit is the number of units per key and Window, 1 … 1<<31-1.
	Limit int
	// LowestLimit is the lowest Request.Limit that is admitted: 1 … Limit; 0 is Limit.
	// The lower it is, the more memory Keys takes: a few units of other keys are little
	// of a high limit, and may be all of a low one.
	LowestLimit int
	// Window is the span that Limit is meant for, 1ms … 1<<61ns (73 years).
	// Windows begin at multiples of their length since the Unix epoch.
	Window time.Duration
	// Algorithm is the rule of admission; 0 is SlidingWindow. Prefer TokenBucket for a
	// Limit of 1 … 5: a SlidingWindow denies a client that keeps exactly to it half to
	// a fifth of the time, and the whole quota takes up to two Windows to come back.
	Algorithm Algorithm
	// SubWindows is the number of generations that a sliding window is cut into, each
	// of a whole number of nanoseconds and at least 1ms; 0 is 1. More of them follow a
	// log of all requests more closely, and each takes its share of the memory.
	SubWindows int
	// Burst is the number of units that a bucket holds, and the highest cost of one
	// request: 1 … 1<<31-1; 0 is Limit. With TokenBucket only. A bucket must fill
	// within 1<<61ns.
	//
	// A bucket of n units admits n at once, and one request after another at exactly
	// its rate. Where two keys send between two ticks, the last unit of one of them may
	// come back up to a tick late: nanoseconds in a bucket that fills within a minute,
	// microseconds if it takes an hour.
	Burst int

	// Keys is the number of distinct keys expected in one window, 1 … 1<<31-1. The
	// limiter is made large enough to hold FalseDenialRate up to Headroom times this
	// traffic: keys use UnitsPerKey each on average, and one key in a hundred asks for
	// three times Limit, from any moment of a window on. Requests that cost more than a
	// fiftieth of Limit, and keys that send all at once, need more, see docs/sizing.md.
	// With LowestLimit the rate holds for keys under that limit. With MemoryBytes, Keys
	// only decides how the memory is divided.
	//
	// For a TokenBucket the window is the time in which a bucket fills, Burst × Window
	// / Limit (with LowestLimit, at that limit), here and below. It does not matter
	// whether keys send evenly or all at once.
	Keys int
	// UnitsPerKey is the units that a key uses in one window on average, above 0; 0 is
	// a fifth of Limit, or of LowestLimit if that is set, and at least one unit. Above a
	// Limit of 16, less than five takes as much memory as five, and above 0.6 times the
	// limit FalseDenialRate is missed: 2 … 10 % of the first requests of unseen keys are
	// denied at exactly the stated traffic. State less then, and a higher Headroom, see
	// docs/sizing.md. With Keys alone, or with MaxMemoryBytes.
	//
	// For a TokenBucket 0 is a fifth of Burst, at least one unit. All of Burst or more
	// takes five times the memory of a fifth.
	UnitsPerKey float64
	// Headroom is the multiple of the stated traffic, in keys or in units of each, up
	// to which FalseDenialRate holds: 1 … 1000; 0 is 2. It has no effect where Limit is
	// 1. With Keys alone, or with MaxMemoryBytes.
	Headroom float64
	// FalseDenialRate is the share of the requests of light keys, which have used less
	// than half of Limit, that may be denied wrongly: 1e-12 … below 1; 0 is 1e-5. With
	// Keys alone, or with MaxMemoryBytes.
	FalseDenialRate float64
	// MemoryBytes is the most memory that the limiter may take, everything included; with
	// MaxMemoryBytes, the memory that it begins with.
	MemoryBytes int
	// Plan is the dimensions themselves, for example those that package tune finds for
	// the traffic of one Window.
	Plan *Plan
	// MaxMemoryBytes is the size up to which the limiter grows when traffic exceeds
	// what it was made for; 0: it does not grow. Overload says what happens beyond
	// that.
	//
	// The limiter computes the false-denial rate that a third more load would lead to:
	// when a generation begins, at every sixteenth of it, and shortly before it ends.
	// Where that rate has passed FalseDenialRate, larger tables take over. When the
	// load has been gone for eight generations, tables half as large take over, down to
	// the first size. Replaced tables are read until their counts have left the window:
	// no unit is forgotten, and [Limiter.MemoryBytes] has both meanwhile.
	MaxMemoryBytes int

	// AuditBytes is the memory of the limiter's audit, see [Audit]; -1: no audit. 0 is
	// a twentieth of the limiter's memory, at most 64 KiB; at least 8 KiB for limiters
	// of 64 KiB and more, 1 KiB for smaller ones, none below 16 KiB. It is part of
	// MemoryBytes, and comes on top of the memory for Keys or a Plan. The audit does
	// not grow with the limiter: set it where MaxMemoryBytes is far above the first
	// size. There is no audit where the states of SubWindows do not fit, and for a
	// bucket that package exact cannot count.
	AuditBytes int

	// Overload is what happens when more comes than the memory is for, or than
	// MaxMemoryBytes is for: Deny (if not set) or DenyProven. Of windows DenyProven
	// goes with SlidingWindow and FixedWindow without SubWindows, with Limit 2 … 16383
	// and, if there is a Plan, with Plan.HeavyEntries. It begins at ten times
	// FalseDenialRate, 1e-4 if that is not set. It takes a quarter more memory, and
	// with Limit below 17 a third more beside. It goes with every TokenBucket, without
	// more, and begins when a key finds no place.
	Overload Overload
	// Hash hashes the keys; nil is KeyedHash(Seed).
	Hash Hash
	// Seed makes a limiter reproducible: with the same seed, keys and times, one
	// goroutine gets the same decisions bit for bit. Services leave it 0, which draws
	// one from crypto/rand: with the seed a client can choose keys that collide, unless
	// the Hash has its own key.
	Seed uint64
	// Coarse rounds what decisions report, and does not change them. Remaining is in
	// quarters of the limit (of a bucket, the burst), and the quarter in use counts as
	// used up: at a limit of 100 it is 75 until 25 units are used, then 50, 25, 1, and
	// 0 where none is left. ResetAfter is that of a quota which is used up now.
	// RetryAfter and the wait of [Limiter.Reserve] are exact. Set it where clients can
	// see decisions about keys that are not their own: exact ones reveal which keys
	// share cells, see SECURITY.md.
	Coarse bool
	// Clock returns the time of decisions that are passed none; it is called at each of
	// them and must be safe for concurrent use. nil is the wall clock, followed ahead
	// only, see [Now]. A limiter reads that at most once every [Resolution] if its
	// generations, or the time in which its buckets fill, are at least 100 times as
	// long.
	Clock func() time.Time
}

const (
	maxKeys = math.MaxInt32

	leastRate              = 1e-12
	defaultFalseDenialRate = 1e-5
	usualHeadroom          = 2
	mostHeadroom           = 1000
)

// Size returns the dimensions and the bytes, [Limiter.MemoryBytes], of the limiter that
// [New] would make. It allocates no tables. It returns the errors of New, except that
// of a limiter too large for this machine.
func (c Config) Size() (Plan, int, error) {
	dimensions, _, bytes, err := c.dimensions()
	if err != nil {
		return Plan{}, 0, err
	}
	if _, _, err := keyhash.New(c.Hash, c.Seed); err != nil {
		return Plan{}, 0, err
	}
	return c.planOf(dimensions), bytes, nil
}

// check returns an error for the first field that New cannot build.
func (c *Config) check() error {
	subWindows := max(c.SubWindows, 1)
	switch {
	case c.Limit < 1 || c.Limit > math.MaxInt32:
		return fmt.Errorf("sketchlimit: Limit %d, must be 1 … %d", c.Limit, math.MaxInt32)
	case c.LowestLimit < 0 || c.LowestLimit > c.Limit:
		return fmt.Errorf("sketchlimit: LowestLimit %d, must be 0 … Limit %d", c.LowestLimit, c.Limit)
	case c.Window < time.Millisecond || c.Window > spec.MaxWindow:
		return fmt.Errorf("sketchlimit: Window %v, must be 1ms … %v%s", c.Window, time.Duration(spec.MaxWindow), inside.Unitless(c.Window))
	case c.Algorithm < SlidingWindow || c.Algorithm > TokenBucket:
		return fmt.Errorf("sketchlimit: Algorithm %d, must be SlidingWindow, FixedWindow or TokenBucket", int(c.Algorithm))
	case c.Burst < 0 || c.Burst > math.MaxInt32:
		return fmt.Errorf("sketchlimit: Burst %d, must be 0 … %d", c.Burst, math.MaxInt32)
	case c.Burst > 0 && c.Algorithm != TokenBucket:
		return fmt.Errorf("sketchlimit: Burst %d, goes with TokenBucket only", c.Burst)
	case gcra.Fills(c.Limit, c.Burst, c.Window) > spec.MaxWindow:
		return fmt.Errorf("sketchlimit: Burst %d, must fill within %v at %d per %v", c.Burst, time.Duration(spec.MaxWindow), c.Limit, c.Window)
	case c.SubWindows < 0:
		return fmt.Errorf("sketchlimit: SubWindows %d, must be at least 0", c.SubWindows)
	case c.SubWindows > 1 && c.Algorithm != SlidingWindow:
		return fmt.Errorf("sketchlimit: SubWindows %d, goes with SlidingWindow only", c.SubWindows)
	case c.Window%time.Duration(subWindows) != 0:
		return fmt.Errorf("sketchlimit: SubWindows %d, must cut Window %v into whole nanoseconds", c.SubWindows, c.Window)
	case c.Window/time.Duration(subWindows) < time.Millisecond:
		return fmt.Errorf("sketchlimit: SubWindows %d, must leave at least 1ms each of Window %v", c.SubWindows, c.Window)
	}
	if err := c.Overload.check(c); err != nil {
		return err
	}
	return c.checkSize()
}

func (c *Config) checkSize() error {
	byKeys := c.Keys > 0 && c.MemoryBytes == 0 || c.MaxMemoryBytes > 0
	switch {
	case c.Keys < 0 || c.Keys > maxKeys:
		return fmt.Errorf("sketchlimit: Keys %d, must be 0 … %d", c.Keys, maxKeys)
	case c.MemoryBytes < 0 || c.MemoryBytes > spec.MaxMemory:
		return fmt.Errorf("sketchlimit: MemoryBytes %d, must be 0 … %d", c.MemoryBytes, spec.MaxMemory)
	case c.Keys == 0 && c.MemoryBytes == 0 && c.Plan == nil:
		return fmt.Errorf("sketchlimit: one of Keys, MemoryBytes and Plan must be set: mostly Keys, the distinct keys expected in one Window")
	case c.Plan != nil && c.Keys != 0:
		return fmt.Errorf("sketchlimit: Keys %d with a Plan, only one of them may be set", c.Keys)
	case c.Plan != nil && c.MemoryBytes != 0:
		return fmt.Errorf("sketchlimit: MemoryBytes %d with a Plan, only one of them may be set", c.MemoryBytes)
	case c.FalseDenialRate != 0 && !(c.FalseDenialRate >= leastRate && c.FalseDenialRate < 1):
		return fmt.Errorf("sketchlimit: FalseDenialRate %v, must be %g … below 1", c.FalseDenialRate, leastRate)
	case c.FalseDenialRate != 0 && !byKeys:
		return fmt.Errorf("sketchlimit: FalseDenialRate %v, goes with Keys alone, or with MaxMemoryBytes", c.FalseDenialRate)
	case !(c.UnitsPerKey >= 0 && c.UnitsPerKey <= maxKeys):
		return fmt.Errorf("sketchlimit: UnitsPerKey %v, must be 0 … %d", c.UnitsPerKey, maxKeys)
	case c.Headroom != 0 && !(c.Headroom >= 1 && c.Headroom <= mostHeadroom):
		return fmt.Errorf("sketchlimit: Headroom %v, must be 1 … %d", c.Headroom, mostHeadroom)
	case c.UnitsPerKey > 0 && !byKeys:
		return fmt.Errorf("sketchlimit: UnitsPerKey %v, goes with Keys alone, or with MaxMemoryBytes", c.UnitsPerKey)
	case c.Headroom > 0 && !byKeys:
		return fmt.Errorf("sketchlimit: Headroom %v, goes with Keys alone, or with MaxMemoryBytes", c.Headroom)
	case c.AuditBytes < -1 || c.AuditBytes > spec.MaxMemory:
		return fmt.Errorf("sketchlimit: AuditBytes %d, must be -1 … %d", c.AuditBytes, spec.MaxMemory)
	case c.MaxMemoryBytes < 0:
		return fmt.Errorf("sketchlimit: MaxMemoryBytes %d, must be at least 0", c.MaxMemoryBytes)
	}
	return nil
}

// lowest returns LowestLimit with its default.
func (c *Config) lowest() int {
	if c.LowestLimit == 0 {
		return c.Limit
	}
	return c.LowestLimit
}

// burst returns the units of a full bucket.
func (c *Config) burst() int {
	if c.Burst == 0 {
		return c.Limit
	}
	return c.Burst
}

// rule returns the arithmetic of a checked Config.
func (c *Config) rule() (rule spec.Rule) {
	switch subWindows := max(c.SubWindows, 1); c.Algorithm {
	case TokenBucket:
		rule = spec.NewBucket(c.Limit, c.burst(), c.Window)
	case FixedWindow:
		rule = spec.NewWindow(c.Limit, c.Window, 1)
	default:
		rule = spec.NewWindow(c.Limit, c.Window/time.Duration(subWindows), subWindows+1)
	}
	rule.Coarse = c.Coarse
	if c.Overload == DenyProven {
		rule.OverCapacity = &overcapacity.Episodes{Rate: min(overCapacityFrom*c.goal(), 1), Lowest: int64(c.lowest())}
	}
	return rule
}

// generation returns the length of a generation.
func (c *Config) generation() time.Duration {
	rule := c.rule()
	return time.Duration(rule.Timeline.Length())
}

// goal returns FalseDenialRate with its default.
func (c *Config) goal() float64 {
	if c.FalseDenialRate == 0 {
		return defaultFalseDenialRate
	}
	return c.FalseDenialRate
}

// headroom returns Headroom with its default.
func (c *Config) headroom() float64 {
	if c.Headroom == 0 {
		return usualHeadroom
	}
	return c.Headroom
}

// late reports whether times may be late by [Resolution]: at most a hundredth of a
// generation, or of a bucket, passes meanwhile.
func (c *Config) late() bool {
	rule := c.rule()
	if rule.IsBucket() {
		return rule.Fills() >= int64(100*Resolution)
	}
	return rule.Timeline.Length() >= int64(100*Resolution)
}

// manyBytes is the size above which New compares a limiter with the memory of the
// machine. Below it New reads no files.
const manyBytes = 1 << 30

// fits returns an error if the machine has less memory than that: the process would be
// killed while it fills the tables.
func (c *Config) fits(bytes int) error {
	if bytes <= manyBytes {
		return nil
	}
	most, of, ok := machine.Memory()
	if !ok || uint64(bytes) <= most {
		return nil
	}
	field := fmt.Sprintf("Keys %d", c.Keys)
	switch {
	case c.Plan != nil:
		field = "Plan"
	case c.MemoryBytes > 0:
		field = fmt.Sprintf("MemoryBytes %d", c.MemoryBytes)
	}
	return fmt.Errorf("sketchlimit: %s, takes %d bytes, must be at most %d: %s", field, bytes, most, of)
}

// need returns the traffic that the limiter's memory is for.
func (c *Config) need() sizing.Need {
	return sizing.Need{
		Rule: c.rule(), Lowest: c.lowest(), Keys: c.Keys, Units: c.UnitsPerKey, Headroom: c.headroom(), Rate: c.goal(),
		MemoryBytes: c.MemoryBytes, Grows: c.MaxMemoryBytes > 0,
	}
}

// dimensions checks the Config and chooses the dimensions, or checks those of its Plan.
// It also returns the audit, not started, and the bytes of the limiter.
func (c *Config) dimensions() (d spec.Dimensions, a *audit.Audit, bytes int, err error) {
	if err := c.check(); err != nil {
		return d, nil, 0, err
	}
	rule, need := c.rule(), c.need()
	if need.MemoryBytes > 0 {
		audit := sizing.AuditBytes(sizing.NewAudit(&rule, c.MemoryBytes, c.AuditBytes))
		if least := need.Smallest(); c.AuditBytes > 0 && need.MemoryBytes-audit < least {
			return d, nil, 0, fmt.Errorf("sketchlimit: MemoryBytes %d, must be at least %d beside AuditBytes %d", c.MemoryBytes, least+audit, c.AuditBytes)
		}
		need.MemoryBytes -= audit
	}
	if c.Plan == nil {
		d, err = need.Plan()
	} else if err = c.Plan.checkPurpose(c); err == nil {
		d = c.Plan.dimensions()
		err = d.Check(&rule)
	}
	if err == nil {
		bytes, err = engine.BytesOf(&rule, &d)
	}
	if err != nil {
		return d, nil, 0, err
	}
	if bytes += sizing.Overhead; c.MaxMemoryBytes > 0 {
		bytes += growthBytes
	}
	limiter := bytes
	if c.Plan == nil && c.MemoryBytes > 0 {
		limiter = c.MemoryBytes
	}
	a = sizing.NewAudit(&rule, limiter, c.AuditBytes)
	if c.AuditBytes > 0 {
		if least := sizing.MinAudit(&rule); c.AuditBytes < least {
			return d, nil, 0, fmt.Errorf("sketchlimit: AuditBytes %d, must be -1, 0 or at least %d for this limiter", c.AuditBytes, least)
		}
	}
	bytes += sizing.AuditBytes(a)
	if c.MaxMemoryBytes > 0 && c.MaxMemoryBytes < bytes {
		return d, nil, 0, fmt.Errorf("sketchlimit: MaxMemoryBytes %d, must be at least %d, what the limiter begins with", c.MaxMemoryBytes, bytes)
	}
	return d, a, bytes, nil
}
