package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// The Limiter class that the notes with Kong's and Smyte's descriptions begin with: a
// request passes if the last one that did was qps_millis ago. That is qps × 1000 there,
// so 10 a second would be one every 10s; the interval must be 1000ms / qps.
func TestMinIntervalOfQPS(t *testing.T) {
	const qps = 10
	m := must(NewMinInterval(1000 * ms / qps))
	take(t, m, noon,
		step{0, 1, yes(0, 100*ms)},
		step{100*ms - 1, 1, no(0, 1, 1)},
		step{100 * ms, 1, yes(0, 100*ms)}, // exactly the interval is enough, there as here
		step{150 * ms, 1, no(0, 50*ms, 50*ms)},
		step{150 * ms, 2, no(0, sketchlimit.Never, 50*ms)},
	)
	n := 0
	for at := time.Second; at < 2*time.Second; at += ms {
		n += admitted(m, noon.Add(at), 1)
	}
	require.Equal(t, qps, n)
}
