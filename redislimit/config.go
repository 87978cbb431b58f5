package redislimit

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
)

// Config says what is limited. Limit and Window must be set, and for a [Strict] one of Keys
// and MemoryBytes. Machines that share a limit must have the same Config: those whose
// windows or sizes differ count apart, because the names of their Redis keys do.
type Config struct {
	// Limit is the number of units per key and Window, 1 … 1<<31-1.
	Limit int
	// Window is the span that Limit is meant for: 1ms … 73 years, in whole
	// microseconds. Windows start at multiples of their length since the Unix epoch.
	Window time.Duration
	// Algorithm is the rule of admission; SlidingWindow if not set.
	Algorithm sketchlimit.Algorithm
	// Burst is the number of units that a bucket holds, 1 … 1<<31-1; 0 is Limit. It
	// goes with TokenBucket alone.
	Burst int

	// LowestLimit and HighestLimit are the limits that a [Strict]'s strings in Redis are made for; 0 is Limit.
	// While machines change from one Limit to another, set them to the lower and the higher one, so that all
	// count in the same strings: docs/redis.md tells which limits do so anyway. LowestLimit is also the lowest
	// limit that a request of [Strict.Do] may come with. [Exact] ignores both.
	LowestLimit, HighestLimit int

	// Keys is the number of distinct keys expected in one window, 1 … 1<<31-1. A [Strict]
	// is made large enough to deny innocent keys less than one in 1e5 requests wrongly, at a
	// mean of up to five requests a key, with one key in a hundred at three times Limit.
	// [Exact] takes what its keys take, and ignores it.
	Keys int
	// MemoryBytes is the most that the strings in Redis may hold, all shards together,
	// instead of what Keys asks for: 1 KiB … 1 TiB. [Exact] ignores it.
	MemoryBytes int
	// Seed is a secret that all machines share, from their configuration best. [Seed] has one for them
	// otherwise; a [Strict] that has it keeps it in Redis, and goes on with the one that it finds
	// there if Redis had lost it. Whoever knows it (0 is known to all) can choose keys that are counted as one.
	// [Exact] ignores it.
	Seed uint64
	// Hash is what keys are hashed by, on all machines the same; sketchlimit.KeyedHash(Seed) if not set.
	// [Exact] ignores it.
	Hash sketchlimit.Hash

	// Prefix begins the names of all Redis keys, and must not hold a brace;
	// "sketchlimit" if not set.
	Prefix string
	// Timeout is the most that a decision waits for Redis, whatever its context says;
	// 0 is one second.
	Timeout time.Duration
	// Failure is how a [Strict] decides while Redis is away, FailShare if not set: by what
	// this machine was admitted and what it admits meanwhile, which is Limit / Machines at
	// most, and until what was admitted without Redis has left the window, both must
	// consent. With FailLocal, and where Machines is not set, that is Limit on each
	// machine. Both take the memory of a [sketchlimit.Limiter] of Keys or MemoryBytes
	// here. [Exact] returns an error instead.
	Failure Failure
	// Machines is how many machines share the limit, at most, for FailShare.
	Machines int
	// Log is told when Redis goes away and comes back; slog.Default() if not set.
	Log *slog.Logger
}

const (
	maxWindow = 1 << 61 // ns
	maxMemory = min(1<<40, math.MaxInt)
	minMemory = 1 << 10
	minLocal  = 8 << 10
)

