package exact

import "time"

// FixedWindow admits n units while count + n ≤ limit, counted in windows that begin
// at multiples of their length since the Unix epoch.
//
// It is exact for its own windows; across the edge of two of them, up to twice the
// limit passes within a span of one window. RetryAfter and ResetAfter are both the
// rest of the window. Memory: 16 bytes a key and the map around them.
type FixedWindow struct {
	keyed[windowCount]
	window int64
}

type windowCount struct{ generation, count int64 }

// NewFixedWindow returns a limiter of limit units, 1 … 1<<31-1, per window,
// 1ns … 1<<61ns, for every key.
func NewFixedWindow(limit int, window time.Duration) (*FixedWindow, error) {
	if err := checkWindow(limit, window); err != nil {
		return nil, err
	}
	f := &FixedWindow{window: int64(window)}
	f.init(f, limit, window, windowCount{})
	return f, nil
}

func (f *FixedWindow) at(s windowCount, t int64) (count, elapsed int64) {
	generation, elapsed := split(t, f.window)
	if s.generation != generation {
		return 0, elapsed
	}
	return s.count, elapsed
}

func (f *FixedWindow) wait(s windowCount, t, n int64) time.Duration {
	count, elapsed := f.at(s, t)
	if count+n <= f.limit {
		return 0
	}
	return time.Duration(f.window - elapsed)
}

func (f *FixedWindow) left(s windowCount, t int64) (int64, time.Duration) {
	count, elapsed := f.at(s, t)
	if count == 0 {
		return f.limit, 0
	}
	return f.limit - count, time.Duration(f.window - elapsed)
}

// spend counts no further than the limit: a fuller window answers no differently.
func (f *FixedWindow) spend(s windowCount, t, n int64) windowCount {
	count, _ := f.at(s, t)
	generation, _ := split(t, f.window)
	return windowCount{generation, min(n, f.limit-count) + count}
}

func (f *FixedWindow) since(windowCount) int64 { return -maxTime } // keyed knows the latest generation
