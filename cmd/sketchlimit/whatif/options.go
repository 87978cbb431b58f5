package whatif

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Request is one request of the log.
type Request struct {
	At   int64  // Unix ns
	Key  []byte // valid only during the call
	Cost uint32 // units. Every limit refuses a cost of 0, and one above it.
}

// Options say what to count. The zero value is the default.
type Options struct {
	Windows []time.Duration // 1ms … 8760h each; at most 16; none: 1 s, 10 s, 1 min, 10 min and 1 h
	Limits  []int           // 1 … 1<<30 each; at most 64; none: 1, 2, 5, 10 … 100,000
	Exact   bool            // every key is followed, whatever memory that takes
	// ExactBelow is the number of requests below which every key is followed, too. They
	// are kept until there are so many.
	ExactBelow int
	Seed       uint64 // of the hash of keys; the same seed gives the same report
	Memory     int    // bytes for counts, 8 MiB … 1<<40 (2 GiB where int has 32 bits); 0 = 64 MiB
	Sample     int    // keys whose use is told, 16 … 1<<24; 0 = 8192
}

// What a window may be.
const MinWindow, MaxWindow = time.Millisecond, 8760 * time.Hour

const (
	maxLimit             = 1 << 30
	minMemory            = 8 << 20
	maxMemory            = min(1<<40, math.MaxInt) // an int of 32 bits holds no more
	tableMemory          = 64 << 10
	minSample, maxSample = 16, 1 << 24
	mostWindows          = 16
	mostLimits           = 64
)

// filled returns the options with the defaults in place of zeros, sorted; or what is
// wrong with them.
func (o Options) filled() (Options, error) {
	if len(o.Windows) == 0 {
		o.Windows = []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
	}
	if len(o.Limits) == 0 {
		for ten := 1; ten <= 10_000; ten *= 10 {
			o.Limits = append(o.Limits, ten, 2*ten, 5*ten)
		}
		o.Limits = append(o.Limits, 100_000)
	}
	if len(o.Windows) > mostWindows {
		return o, fmt.Errorf("whatif: %d Windows, must be 1 … %d", len(o.Windows), mostWindows)
	}
	if len(o.Limits) > mostLimits {
		return o, fmt.Errorf("whatif: %d Limits, must be 1 … %d", len(o.Limits), mostLimits)
	}
	for _, w := range o.Windows {
		if w < MinWindow || w > MaxWindow {
			return o, fmt.Errorf("whatif: Windows %s, must be %s … %s", Span(w), Span(MinWindow), Span(MaxWindow))
		}
	}
	for _, l := range o.Limits {
		if l < 1 || l > maxLimit {
			return o, fmt.Errorf("whatif: Limits %d, must be 1 … %d", l, maxLimit)
		}
	}
	if o.Memory == 0 {
		o.Memory = 64 << 20
	}
	if o.Memory < minMemory || o.Memory > maxMemory {
		return o, fmt.Errorf("whatif: Memory %d, must be %d … %d", o.Memory, minMemory, maxMemory)
	}
	if tables := len(o.Windows) * len(o.Limits); !o.Exact && o.Memory/tables < tableMemory {
		return o, fmt.Errorf("whatif: Memory %d, must be at least %d for %d windows with %d limits",
			o.Memory, tables*tableMemory, len(o.Windows), len(o.Limits))
	}
	if o.Sample == 0 {
		o.Sample = 8192
	}
	if o.Sample < minSample || o.Sample > maxSample {
		return o, fmt.Errorf("whatif: Sample %d, must be %d … %d", o.Sample, minSample, maxSample)
	}
	if o.Exact {
		o.Memory, o.Sample = math.MaxInt, math.MaxInt
	}
	o.Windows, o.Limits = slices.Clone(o.Windows), slices.Clone(o.Limits)
	slices.Sort(o.Windows)
	slices.Sort(o.Limits)
	o.Windows, o.Limits = slices.Compact(o.Windows), slices.Compact(o.Limits)
	return o, nil
}
