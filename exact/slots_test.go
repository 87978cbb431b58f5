package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Massuia, "Rate Limiters" (2024): a minute in 6 slots, 10 requests. At 01:00:40 "first 2
// slots cleared" cannot be: nothing has left a window of a minute after 40s. So of the
// three requests of 01:00:50, the sixth slot and not the fifth, only two pass, and 10
// are in the window, not 7.
func TestSlotsMassuia(t *testing.T) {
	l := must(NewSlots(10, time.Minute, 6))
	for _, at := range []string{"01:00:05", "01:00:15", "01:00:25", "01:00:35"} {
		require.Equal(t, 2, admitted(l, clock(at), 2))
	}
	require.Equal(t, 2, l.PeekAt(clock("01:00:40"), "key", 1).Remaining)
	require.Equal(t, 2, admitted(l, clock("01:00:50"), 3))
	// The slot of 01:00:00 begins to leave at 01:01:00; half of its two are one unit.
	require.Equal(t, 15*time.Second, l.PeekAt(clock("01:00:50"), "key", 1).RetryAfter)
}

// "Algorithm of Rate Limiter" (2025), the roller coaster: 10 riders a minute in slots of
// 10s. Its table weighs each slot by its age in the window, 1/6 to 6/6, and arrives at
// 3.33, or "actually 3.5". But slots that lie wholly in the window count in full,
// and only the one the window's edge cuts is weighted: 7 riders. Rider 10 does get on,
// and so do two more, not six.
func TestSlotsRollerCoaster(t *testing.T) {
	l := must(NewSlots(10, time.Minute, 6))
	for _, c := range []struct {
		slot   string
		riders int
	}{{"12:00:10", 2}, {"12:00:20", 1}, {"12:00:30", 2}, {"12:00:40", 1}, {"12:01:00", 1}} {
		l.Charge(clock(c.slot), "key", c.riders)
	}
	now := clock("12:01:01")
	require.Equal(t, 3, l.PeekAt(now, "key", 1).Remaining)
	require.Equal(t, 3, admitted(l, now, 6))
	// 12:00:10 is cut from 12:01:10 on; half its riders are one place, at 12:01:15.
	require.Equal(t, 14*time.Second, l.PeekAt(now, "key", 1).RetryAfter)
}

// The same, usage example: SlidingWindowCounter(60, 10, 6), 15 requests at once. (Its
// code multiplies a slot's start, which is a time already, by the slot's length, so
// that its weights are all 1 and nothing expires.)
func TestSlotsUsageExample(t *testing.T) {
	require.Equal(t, 10, admitted(must(NewSlots(10, time.Minute, 6)), noon, 15))
}

// Of m+1 counts only the oldest is weighted, and it leaves m slots after its own.
func TestSlotsKeepOneMoreThanTheWindow(t *testing.T) {
	take(t, must(NewSlots(4, time.Second, 4)), noon,
		step{0, 4, yes(0, 1250*ms)},
		step{999 * ms, 1, no(0, 64*ms-ms/2, 251*ms)}, // a quarter of the slot decays by 1062.5ms
		step{1063*ms - ms/2 - 1, 1, no(0, 1, 188*ms-ms/2+1)},
		step{1063*ms - ms/2, 1, yes(0, 1188*ms-ms/2)},
	)
}
