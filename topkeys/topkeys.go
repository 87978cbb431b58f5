// Package topkeys finds the keys that are refused the most, in memory that is fixed. A
// limiter does not know its keys, and metrics with a label for each key would grow with
// them.
//
//	top, err := topkeys.New(1000, time.Minute)
//	...
//	httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) { top.Add(p.Name, p.Key, 1) })
//	...
//	for i, c := range top.Report().Counts {
//		if i == 10 {
//			break
//		}
//		fmt.Printf("%q: %d to %d\n", c.Key, c.Count-c.Error, c.Count)
//	}
//
// It is the Space-Saving algorithm (Metwally, Agrawal and El Abbadi, 2005). It keeps a
// fixed number of keys. When all places are taken, a new key replaces the key with the
// lowest count and starts from that count, which is the most that it can have had
// before. So a count is never too low. It is too high by at most its Error, which is at
// most the total divided by the number of places.
package topkeys

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// KeyBytes is the number of bytes of a key that are kept. Longer keys are counted by
// all of their bytes and reported cut.
const KeyBytes = 64

const maxKeys = 1 << 20

// Top counts keys in windows that start at multiples of their length since the Unix
// epoch, and forgets them when a window ends. It takes about 170 bytes a place, and an
// Add allocates nothing.
//
// It is safe for concurrent use. A time before the window that it has reached counts in
// that window.
type Top struct {
	seed   maphash.Seed
	window time.Duration
	keys   int

	mu         sync.Mutex
	generation int64 // of the window
	total      uint64
	slots      []slot         // a heap, the lowest count first
	index      map[uint64]int // slot by hash
}

// slot is the place of one key.
type slot struct {
	hash         uint64
	count, error uint64
	policy       string
	key          [KeyBytes]byte
	length       uint8
}

// New returns a Top of so many places, 1 … 1<<20, and windows of at least 1ns.
func New(keys int, window time.Duration) (*Top, error) {
	if keys < 1 || keys > maxKeys {
		return nil, fmt.Errorf("topkeys: keys %d, must be 1 … %d", keys, maxKeys)
	}
	if window <= 0 {
		return nil, fmt.Errorf("topkeys: window %v, must be above 0", window)
	}
	return &Top{
		seed: maphash.MakeSeed(), window: window, keys: keys,
		slots: make([]slot, 0, keys), index: make(map[uint64]int, keys),
	}, nil
}

// Add counts n for a key of a policy, now. It keeps the policy's name, and at most
// KeyBytes of the key. A count stops at the highest uint64.
func (t *Top) Add(policy string, key []byte, n uint64) { t.AddAt(time.Now(), policy, key, n) }

// AddAt is [Top.Add] at the time now.
func (t *Top) AddAt(now time.Time, policy string, key []byte, n uint64) {
	var h maphash.Hash // keyed: nobody can choose keys that count as one
	h.SetSeed(t.seed)
	h.WriteString(policy)
	h.WriteByte(0)
	h.Write(key)
	hash := h.Sum64()

	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	t.total = add(t.total, n)
	i, found := t.index[hash]
	switch {
	case found:
	case len(t.slots) < t.keys:
		t.slots = append(t.slots, slot{})
		i = len(t.slots) - 1
		t.place(i, hash, policy, key)
		t.up(i) // as 0 it is the lowest
		i = t.index[hash]
	default:
		s := &t.slots[0]
		delete(t.index, s.hash)
		s.error = s.count
		t.place(0, hash, policy, key)
	}
	t.slots[i].count = add(t.slots[i].count, n)
	t.down(i)
}

// add returns a + b, or the highest number if that is more: counts never fall.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry > 0 {
		return math.MaxUint64
	}
	return sum
}

func (t *Top) place(i int, hash uint64, policy string, key []byte) {
	s := &t.slots[i]
	s.hash, s.policy, s.length = hash, policy, uint8(copy(s.key[:], key))
	t.index[hash] = i
}

// turn clears all counts if a later window has begun.
func (t *Top) turn(now time.Time) {
	if g := now.UnixNano() / int64(t.window); g > t.generation {
		t.generation, t.total = g, 0
		t.slots = t.slots[:0]
		clear(t.index)
	}
}

// up moves a slot towards the top for as long as its count is lower.
func (t *Top) up(i int) {
	for i > 0 && t.slots[i].count < t.slots[(i-1)/2].count {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

// down moves a slot away from the top for as long as its count is higher.
func (t *Top) down(i int) {
	for {
		lowest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.slots); child++ {
			if t.slots[child].count < t.slots[lowest].count {
				lowest = child
			}
		}
		if lowest == i {
			return
		}
		t.swap(i, lowest)
		i = lowest
	}
}

func (t *Top) swap(i, j int) {
	t.slots[i], t.slots[j] = t.slots[j], t.slots[i]
	t.index[t.slots[i].hash], t.index[t.slots[j].hash] = i, j
}

// Report is what a Top has counted in the current window.
type Report struct {
	Since  time.Time // when the window began
	Total  uint64    // of all keys, exact
	Others uint64    // the most that any key has that is not in Counts
	Counts []Count   // the highest first
}

// Count is what one key has: Count-Error … Count.
type Count struct {
	Policy string
	Key    []byte // the first KeyBytes of it
	Count  uint64
	Error  uint64
}

// Report returns what has been counted in the current window.
func (t *Top) Report() Report { return t.ReportAt(time.Now()) }

// ReportAt is [Top.Report] at the time now.
func (t *Top) ReportAt(now time.Time) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	r := Report{Since: time.Unix(0, t.generation*int64(t.window)), Total: t.total}
	if len(t.slots) == t.keys {
		r.Others = t.slots[0].count
	}
	r.Counts = make([]Count, len(t.slots))
	for i := range t.slots {
		s := &t.slots[i]
		r.Counts[i] = Count{s.policy, slices.Clone(s.key[:s.length]), s.count, s.error}
	}
	slices.SortFunc(r.Counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Policy, b.Policy), slices.Compare(a.Key, b.Key))
	})
	return r
}
