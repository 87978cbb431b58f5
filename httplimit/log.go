package httplimit

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sketchlimit/sketchlimit"
)

// LogRefusals logs requests that a policy does not admit, also in shadow mode. So that
// a flood of them does not become a flood of lines, limiter decides by the policy's
// name which lines are written; each line has the number left out since the last.
//
// The first request of each policy whose own limit, see [Limit], is below the limiter's
// LowestLimit is logged as an error, because such a limit denies every request.
//
// Strings that clients choose are cut to 256 bytes.
//
// show returns a key as text, or hides what should not be in a log; see
// [Clients.KeyText]. nil leaves keys out. It must be safe for concurrent use.
func LogRefusals(logger *slog.Logger, limiter *sketchlimit.Limiter, show func(key []byte) string) Option {
	unlogged := new(atomic.Uint64)
	tooLow := new(sync.Map) // names of policies that have denied a limit below the lowest
	log := OnRefusal(func(r *http.Request, p Policy) {
		if p.belowLowest() {
			if _, logged := tooLow.LoadOrStore(p.Name, true); !logged {
				logger.LogAttrs(r.Context(), slog.LevelError, "request's own limit is below LowestLimit of the limiter, which denies all such requests",
					slog.String("policy", p.Name), slog.Int("limit", p.own))
			}
		}
		if !limiter.Allow(p.Name) {
			unlogged.Add(1)
			return
		}
		attrs := []slog.Attr{slog.String("policy", p.Name), slog.String("method", short(r.Method)), slog.String("path", short(r.URL.Path))}
		if show != nil {
			attrs = append(attrs, slog.String("key", short(show(p.Key))))
		}
		if p.RetryAfter != sketchlimit.Never {
			attrs = append(attrs, slog.Duration("retry_after", p.RetryAfter))
		}
		attrs = append(attrs, slog.Bool("shadow", p.Shadow), slog.Uint64("unlogged", unlogged.Swap(0)))
		logger.LogAttrs(r.Context(), slog.LevelWarn, "request over its limit", attrs...)
	})
	return func(m *middleware) error {
		if logger == nil || limiter == nil {
			return errors.New("LogRefusals nil, must be a logger and a limiter")
		}
		return log(m)
	}
}

// short cuts a string that clients choose.
func short(s string) string {
	const most = 256
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
