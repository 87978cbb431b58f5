package engine

// former reads the key in a generation as a predecessor has counted it, if there is one
// whose counts still matter, or as those have that share the limit.
func (r window) former(number int64) int64 {
	if !r.e.beside.Load() {
		return 0
	}
	if share := r.e.share.Load(); share != nil {
		return share.count(r.request, number)
	}
	before := r.e.before.Load()
	if before == nil {
		return 0
	}
	return before.counted(number, r.h)
}

// counted reads a key in a generation, by its number.
func (e *Engine) counted(number int64, h uint64) int64 {
	i := e.Shard(h)
	r := e.request(i, h)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	entry := r.e.heavy.Find(r.bucketOf(), h)
	if r.wide() {
		return overCapacity{r}.own(number, entry)
	}
	c, _ := window{r}.count(number, entry)
	return c
}
