package exact

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/exactmath"
)

// MinInterval admits a request if the last admitted one of its key is at least an
// interval ago: the simplest limit on a rate, without any burst. Requests cost 1; a
// higher cost is above the limit.
//
// It admits what [SlidingLog] and [GCRA] with limit and burst 1 admit. A time before
// the key's last admitted request is taken as the time of that request. Memory:
// 8 bytes a key and the map around them.
type MinInterval struct {
	keyed[int64] // Unix ns of the last admitted request
}

// NewMinInterval returns a limiter that keeps admitted requests of a key at least an
// interval, 1ns … 1<<61ns, apart.
func NewMinInterval(interval time.Duration, options ...Option) (*MinInterval, error) {
	if err := checkSpan("interval", interval); err != nil {
		return nil, err
	}
	m, r := new(MinInterval), exactmath.NewMinInterval(int64(interval))
	return orNil(m, m.init(&r, purpose{limit: 1, most: 1, window: interval}, r.Initial(), options))
}
