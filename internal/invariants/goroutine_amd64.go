//go:build invariants

package invariants

// goroutine returns the address of what the runtime knows of the calling goroutine. A
// stack trace, which has a number for it, takes a hundred times as long as a decision.
func goroutine() uintptr
