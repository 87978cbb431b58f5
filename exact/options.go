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

// Full is what a limiter with [MaxKeys] does with a new key when it holds the most keys.
type Full int

const (
	// DenyNew denies the new key, and counts it in [Held].Refused. No key gets more
	// than the limit. A flood of keys keeps other new keys out for a window or two.
	DenyNew Full = iota
	// DropIdle drops a key that was not used lately, and counts it in [Held].Dropped. A
	// dropped key begins with its whole quota, so keys may get more than the limit:
	// over all keys, at most Held.DroppedUnits more.
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

// MaxKeys sets the most keys that are held, n ≥ 1, and so bounds the memory. Keys that
// have their whole quota back make room first; full says what happens if none is found.
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

// Clock sets the clock of decisions that are passed no time; it is called at each of
// them and must be safe for concurrent use. The default is the wall clock, followed
// ahead only, see [sketchlimit.Now]. A limiter reads that at most once every
// [sketchlimit.Resolution] if its windows, or the time in which its buckets fill, are
// at least 100 times as long. Decisions are then late by up to as much, and RetryAfter
// and ResetAfter longer. With Clock(sketchlimit.Now) no time is late.
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
