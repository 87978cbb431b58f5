// Package invariants checks claims of the code that decides, in builds with the tag
// invariants.
//
//	go test -race -tags invariants ./internal/engine
//
// In all other builds On is the constant false and Mutex is a sync.Mutex. The compiler
// removes what stands in
//
//	if invariants.On { ... }
//
// so that checks may take any time.
package invariants

// Rank is the place of a lock in the order of locks. A goroutine may wait for a lock
// only if all ranked locks that it holds have a lower Rank: by Level, then by Limiter,
// then by Age, then by Index. Locks of the zero Rank are not checked.
type Rank struct {
	Level   Level
	Limiter uint64 // its number
	Age     int64  // of the engine: a successor has a lower one
	Index   int    // of the shard in its engine
}

// Level is the kind of a lock.
type Level uint8

// The levels, in their order. The comment in package engine says why.
const (
	Growth Level = 1 + iota
	BudgetShard
	LimiterShard
	Overload
)
