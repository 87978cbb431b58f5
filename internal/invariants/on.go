//go:build invariants

package invariants

import (
	"bytes"
	"cmp"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"unsafe"
)

// On reports whether this is a test build.
const On = true

// Mutex is a sync.Mutex that checks the order of locks. It is as large as one: what else is known of it is in maps.
type Mutex struct{ mu sync.Mutex }

var (
	ranks sync.Map // Rank by the address of the Mutex, which the map does not keep alive
	held  sync.Map // []uintptr by goroutine: the addresses of what it holds; only the goroutine changes it
)

// Assert panics unless the claim holds.
func Assert(holds bool, format string, args ...any) {
	if !holds {
		panic("invariants: " + fmt.Sprintf(format, args...))
	}
}

// SetRank sets the place of a lock in the order, before its first use.
func SetRank(m *Mutex, r Rank) { ranks.Store(address(m), r) }

// RankOf returns the place of a lock in the order.
func RankOf(m *Mutex) Rank { return rankAt(address(m)) }

// AssertHeld panics unless the calling goroutine holds the lock.
func AssertHeld(m *Mutex) {
	for _, a := range heldBy(goroutine()) {
		if a == address(m) {
			return
		}
	}
	panic(fmt.Sprintf("invariants: lock %+v is not held", RankOf(m)))
}

// Lock panics if the order of locks forbids to wait for this one.
func (m *Mutex) Lock() {
	g, next := goroutine(), RankOf(m)
	for _, a := range heldBy(g) {
		if r := rankAt(a); next != (Rank{}) && r != (Rank{}) && r.compare(next) >= 0 {
			panic(fmt.Sprintf("invariants: lock %+v is to be taken while %+v is held", next, r))
		}
	}
	m.mu.Lock()
	held.Store(g, append(heldBy(g), address(m)))
}

// TryLock does not wait, so any order will do.
func (m *Mutex) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	g := goroutine()
	held.Store(g, append(heldBy(g), address(m)))
	return true
}

// Unlock panics if another goroutine holds the lock.
func (m *Mutex) Unlock() {
	AssertHeld(m)
	g := goroutine()
	var rest []uintptr
	for _, a := range heldBy(g) {
		if a != address(m) {
			rest = append(rest, a)
		}
	}
	if rest == nil {
		held.Delete(g)
	} else {
		held.Store(g, rest)
	}
	m.mu.Unlock()
}

func (r Rank) compare(o Rank) int {
	return cmp.Or(cmp.Compare(r.Level, o.Level), cmp.Compare(r.Limiter, o.Limiter), cmp.Compare(r.Age, o.Age), cmp.Compare(r.Index, o.Index))
}

func address(m *Mutex) uintptr { return uintptr(unsafe.Pointer(m)) }

func rankAt(a uintptr) Rank {
	r, _ := ranks.Load(a)
	rank, _ := r.(Rank)
	return rank
}

func heldBy(g uint64) []uintptr {
	h, _ := held.Load(g)
	list, _ := h.([]uintptr)
	return list
}

// goroutine returns the number of the calling goroutine, which only a stack trace tells.
func goroutine() uint64 {
	var buffer [64]byte
	line := bytes.TrimPrefix(buffer[:runtime.Stack(buffer[:], false)], []byte("goroutine "))
	n, err := strconv.ParseUint(string(line[:bytes.IndexByte(line, ' ')]), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
