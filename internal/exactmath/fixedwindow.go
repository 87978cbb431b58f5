package exactmath

import "time"

// FixedWindow admits n units while count + n ≤ limit, in windows that begin at multiples
// of their length since the Unix epoch.
type FixedWindow struct{ limit, window int64 }

// WindowCount is the count of a generation.
type WindowCount struct{ Generation, Count int64 }

// NewFixedWindow returns the rule of limit units per window.
func NewFixedWindow(limit, window int64) FixedWindow { return FixedWindow{limit, window} }

func (f *FixedWindow) at(s WindowCount, t int64) (count, elapsed int64) {
	generation, elapsed := Split(t, f.window)
	if s.Generation != generation {
		return 0, elapsed
	}
	return s.Count, elapsed
}

// Wait implements [Rule].
func (f *FixedWindow) Wait(s WindowCount, t, n int64) time.Duration {
	count, elapsed := f.at(s, t)
	if count+n <= f.limit {
		return 0
	}
	return time.Duration(f.window - elapsed)
}

// Left implements [Rule].
func (f *FixedWindow) Left(s WindowCount, t int64) (int64, time.Duration) {
	count, elapsed := f.at(s, t)
	if count == 0 {
		return f.limit, 0
	}
	return f.limit - count, time.Duration(f.window - elapsed)
}

// Spend implements [Rule]. It counts no further than the limit: a fuller window answers
// no differently.
func (f *FixedWindow) Spend(s WindowCount, t, n int64) WindowCount {
	count, _ := f.at(s, t)
	generation, _ := Split(t, f.window)
	return WindowCount{generation, min(n, f.limit-count) + count}
}

// Since implements [Rule]. The caller knows the latest generation.
func (f *FixedWindow) Since(WindowCount) int64 { return -MaxTime }
