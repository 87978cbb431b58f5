package sketchlimit

import (
	"github.com/sketchlimit/sketchlimit/internal/inside"
)

func init() {
	inside.Of = func(limiter any) inside.Parts {
		l := limiter.(*Limiter)
		return inside.Parts{
			Engine: &l.engine, Hasher: &l.hasher, Line: l.windows.line,
			Now: l.windows.now, Lower: l.lower, Lowest: int64(l.lowest), TooLow: &l.tooLow, Growth: l.growth,
		}
	}
}

// Charge counts n units of the key, now, whether they are free or not. Use it where the
// cost shows only afterwards, such as for a log-in that failed. It returns how many of
// the units were not free, which Stats counts as Overdraft. A cost below 1 counts
// nothing.
//
// A window remembers at most Limit of a key, until it has passed; a sliding window as
// much of each of its generations. A bucket remembers a debt of at most Burst units,
// which are to flow back before anything is admitted; with Limit or Burst above 1<<29 a
// smaller one.
//
// Requests under way at the same time do not see each other's costs. Package budget
// holds what they may cost meanwhile.
func (l *Limiter) Charge(key string, n int) (over int) { return l.charge(&Request{Key: key}, n) }

// DoCharge charges r, as [Limiter.Charge] does a key and a cost. With Request.Peek it
// counts nothing and returns how many units would not be free. A request with a limit
// below Config.LowestLimit counts at LowestLimit.
func (l *Limiter) DoCharge(r Request) (over int) { return l.charge(&r, r.units()) }

func (l *Limiter) charge(r *Request, n int) (over int) {
	if n < 1 {
		return 0
	}
	h, limit := l.hash(r), l.lower(r.Limit)
	if limit == 0 {
		limit = int64(l.lowest)
	}
	if r.Peek {
		p, _ := l.look(r)
		return int(l.engine.Load().Over(p, h, int64(n), 0, limit))
	}
	word, _ := l.arrive(r, limit)
	over = int(l.engine.Load().Charge(word, h, int64(n), int64(n), 0, limit))
	if over > 0 {
		l.overdraft.Add(l.engine.Load().Counted(int64(over), l.limit))
	}
	return over
}
