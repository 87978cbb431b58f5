package corednslimit

import (
	"time"

	"github.com/sketchlimit/sketchlimit/internal/refresh"
)

// lookEvery is how often it is looked at whether the memory of a block is too small, at least.
var lookEvery = 10 * time.Second

// watch logs once when the memory of a block becomes too small, and once when it is enough again, until the channel is closed.
// What it reads takes a tenth of the time at most.
func (h *served) watch(of block, done <-chan struct{}) {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	outside, queue := false, new(refresh.Queue)
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		start, reading := time.Now(), queue.Start()
		rate, known := refresh.Get(&reading, &h.rate, h.handler.MemoryBytes(), h.handler.FalseDenialRate)
		if !known { // it is read in the background
			timer.Reset(lookEvery)
			continue
		}
		switch now := rate > plannedRate; {
		case now && !outside:
			log.Warningf("%s: more networks and names than memory is for: the first response to a client is refused with a chance of %.2g; "+
				"raise memory, which is %d bytes", of.keys, rate, h.handler.MemoryBytes())
			outside = true
		case !now && outside && rate < plannedRate/2:
			log.Infof("%s: memory is enough again", of.keys)
			outside = false
		}
		timer.Reset(max(lookEvery, 9*time.Since(start)))
	}
}
