// Package exactmath is the arithmetic of ten exact rate limiting algorithms. Package
// exact puts a map of keys around it. An audit shares it, which counts a sample of a
// limiter's keys in memory of its own. So it knows no requests, no decisions and no
// keys, and holds no locks.
//
// An algorithm is a value that never changes, safe for concurrent use. A pointer to it is
// its [Rule], so that no call copies it. What it knows of a key is the key's state: a
// small struct that the caller keeps, in which each call finds what the calls before
// have left. The state of a key that was never seen is what Fresh returns, and the zero
// value where an algorithm has no such method.
//
// There are no floats. Counts are integers, a weighted count is compared by cross
// multiplication in 128 bits, and buckets count in grains, fractions of a unit so small
// that a whole number of them flows in every nanosecond. Only answers are rounded:
// units down, durations up to whole nanoseconds.
//
// Times are Unix nanoseconds within ±[MaxTime]. Most algorithms take a time before the
// key's last one as that. FixedWindow, SlidingWindow and Slots do not: their caller
// gives no time before the latest generation that a key was spent in.
//
// Parameters are those of package exact. Its constructors check each by itself, against
// [MaxUnits] and [MaxSpan]. Here it is checked whether they can be counted together.
// The errors name package exact, because its users read them.
package exactmath
