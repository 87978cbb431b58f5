package sketchlimit

import "unsafe"

// Bytes returns what [Limiter.MemoryBytes] of a limiter of this Config will be, without
// taking the memory. It returns an error where [New] would.
func (c Config) Bytes() (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	plan, err := c.plan()
	if err != nil {
		return 0, err
	}
	l, err := newLayout(c.window(), plan, c.Seed)
	if err != nil {
		return 0, err
	}
	return fixedBytes + plan.Shards*int(unsafe.Sizeof(shard{})) + heapBytes(8*plan.Shards*l.size), nil
}
