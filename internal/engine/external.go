package engine

import "sync/atomic"

// predecessor is an engine whose counts matter to its successor.
type predecessor struct {
	e      *Engine
	sealed atomic.Bool // nothing changes it any more, so it is read without its locks
}

// twoExternals are the counts of a predecessor, and those of others that share the limit.
type twoExternals struct {
	*predecessor
	others External
}

func (b *twoExternals) Count(number int64, h uint64) int64 {
	return b.predecessor.Count(number, h) + b.others.Count(number, h)
}

func (b *twoExternals) Admit(number int64, h uint64, count int64) {
	b.others.Admit(number, h, count+b.predecessor.Count(number, h))
}

func (b *twoExternals) Rotate(i int, number int64, expired int) { b.others.Rotate(i, number, expired) }

// SetOthers makes counts those of others that share the limit, unless there are some. The engine is not replaced meanwhile.
func (e *Engine) SetOthers(others External) {
	if e.Others() == nil {
		e.follow(e.Before(), others)
	}
}

// Others returns the counts of others that share the limit, or nil.
func (e *Engine) Others() External {
	if x := e.external.Load(); x != nil {
		switch x := (*x).(type) {
		case *predecessor:
			return nil
		case *twoExternals:
			return x.others
		default:
			return x
		}
	}
	return nil
}

// follow sets the external counts: of an engine and of others that share the limit, either or both nil.
func (e *Engine) follow(before *Engine, others External) {
	x := others
	switch {
	case before != nil && others != nil:
		x = &twoExternals{&predecessor{e: before}, others}
	case before != nil:
		x = &predecessor{e: before}
	case others == nil:
		e.external.Store(nil)
		return
	}
	e.external.Store(&x)
}

// predecessor returns the predecessor while its counts matter, or else nil.
func (e *Engine) predecessor() *predecessor {
	if x := e.external.Load(); x != nil {
		switch x := (*x).(type) {
		case *predecessor:
			return x
		case *twoExternals:
			return x.predecessor
		}
	}
	return nil
}

// Before returns the engine that e has replaced while its counts matter, or else nil.
func (e *Engine) Before() *Engine {
	if b := e.predecessor(); b != nil {
		return b.e
	}
	return nil
}

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
		s.denials.Clear() // whoever finds a denial here asks the successor now
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
	if r.isOverCapacity() { // its cells count no more
		return overCapacity{r}.own(number, overCapacity{r}.find())
	}
	entry := r.e.heavy.Find(r.entries(), h)
	c, _ := window{r}.count(number, entry)
	return c
}

func (*predecessor) Bound(uint64, int64) (units int64, ok bool) { return 0, false }
func (*predecessor) Admit(int64, uint64, int64)                 {}
func (*predecessor) Rotate(int, int64, int)                     {}
