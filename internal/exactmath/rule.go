package exactmath

import (
	"math"
	"time"
)

const (
	MaxUnits = math.MaxInt32           // of a limit, burst or capacity
	MaxSpan  = 1 << 61                 // of a window, ns: 73 years
	MaxTime  = math.MaxInt64 - MaxSpan // a window before or after any time still is an int64
)

// Rule is what sets one algorithm apart: pure functions of a key's state S, a time
// in Unix ns and a number of units. Only Spend may change what s refers to.
type Rule[S any] interface {
	// Wait returns how long after t the first instant comes at which n units,
	// 1 … limit, are admitted: 0 if they are at t.
	Wait(s S, t, n int64) time.Duration
	// Left returns the whole units free at t, below 0 if the key stands above its
	// limit, and how long after t the quota is whole: 0 exactly if s is then as
	// good as a new state.
	Left(s S, t int64) (units int64, reset time.Duration)
	// Spend returns the state after n more units at t, admitted or not.
	Spend(s S, t, n int64) S
	// Since returns the time that an earlier one is taken as.
	Since(s S) int64
}
