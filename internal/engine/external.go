package engine

// seal waits until everybody has left the shards who locked one before there was a successor. From then on nothing
// changes the predecessor: a decision that locks one of its shards finds the successor, and goes on there. The caller
// holds no lock of a shard.
func (b *predecessor) seal() {
	if b.sealed.Load() {
		return
	}
	for i := range b.e.shards {
		s := &b.e.shards[i]
		s.mu.Lock()
		s.last.Clear() // whoever finds a denial here asks the successor now
		s.mu.Unlock()
	}
	b.sealed.Store(true)
}

// at returns a key's place, and whether it has locked its shard, which the caller is to unlock.
func (b *predecessor) at(h uint64) (r request, locked bool) {
	r = b.e.request(b.e.Shard(h), h)
	if locked = !b.sealed.Load(); locked {
		r.s.mu.Lock()
	}
	return r, locked
}

func (b *predecessor) Count(number int64, h uint64) int64 {
	r, locked := b.at(h)
	if locked {
		defer r.s.mu.Unlock()
	}
	if r.sparing() { // its cells count no more
		return overCapacity{r}.own(number, overCapacity{r}.find())
	}
	entry := r.e.heavy.Find(r.entries(), h)
	c, _ := window{r}.count(number, entry)
	return c
}

func (*predecessor) Bound(uint64, int64) (units int64, ok bool) { return 0, false }
func (*predecessor) Admit(uint64, int64)                        {}
func (*predecessor) Rotate(int, int64, int)                     {}
