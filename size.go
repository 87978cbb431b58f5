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
	if _, _, err := newHasher(c.Hash, c.Seed); err != nil {
		return 0, err
	}
	return c.window().bytes(plan)
}

// bytes returns what a limiter of a checked plan takes.
func (w window) bytes(p Plan) (int, error) {
	l, err := newLayout(w, p, hasher{})
	if err != nil {
		return 0, err
	}
	return fixedBytes + p.Shards*int(unsafe.Sizeof(shard{})) + heapBytes(8*p.Shards*l.size), nil
}