// check refuses what could not be built, field by field.
func (c *Config) check(client redis.UniversalClient) error {
	switch {
	case isNil(client):
		return errNoClient
	case c.Hash != nil && isNil(c.Hash):
		return errors.New("redislimit: Hash nil of a type, must be one or not set")
	case c.Limit < 1 || c.Limit > math.MaxInt32:
		return fmt.Errorf("redislimit: Limit %d, must be 1 … %d", c.Limit, math.MaxInt32)
	case c.Window < time.Millisecond || c.Window > maxWindow:
		return fmt.Errorf("redislimit: Window %v, must be 1ms … %v%s", c.Window, time.Duration(maxWindow), unitless(c.Window))
	case c.Window%time.Microsecond != 0:
		return fmt.Errorf("redislimit: Window %v, must be whole microseconds", c.Window)
	case c.Algorithm < sketchlimit.SlidingWindow || c.Algorithm > sketchlimit.TokenBucket:
		return fmt.Errorf("redislimit: Algorithm %d, must be SlidingWindow, FixedWindow or TokenBucket", int(c.Algorithm))
	case c.Burst < 0 || c.Burst > math.MaxInt32:
		return fmt.Errorf("redislimit: Burst %d, must be 0 … %d", c.Burst, math.MaxInt32)
	case c.Burst > 0 && c.Algorithm != sketchlimit.TokenBucket:
		return fmt.Errorf("redislimit: Burst %d, goes with TokenBucket only", c.Burst)
	case strings.ContainsAny(c.Prefix, "{}"):
		return fmt.Errorf("redislimit: Prefix %q, must not hold a brace", c.Prefix)
	case c.Timeout < 0:
		return fmt.Errorf("redislimit: Timeout %v, must be at least 0", c.Timeout)
	case c.Failure < FailShare || c.Failure > FailClosed:
		return fmt.Errorf("redislimit: Failure %d, must be FailShare, FailLocal, FailOpen or FailClosed", int(c.Failure))
	case c.Machines < 0 || c.Machines > 1<<20:
		return fmt.Errorf("redislimit: Machines %d, must be 0 … %d", c.Machines, 1<<20)
	}
	return nil
}

// unitless returns what a Window was probably meant to be that is so short that it has no unit.
func unitless(window time.Duration) string {
	if window <= 0 || window >= 100*time.Microsecond { // a day of seconds is 86.4µs
		return ""
	}
	return fmt.Sprintf(": a number without a unit is nanoseconds, was %d * time.Second meant?", int64(window))
}

func (c *Config) checkSize() error {
	switch {
	case c.Keys == 0 && c.MemoryBytes == 0:
		return fmt.Errorf("redislimit: one of Keys and MemoryBytes must be set: mostly Keys, the distinct keys expected in one Window")
	case c.Keys != 0 && c.MemoryBytes != 0:
		return fmt.Errorf("redislimit: Keys %d with MemoryBytes %d, only one of them may be set", c.Keys, c.MemoryBytes)
	case c.LowestLimit < 0 || c.LowestLimit > c.Limit:
		return fmt.Errorf("redislimit: LowestLimit %d, must be 0 … Limit, %d", c.LowestLimit, c.Limit)
	case c.HighestLimit != 0 && (c.HighestLimit < c.Limit || c.HighestLimit > math.MaxInt32):
		return fmt.Errorf("redislimit: HighestLimit %d, must be 0 or Limit, %d … %d", c.HighestLimit, c.Limit, math.MaxInt32)
	case c.Keys < 0 || c.Keys > math.MaxInt32:
		return fmt.Errorf("redislimit: Keys %d, must be 1 … %d", c.Keys, math.MaxInt32)
	case c.MemoryBytes != 0 && (c.MemoryBytes < minMemory || c.MemoryBytes > maxMemory):
		return fmt.Errorf("redislimit: MemoryBytes %d, must be %d … %d", c.MemoryBytes, minMemory, maxMemory)
	}
	return nil
}

func (c *Config) prefix() string {
	if c.Prefix == "" {
		return "sketchlimit"
	}
	return c.Prefix
}

func (c *Config) log() *slog.Logger {
	if c.Log == nil {
		return slog.Default()
	}
	return c.Log
}

// machines returns by what a limit is divided while Redis is away.
func (c *Config) machines() int {
	if c.Failure != FailShare {
		return 1
	}
	return max(1, c.Machines)
}

// local returns a limiter of this machine's own, for the same keys or of the same bytes;
// nil if its share of the limit is less than a unit.
func (c *Config) local() (*sketchlimit.Limiter, error) {
	n, lowest := c.machines(), c.LowestLimit
	if lowest > 0 {
		lowest = max(1, lowest/n)
	}
	if c.Limit < n || c.Burst > 0 && c.Burst < n {
		return nil, nil
	}
	bytes := c.MemoryBytes
	if c.Keys == 0 {
		bytes = max(bytes, minLocal)
	}
	return sketchlimit.New(sketchlimit.Config{Limit: c.Limit / n, LowestLimit: lowest, Window: c.Window, Algorithm: c.Algorithm,
		Burst: c.Burst / n, Keys: c.Keys, MemoryBytes: bytes, Hash: c.Hash, Seed: c.Seed})
}

func (c *Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return time.Second
	}
	return c.Timeout
}
