package caddylimit

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// watchEvery is how often a zone is looked at. Tests set it.
var watchEvery = time.Minute

// toldEvery is how often the log has a line about a limit at most.
const toldEvery = time.Hour

// watch logs the zone's memory, and from then on warns if the zone meets more than it
// is made for.
func (s *state) watch() {
	for _, l := range s.limiters {
		log().Info("zone counts", l.fields()...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	ticker := time.NewTicker(watchEvery)
	go func() {
		defer ticker.Stop()
		warnedAt := make([]time.Time, len(s.limiters))
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				for i, l := range s.limiters {
					if now.Sub(warnedAt[i]) >= toldEvery && l.warn() {
						warnedAt[i] = now
					}
				}
			}
		}
	}()
}

// warn logs if the limiter meets more than it is made for, and reports whether it did.
func (l *limiter) warn() bool {
	stats := l.Stats()
	if stats.OutsidePlan {
		rate, _, _ := stats.Audit.Rate()
		log().Warn("zone meets more than it is made for, and may deny ordinary clients: set keys, memory or overload",
			append(l.fields(), zap.Float64("keys_now", max(stats.DistinctKeys, stats.PreviousDistinctKeys)),
				zap.Float64("audited_false_denial_rate", rate))...)
	}
	return stats.OutsidePlan
}

// fields are what the log tells of a limiter.
func (l *limiter) fields() []zap.Field {
	return []zap.Field{
		zap.String("limiter", l.name), zap.Int("events", l.config.Limit), zap.Int("keys", l.config.Keys),
		zap.Int("memory_bytes", l.MemoryBytes()),
	}
}
