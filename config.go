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
	// LowestLimit is the lowest limit that a request may come with, see [Request]:
	// 1 … Limit; 0 is Limit. The lower it is, the more memory Keys asks for: a few units of
	// other keys in a key's cells are little of Limit, and may be all of a low limit.
	LowestLimit int
	// Window is the span that Limit is meant for, 1ms … 1<<61ns (73 years).
	// Windows start at multiples of their length since the Unix epoch.
	Window time.Duration
	// Algorithm is the rule of admission; SlidingWindow if not set. A SlidingWindow refuses a client that keeps exactly to
	// a Limit of 1 … 5 half to a fifth of the time, and its whole quota takes up to two Windows to come back. There
	// TokenBucket serves better.
	Algorithm Algorithm
	// SubWindows cuts a sliding window into so many generations, of at least 1ms
	// and a whole number of nanoseconds each; 0 is 1. More of them follow a log
	// of all requests more closely, and each takes its share of the memory.
	SubWindows int
	// Burst is the number of units that a bucket holds, and so the most that one
	// request may cost: 1 … 1<<31-1; 0 is Limit. It goes with TokenBucket only. A
	// bucket must fill within 1<<61ns.
	//
	// A bucket of n units passes n at once, and one request after another at exactly its
	// rate. Where requests of two keys begin between two ticks of its clock, the last unit of one of them may come back up
	// to one tick late: nanoseconds in a bucket that fills within a minute, microseconds if it takes an hour.
	Burst int

	// Keys is the number of distinct keys expected in one window, 1 … 1<<31-1. The
	// limiter is made large enough to hold FalseDenialRate while keys use UnitsPerKey each on average, and one key
	// in a hundred asks for three times Limit, from whatever moment of a window on; and for Headroom times as much of
	// that. Requests of more than a fiftieth of Limit, and keys that send all at once, need more, see docs/sizing.md.
	// With LowestLimit the rate holds for keys under that limit. With MemoryBytes, Keys only chooses how the memory is
	// spent.
	//
	// For a TokenBucket the window is the time in which a bucket fills, Burst × Window / Limit (with LowestLimit, that of a
	// bucket at this limit), here and below. It does not matter whether keys send evenly or all at once.
	Keys int
	// UnitsPerKey is how many units a key uses in one window on average, costs included, above 0; 0 is a fifth of the
	// limit, of LowestLimit if that is set. Less than five takes as much memory as five. Above 0.6 times a limit of 8 or
	// more the goal is missed: 2 … 10 % of the first requests of new keys are denied at exactly the stated traffic. State
	// less then, and a higher Headroom, see docs/sizing.md. It goes with Keys alone, or with MaxMemoryBytes.
	//
	// A TokenBucket takes what is stated: a fifth of Burst if it is 0, one unit at least. All of Burst, and more than
	// that, takes five times the memory of a fifth.
	UnitsPerKey float64
	// Headroom is the multiple of that traffic, as keys or as units of each, up to which FalseDenialRate shall hold, 1 …
	// 1000; 0 is 2. It goes with Keys alone, or with MaxMemoryBytes. Where Limit is 1 it has no meaning.
	Headroom float64
	// FalseDenialRate is the share of requests of innocent keys (those that have
	// used less than half of Limit) that may be denied wrongly, 1e-12 … below
	// 1; 0 is 1e-5. It goes with Keys alone, or with MaxMemoryBytes.
	FalseDenialRate float64
	// MemoryBytes is the most memory the limiter may take, everything included; with MaxMemoryBytes, what it
	// begins with.
	MemoryBytes int
	// Plan gives the dimensions themselves, such as package tune finds them for the traffic of one Window.
	Plan *Plan
	// MaxMemoryBytes lets the limiter grow to so many bytes when it meets more than it was made for; 0: it keeps its
	// memory. What happens where the memory does not suffice, Overload says.
	//
	// The limiter computes the false-denial rate that a third more load would lead to: when a generation begins, at every
	// sixteenth of it, and shortly before it ends. Where that rate has passed FalseDenialRate, larger tables take over.
	// When the load has been gone for eight generations or more, tables half as large do, down to the size of the
	// beginning. Replaced tables are still read until their counts have left the window: no unit is forgotten, and both
	// are in MemoryBytes meanwhile.
	MaxMemoryBytes int

	// AuditBytes is the memory of the limiter's audit, see [Audit]: -1 is none. 0 is a twentieth of the limiter's memory, at
	// most 64 KiB, at least 8 KiB where it has 64 KiB and 1 KiB where it has less, and none below 16 KiB. MemoryBytes includes it, and
	// the memory that Keys or a Plan asks for does not. The audit does not grow with the limiter: set it where MaxMemoryBytes
	// is far above the beginning. Sub-windows whose
	// states do not fit have none, nor has a bucket that package exact cannot count.
	AuditBytes int

	// Overload is what happens when more comes than the memory is for, or than MaxMemoryBytes is for: Deny (if not set)
	// or Spare. Of windows Spare goes with SlidingWindow and FixedWindow without SubWindows, with Limit 2 … 16383 and, if
	// there is a Plan, with Plan.HeavyEntries. It begins at ten times FalseDenialRate, 1e-4 if that is not set. It takes
	// a quarter more memory, and with Limit below 17 a third more beside. It goes with every TokenBucket, without more, and
	// begins when a key finds no place.
	Overload Overload
	// Hash is what keys are hashed by; KeyedHash(Seed) if nil.
	Hash Hash
	// Seed makes a limiter reproducible: with the same seed, keys and times, one
	// goroutine gets the same decisions bit for bit. 0 draws one from
	// crypto/rand, which is what a service wants: whoever knows the seed can
	// choose keys that collide, unless the Hash has a key of its own.
	Seed uint64
	// Coarse makes the limiter tell less, and decide the same. Remaining is rounded down to quarters of the limit (of
	// the burst, of a bucket), and tells the quarter in use as used up: of a limit of 100 it is 75 until 25 units are
	// used, then 50, 25, 1, and 0 where none is left. ResetAfter is that of a quota which is used up now. RetryAfter and
	// the wait of [Limiter.Reserve] are exact. Set it where strangers can see decisions about keys that are not their
	// own: from exact ones they learn which keys share cells, see SECURITY.md.
	Coarse bool
	// Clock is read by the forms without a time, at every decision; it must be safe
	// for concurrent use. nil is the wall clock, followed ahead only, see [Now], which a
	// limiter reads once every [Resolution] at most if its generations, or the time in
	// which its buckets fill, are at least 100 times as long.
	Clock func() time.Time
}

