package overcapacity

import "fmt"

// Shard is the state of a shard, in words of its memory. Units are those that the shard
// has admitted in all, where nothing else is said. The lock of the shard guards it.
//
// A shard decides by itself when it is over capacity: when it is about to deny a key
// that is not proven over its limit, and a look at its counters shows that too many
// light keys would be denied. It ends with a generation in which less has come than in
// the window before it began.
type Shard struct {
	mode     uint64  // a Mode, and 2³² times the generations that it settles for
	from     uint64  // units when it began
	now      int64   // of the current generation: entries that were taken over, and 2³² times the moment of the last look
	before   int64   // units of the generation before
	looked   uint64  // units when it looked last
	start    uint64  // units when the current generation began
	capacity int64   // units of a window when it began to be over capacity
	rate     float64 // of false denials, averaged over a recent part of a window: as of the last look
}

// Mode is how a shard decides.
type Mode uint32

const (
	Exact    Mode = iota // it denies what cannot be shown to be within the limit
	Over                 // over capacity, it denies what is proven above the limit
	Settling             // exactly, while generations still count in which it was over capacity
)

const (
	upperHalf = 1 << 32 // unit of what is in the upper half of a word
	// Averaged is the part of a window over which the rate is averaged. At the end of a
	// fixed window within the plan it may be high for a moment, which denies hardly
	// anybody.
	Averaged = 1. / 4
	// Moments are the parts of a generation in each of which a shard that denies
	// everybody looks once.
	Moments = 64
	// nearRate is the part of the rate from which on a shard looks four times as often:
	// the rate may be ten times as high when a hundredth more has come.
	nearRate = 1. / 32
)

// Mode returns how the shard decides. The compiler inlines it.
func (s *Shard) Mode() Mode { return Mode(s.mode) }

// SettlesFor returns the generations for which the shard settles; 0 in other modes.
func (s *Shard) SettlesFor() int64 { return int64(s.mode / upperHalf) }

func (s *Shard) set(m Mode, generations int64) { s.mode = uint64(m) + uint64(generations)*upperHalf }

// Check returns an error unless the mode is one that there is.
func (s *Shard) Check() error {
	if m, n := s.Mode(), int32(s.mode/upperHalf); m > Settling || n < 0 || (m == Settling) != (n > 0) {
		return fmt.Errorf("mode %d, %d generations", m, n)
	}
	return nil
}

// Admitted returns the units of the current generation.
func (s *Shard) Admitted(admitted uint64) uint64 { return admitted - s.start }

// Counted returns the units since the shard began to be over capacity, if that counts
// still.
func (s *Shard) Counted(admitted uint64) uint64 {
	if s.Mode() == Exact {
		return 0
	}
	return admitted - s.from
}

// LastWindow returns the units of the last window, when a part of the generation has
// passed.
func (s *Shard) LastWindow(admitted uint64, elapsed float64) int64 {
	return int64(s.Admitted(admitted)) + int64(float64(s.before)*(1-elapsed))
}

// Capacity returns the units of a window that the shard bears without being over
// capacity: what it had when it began to be, and some in any case, since it may have
// begun because of a predecessor.
func (s *Shard) Capacity(least int64) int64 { return max(s.capacity, least) }

// Due reports whether it is time for a look at a moment, 1 … [Moments], of the
// generation: enough has been admitted since the last one, or a moment has passed,
// because a shard that denies everybody is to look, too.
func (s *Shard) Due(admitted, every uint64, moment int64) bool {
	return admitted-s.looked >= every || moment > s.now/upperHalf
}

// Passed returns the part of a window since the last look, by what was admitted of a
// window's units. Where nothing is, time tells.
func (s *Shard) Passed(admitted uint64, window, moment int64) float64 {
	return max(float64(admitted-s.looked)/float64(window), float64(moment-s.now/upperHalf)/Moments)
}

// Average returns the average rate when one is found after a part of a window. A shard
// looks when it denies, so where it has not for long, the rate was less.
func (s *Shard) Average(rate, passed float64) float64 {
	return s.rate*max(0, 1-passed/Averaged) + rate*min(passed, 1./Moments)/Averaged
}

// Look notes the average rate at a moment, and the rate found then, beside the one from
// which on a shard is over capacity.
func (s *Shard) Look(average, rate, highest float64, admitted, every uint64, moment int64) {
	s.rate, s.looked, s.now = average, admitted, s.now%upperHalf+moment*upperHalf
	if rate > highest*nearRate {
		s.looked -= every / 4 * 3
	}
}

// Begin makes the shard over capacity, after so many units in the last window.
func (s *Shard) Begin(admitted uint64, lastWindow int64) {
	if s.Mode() == Exact {
		s.from = admitted
	}
	s.set(Over, 0)
	s.capacity, s.rate = lastWindow, 0
}

// Settle lets a shard, which nobody asks yet, settle for so many generations.
func (s *Shard) Settle(generations int64) { s.set(Settling, generations) }

// Rotate begins a generation, some after the current one, of so many that are kept. The
// shard ends to be over capacity if it bears what has come. ends reports that, and
// exact that nothing counts any more of when it was.
func (s *Shard) Rotate(admitted uint64, passed, kept, least int64) (ends, exact bool) {
	units := int64(s.Admitted(admitted))
	s.start, s.before, s.now = admitted, units, 0
	if ends = s.Mode() == Over && (passed > 1 || units <= s.Capacity(least)/10*9); ends {
		s.set(Settling, kept)
	}
	if s.Mode() != Settling {
		return ends, false
	}
	if left := s.SettlesFor() - min(passed, s.SettlesFor()); left > 0 {
		s.set(Settling, left)
		return ends, false
	}
	s.set(Exact, 0)
	return ends, true
}

// MayTakeOver reports whether an entry may be taken over in the current generation, of
// so many at most until now.
func (s *Shard) MayTakeOver(most int64) bool {
	taken := s.TakenOver()
	if taken > most+1 { // the clock has stepped back
		s.now -= taken - most - 1
	}
	return taken <= most
}

// TakenOver returns how many entries were taken over in the current generation.
func (s *Shard) TakenOver() int64 { return s.now % upperHalf }

// TookOver counts an entry that was taken over.
func (s *Shard) TookOver() { s.now++ }

// Save makes a copy of the state one of a shard that has admitted nothing yet.
func (s *Shard) Save(admitted uint64) {
	s.start, s.looked, s.from = s.start-admitted, s.looked-admitted, s.from-admitted
}
