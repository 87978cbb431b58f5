package sketchlimit

import "unsafe"

// Dimensions returns what [Limiter.Plan] of a limiter of this Config will be, without
// taking the memory. It returns an error where [New] would.
func (c Config) Dimensions() (Plan, error) {
	if err := c.check(); err != nil {
		return Plan{}, err
	}
	return c.plan()
}

// Bytes returns what [Limiter.MemoryBytes] of a limiter of this Config will be, without
// taking the memory. It returns an error where [New] would.
func (c Config) Bytes() (int, error) {
	plan, err := c.Dimensions()
	if err != nil {
		return 0, err
	}
	l, err := newLayout(c.window(), plan, c.Seed)
	if err != nil {
		return 0, err
	}
	return fixedBytes + plan.Shards*int(unsafe.Sizeof(shard{})) + heapBytes(8*plan.Shards*l.size), nil
}