const (
	maxKeys = math.MaxInt32

	leastRate              = 1e-12
	defaultFalseDenialRate = 1e-5
	usualHeadroom          = 2
	mostHeadroom           = 1000
)

// Size returns the dimensions that a limiter of this Config takes, and the bytes: what [Limiter.MemoryBytes] will be.
// It takes no memory itself, and returns an error where [New] would, but for a limiter that this machine has no memory for.
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

// check refuses what New could not build, field by field.
func (c *Config) check() error {
	subWindows := max(c.SubWindows, 1)
	switch {
	case c.Limit < 1 || c.Limit > math.MaxInt32:
		return fmt.Errorf("sketchlimit: Limit %d, must be 1 … %d", c.Limit, math.MaxInt32)
	case c.LowestLimit < 0 || c.LowestLimit > c.Limit:
		return fmt.Errorf("sketchlimit: LowestLimit %d, must be 0 … Limit %d", c.LowestLimit, c.Limit)
	case c.Window < time.Millisecond || c.Window > engine.MaxWindow:
		return fmt.Errorf("sketchlimit: Window %v, must be 1ms … %v%s", c.Window, time.Duration(engine.MaxWindow), inside.Unitless(c.Window))
	case c.Algorithm < SlidingWindow || c.Algorithm > TokenBucket:
		return fmt.Errorf("sketchlimit: Algorithm %d, must be SlidingWindow, FixedWindow or TokenBucket", int(c.Algorithm))
	case c.Burst < 0 || c.Burst > math.MaxInt32:
		return fmt.Errorf("sketchlimit: Burst %d, must be 0 … %d", c.Burst, math.MaxInt32)
	case c.Burst > 0 && c.Algorithm != TokenBucket:
		return fmt.Errorf("sketchlimit: Burst %d, goes with TokenBucket only", c.Burst)
	case gcra.Fills(c.Limit, c.Burst, c.Window) > engine.MaxWindow:
		return fmt.Errorf("sketchlimit: Burst %d, must fill within %v at %d per %v", c.Burst, time.Duration(engine.MaxWindow), c.Limit, c.Window)
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
	case c.MemoryBytes < 0 || c.MemoryBytes > engine.MaxMemory:
		return fmt.Errorf("sketchlimit: MemoryBytes %d, must be 0 … %d", c.MemoryBytes, engine.MaxMemory)
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
	case c.AuditBytes < -1 || c.AuditBytes > engine.MaxMemory:
		return fmt.Errorf("sketchlimit: AuditBytes %d, must be -1 … %d", c.AuditBytes, engine.MaxMemory)
	case c.MaxMemoryBytes < 0:
		return fmt.Errorf("sketchlimit: MaxMemoryBytes %d, must be at least 0", c.MaxMemoryBytes)
	}
	return nil
}

