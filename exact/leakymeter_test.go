package exact

import (
	"testing"
	"time"
)

// Turner (1986): a counter goes up with every packet and down at a fixed rate, and a
// packet that would carry it past its threshold is discarded. TokenBucket's tables
// apply as well (TestTokenBucketIsLeakyMeterIsGCRA).
func TestLeakyMeterTurner(t *testing.T) {
	take(t, must(NewLeakyMeter(2, time.Second, 3)), noon,
		step{0, 1, yes(2, 500*ms)},
		step{0, 2, yes(0, 1500*ms)},
		step{250 * ms, 1, no(0, 250*ms, 1250*ms)}, // half a unit has leaked
		step{500 * ms, 1, yes(0, 1500*ms)},
		step{1500 * ms, 2, yes(0, 1500*ms)},
		step{9000 * ms, 3, yes(0, 1500*ms)}, // empty, and not below
	)
}
