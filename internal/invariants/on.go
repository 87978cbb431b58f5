//go:build invariants

package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// On reports whether this is a test build.
const On = true

// Mutex is a sync.Mutex that checks the order of locks. It is as large as one: what
// else is known of it is in maps.
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
	if !slices.Contains(heldBy(goroutine()), address(m)) {
		panic(fmt.Sprintf("invariants: lock %+v is not held", RankOf(m)))
	}
}

// Forget lets go of what is known of the calling goroutine's locks, after a test that
// has left some locked: a later goroutine may be at its address.
func Forget() { held.Delete(goroutine()) }

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
	g := goroutine()
	list := heldBy(g)
	i := slices.Index(list, address(m))
	Assert(i >= 0, "lock %+v is not held", RankOf(m))
	if len(list) == 1 {
		held.Delete(g)
	} else {
		held.Store(g, slices.Delete(list, i, i+1))
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

func heldBy(g uintptr) []uintptr {
	h, _ := held.Load(g)
	list, _ := h.([]uintptr)
	return list
}