// lowest returns the lowest limit that a request may come with.
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
func (c *Config) rule() (rule engine.Rule) {
	switch subWindows := max(c.SubWindows, 1); c.Algorithm {
	case TokenBucket:
		rule = engine.NewBucket(c.Limit, c.burst(), c.Window)
	case FixedWindow:
		rule = engine.NewWindow(c.Limit, c.Window, 1)
	default:
		rule = engine.NewWindow(c.Limit, c.Window/time.Duration(subWindows), subWindows+1)
	}
	rule.Coarse = c.Coarse
	if c.Overload == Spare {
		rule.OverCapacity = &overcapacity.Episodes{Rate: min(spareFrom*c.goal(), 1), Lowest: int64(c.lowest())}
	}
	return rule
}

// generation returns the length of a generation.
func (c *Config) generation() time.Duration {
	rule := c.rule()
	return time.Duration(rule.Timeline.Length())
}

// goal returns the false-denial rate that the limiter is for.
func (c *Config) goal() float64 {
	if c.FalseDenialRate == 0 {
		return defaultFalseDenialRate
	}
	return c.FalseDenialRate
}

// headroom returns the multiple of the stated traffic that the limiter is for.
func (c *Config) headroom() float64 {
	if c.Headroom == 0 {
		return usualHeadroom
	}
	return c.Headroom
}

// late reports whether times may be late by [Resolution]: what flows back in that time is
// little of the whole.
func (c *Config) late() bool {
	rule := c.rule()
	if rule.IsBucket() {
		return rule.Fills() >= int64(100*Resolution)
	}
	return rule.Timeline.Length() >= int64(100*Resolution)
}

// manyBytes is the size from which a limiter is held against the memory of the machine: below, New reads no files.
const manyBytes = 1 << 30

// fits refuses a limiter of more bytes than there are. The process would be killed while it fills them.
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

// need returns what the limiter's memory is for.
func (c *Config) need() sizing.Need {
	return sizing.Need{
		Rule: c.rule(), Lowest: c.lowest(), Keys: c.Keys, Units: c.UnitsPerKey, Headroom: c.headroom(), Rate: c.goal(),
		MemoryBytes: c.MemoryBytes, Grows: c.MaxMemoryBytes > 0,
	}
}

// dimensions checks the Config and chooses the dimensions, or checks those given. It also returns the audit, which has not
// started, and the bytes of the limiter.
func (c *Config) dimensions() (d engine.Dimensions, a *audit.Audit, bytes int, err error) {
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
		if least := sizing.LeastAudit(&rule); c.AuditBytes < least {
			return d, nil, 0, fmt.Errorf("sketchlimit: AuditBytes %d, must be -1, 0 or at least %d for this limiter", c.AuditBytes, least)
		}
	}
	bytes += sizing.AuditBytes(a)
	if c.MaxMemoryBytes > 0 && c.MaxMemoryBytes < bytes {
		return d, nil, 0, fmt.Errorf("sketchlimit: MaxMemoryBytes %d, must be at least %d, what the limiter begins with", c.MaxMemoryBytes, bytes)
	}
	return d, a, bytes, nil
}
