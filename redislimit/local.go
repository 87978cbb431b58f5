package redislimit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Local is a limiter over Redis as middleware takes one: [sketchlimit.Member] has neither a context nor an error. What
// Redis does not decide, the Failure does. A call returns within the Timeout of the Config, also after the request's context
// has ended. It is safe for concurrent use.
type Local struct {
	decide func(sketchlimit.Request) sketchlimit.Decision
	window time.Duration
	lowest int
}

// Do decides on a request, see [sketchlimit.Request].
func (l *Local) Do(r sketchlimit.Request) sketchlimit.Decision { return l.decide(r) }

// Window returns the span that the limit is meant for.
func (l *Local) Window() time.Duration { return l.window }

// LowestLimit returns the lowest limit of a request's own, 0 if that is the limit.
func (l *Local) LowestLimit() int { return l.lowest }

// Local returns the limiter for middleware. While Redis is away it decides as Config.Failure says.
func (s *Strict) Local() *Local {
	lowest := s.lowest
	if lowest == s.limit {
		lowest = 0
	}
	return &Local{
		decide: func(r sketchlimit.Request) sketchlimit.Decision {
			d, _ := s.Do(context.Background(), r) // the error would be the context's
			return d
		},
		window: s.span, lowest: lowest,
	}
}

// Local returns the limiter for middleware. While Redis is away it decides as failure says: FailOpen or
// FailClosed. An Exact has no counts of this machine for FailLocal.
func (e *Exact) Local(failure Failure) (*Local, error) {
	if failure != FailOpen && failure != FailClosed {
		return nil, fmt.Errorf("redislimit: Local of an Exact with Failure %d, must be FailOpen or FailClosed", int(failure))
	}
	most := e.limit
	if e.algorithm == sketchlimit.TokenBucket {
		most = int(e.bucket.burst)
	}
	return &Local{
		decide: func(r sketchlimit.Request) sketchlimit.Decision {
			d, err := e.Do(context.Background(), r)
			if err != nil {
				return failure.Unseen(cmp.Or(r.N, 1), most, e.limit)
			}
			return d
		},
		window: e.span,
	}, nil
}
