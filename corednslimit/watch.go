package corednslimit

import (
	"maps"
	"time"

	"github.com/sketchlimit/sketchlimit/metrics/refresh"
)

// lookEvery is how often it is looked at whether the memory of blocks is too small.
const lookEvery = time.Minute

// watch looks at all handlers until there are none.
func (s *handlers) watch() {
	for {
		time.Sleep(lookEvery)
		s.mu.Lock()
		now := maps.Clone(s.of)
		s.watching = len(now) > 0
		s.mu.Unlock()
		if len(now) == 0 {
			return
		}
		s.look(now)
	}
}

// look logs once when the memory of a block has become too small, and once when it is
// enough again. What it reads is read as for scrapes: the most of it in the background,
// in a tenth of a core.
func (s *handlers) look(now map[block]*served) {
	reading := s.queue.Start()
	for of, h := range now {
		rate, known := refresh.Get(&reading, &h.rate, h.handler.MemoryBytes(), h.handler.FalseDenialRate)
		switch {
		case !known:
		case rate > plannedRate && !h.outside:
			log.Warningf("%s: more networks and names than memory is for: the first response to a client is refused with a chance of %.2g; "+
				"raise memory, which is %d bytes", of.keys, rate, h.handler.MemoryBytes())
			h.outside = true
		case rate < plannedRate/2 && h.outside:
			log.Infof("%s: memory is enough again", of.keys)
			h.outside = false
		}
	}
}
