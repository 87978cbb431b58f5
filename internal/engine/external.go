package engine

// predecessor is an engine whose counts matter to its successor.
type predecessor Engine

// follow makes an engine whose counts matter as well the predecessor, or none.
func (e *Engine) follow(before *Engine) {
	if before == nil {
		e.external.Store(nil)
		return
	}
	x := external((*predecessor)(before))
	e.external.Store(&x)
}

// predecessor returns the predecessor while its counts matter, or else nil.
func (e *Engine) predecessor() *Engine {
	if x := e.external.Load(); x != nil {
		before, _ := (*x).(*predecessor)
		return (*Engine)(before)
	}
	return nil
}

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

// former returns the units of the key in a generation that are counted elsewhere.
func (r window) former(number int64) int64 {
	if x := r.e.external.Load(); x != nil {
		return (*x).count(number, r.h)
	}
	return 0
}
