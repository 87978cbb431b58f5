package engine

import "sync/atomic"

// costs tells what requests have cost lately: those of Sampled keys that were admitted, of which each counts half as much
// after some thousand others.
type costs struct{ requests, units atomic.Uint64 }

// costMemory is the requests after which all so far count half.
const costMemory = 1 << 12

func (c *costs) add(units int64) {
	sum := c.units.Add(uint64(units))
	if n := c.requests.Add(1); n >= costMemory { // what others add in between may be lost
		c.units.Store(sum / 2)
		c.requests.Store(n / 2)
	}
}

// mean returns the mean cost of a request, 1 if none was sampled yet.
func (c *costs) mean() float64 {
	requests, units := c.requests.Load(), c.units.Load()
	if requests == 0 {
		return 1
	}
	return max(1, float64(units)/float64(requests))
}
