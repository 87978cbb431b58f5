package exact

import (
	"fmt"
	"time"
)

// Option changes a limiter that is made.
type Option func(*settings) error

// settings are the values that the options set.
type settings struct {
	clock   func() time.Time
	maxKeys int64 // 0: no bound
	full    Full
}

// Full is what a limiter with [MaxKeys] does with a new key when it holds as many as it
// may.
type Full int

const (
	// DenyNew denies the new key, and counts it in [Held].Refused. What is held stays
	// exact: nobody gets more than the limit. A flood of strangers' keys then keeps
	// other new keys out, for a window or two.
	DenyNew Full = iota
	// DropIdle drops a key that was not used lately, and counts it in [Held].Dropped. A
	// dropped key begins anew. So of a key, more than the limit may count at a time, by
	// no more than the units that were forgotten with it: over all keys,
	// Held.DroppedUnits.
	DropIdle
)

// String returns the name of the constant.
func (f Full) String() string {
	switch f {
	case DenyNew:
		return "DenyNew"
	case DropIdle:
		return "DropIdle"
	}
	return fmt.Sprintf("Full(%d)", int(f))
}

// MaxKeys bounds the keys that are held, n ≥ 1, and with them the memory. Keys that
// have their whole quota back make room first. If there are none to be found, full says
// what happens.
func MaxKeys(n int, full Full) Option {
	return func(s *settings) error {
		if n < 1 {
			return fmt.Errorf("exact: MaxKeys %d, must be at least 1", n)
		}
		if full < DenyNew || full > DropIdle {
			return fmt.Errorf("exact: MaxKeys with Full %d, must be DenyNew or DropIdle", int(full))
		}
		s.maxKeys, s.full = int64(n), full
		return nil
	}
}

// Clock sets what the forms without a time read, at every decision; it must be safe for
// concurrent use. Otherwise it is the wall clock, followed ahead only, see
// [sketchlimit.Now], which a limiter reads once every [sketchlimit.Resolution] at most
// if its windows, or the time in which its buckets fill, are at least 100 times as
// long. The time of a decision is then late by up to that, and RetryAfter and
// ResetAfter are longer by it. With Clock(sketchlimit.Now) no time is late.
func Clock(now func() time.Time) Option {
	return func(s *settings) error {
		if now == nil {
			return fmt.Errorf("exact: Clock nil, must be a function")
		}
		s.clock = now
		return nil
	}
}

func newSettings(options []Option) (settings, error) {
	var s settings
	for i, option := range options {
		if option == nil {
			return s, fmt.Errorf("exact: option %d nil, must be one", i)
		}
		if err := option(&s); err != nil {
			return s, err
		}
	}
	return s, nil
}
