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

// LogRefusals logs requests that a policy does not admit, or would not if it were not in
// shadow mode. A flood of them must not become a flood of lines: the limiter decides which
// are written, by the policy's name; each line says how many were not since the last.
//
// A request whose own limit, see [Limit], is below the limiter's LowestLimit is denied by mistake. The first one of each
// policy is logged as an error, whatever else is.
//
// Of what clients choose, which may be a megabyte, lines have no more than 256 bytes each.
//
// show makes a key readable or hides it, for keys may be what nobody should find in a
// log: see [Clients.KeyText]. nil leaves keys out. It must be safe for concurrent use.
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

// short cuts a text that clients choose, so that a line stays a line.
func short(s string) string {
	const most = 256
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
