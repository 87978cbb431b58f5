package engine

// count locks the key's shard, which is another one than that of the successor.
func (b *predecessor) count(number int64, h uint64) int64 {
	e := (*Engine)(b)
	r := e.request(e.Shard(h), h)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	entry := r.e.heavy.Find(r.bucketOf(), h)
	if r.wide() {
		return overCapacity{r}.own(number, entry)
	}
	c, _ := window{r}.count(number, entry)
	return c
}

func (*predecessor) bound(uint64, int64) (units int64, ok bool) { return 0, false }
func (*predecessor) admit(uint64, int64)                        {}
func (*predecessor) rotate(request, int)                        {}
