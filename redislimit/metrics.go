package redislimit

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/metrics"
)

// strictReading is the picture of a Strict.
type strictReading struct {
	StrictStats
	bytes int
	known bool // the rates are
}

// rate returns a rate of the reading, NaN if it is not known.
func (r *strictReading) rate(v float64) float64 {
	if !r.known {
		return math.NaN()
	}
	return v
}

// of is a metric of a limiter.
func of[S any](name, unit string, kind metrics.Kind, help string, value func(S) float64) metrics.Of[S] {
	m := metrics.Metric{Name: name, Help: help, Unit: unit, Kind: kind, Labels: []string{"limiter"}}
	return metrics.Of[S]{Metric: m, Value: value}
}

var strictTable = []metrics.Of[*strictReading]{
	of("strict.admitted_units", "{unit}", metrics.Counter,
		"Units that this machine was admitted, by Redis and without it.",
		func(r *strictReading) float64 { return float64(r.Admitted) }),
	of("strict.denied_units", "{unit}", metrics.Counter, "Units that this machine was denied.",
		func(r *strictReading) float64 { return float64(r.Denied) }),
	of("strict.too_low_requests", "{request}", metrics.Counter,
		"Requests with a limit below the lowest that the limiter is made for: all denied.",
		func(r *strictReading) float64 { return float64(r.TooLow) }),
	of("strict.false_denial_rate", "{denial}/{request}", metrics.Gauge,
		"Chance, 0 to 1, that a key which nobody has seen is denied its first unit now.",
		func(r *strictReading) float64 { return r.rate(r.FalseDenialRate) }),
	of("strict.sketch_fill_ratio", "1", metrics.Gauge, "Share, 0 to 1, of cells above 0 in the current generation.",
		func(r *strictReading) float64 { return r.rate(r.SketchFill) }),
	of("strict.memory", "By", metrics.Gauge, "Memory that the limiter takes in Redis at most, for all machines.",
		func(r *strictReading) float64 { return float64(r.bytes) }),
	of("strict.away", "", metrics.Gauge, away, func(r *strictReading) float64 { return metrics.One(r.Away) }),
	of("strict.away_changes", "{change}", metrics.Counter, awayChanges,
		func(r *strictReading) float64 { return float64(r.Changes) }),
	of("strict.evicting", "", metrics.Gauge, evicting, func(r *strictReading) float64 { return r.Eviction.truth() }),
}

const (
	away        = "1 while Redis does not answer, or a part of it; otherwise 0."
	awayChanges = "Times that this has changed, of each server and way."
	evicting    = "1 if Redis may lose counts because its memory is full, otherwise 0."
)

// truth is 1 if counts may be lost, 0 if not, NaN if nobody knows.
func (e Eviction) truth() float64 {
	if e == EvictionUnknown {
		return math.NaN()
	}
	return metrics.One(e != EvictionNone)
}

// StrictMetrics returns the Source of limiters, by their names, for promlimit.Collector and otellimit.Register. A
// reading asks Redis, see [Strict.Stats], for 5 s at most; while that does not answer, it has no rates.
func StrictMetrics(limiters iter.Seq2[string, *Strict]) *metrics.Source {
	return metrics.NewSource(metrics.All(strictTable), func(ctx context.Context) (list []metrics.Sample, err error) {
		for name, s := range limiters {
			within, cancel := context.WithTimeout(ctx, 5*time.Second)
			stats, e := s.Stats(within)
			cancel()
			err = errors.Join(err, e)
			list = metrics.Append(list, strictTable, &strictReading{stats, s.MemoryBytes(), e == nil}, name)
		}
		return list, err
	})
}

var syncedTable = []metrics.Of[*SyncedStats]{
	of("synced.exchanges", "{exchange}", metrics.Counter, "Exchanges that succeeded.",
		func(s *SyncedStats) float64 { return float64(s.Exchanges) }),
	of("synced.failed_exchanges", "{exchange}", metrics.Counter, "Exchanges that failed, wholly or in part.",
		func(s *SyncedStats) float64 { return float64(s.Failures) }),
	of("synced.latest_exchange_timestamp", "s", metrics.Gauge, "Unix time of the latest exchange that succeeded.",
		func(s *SyncedStats) float64 {
			if s.Latest.IsZero() {
				return math.NaN()
			}
			return float64(s.Latest.UnixMicro()) / 1e6
		}),
	of("synced.sent", "By", metrics.Counter, "What was sent to Redis, in its protocol.",
		func(s *SyncedStats) float64 { return float64(s.SentBytes) }),
	of("synced.received", "By", metrics.Counter, "What Redis sent.",
		func(s *SyncedStats) float64 { return float64(s.ReceivedBytes) }),
	of("synced.losses", "{loss}", metrics.Counter,
		"Times that Redis, or a part of it, had lost what it knew, and was told again.",
		func(s *SyncedStats) float64 { return float64(s.Lost) }),
	of("synced.clock_skew", "s", metrics.Gauge, "How far this machine's clock is ahead of that of Redis.",
		func(s *SyncedStats) float64 { return s.ClockSkew.Seconds() }),
	of("synced.away", "", metrics.Gauge, away, func(s *SyncedStats) float64 { return metrics.One(s.Away) }),
	of("synced.away_changes", "{change}", metrics.Counter, awayChanges,
		func(s *SyncedStats) float64 { return float64(s.Changes) }),
	of("synced.evicting", "", metrics.Gauge, evicting, func(s *SyncedStats) float64 { return s.Eviction.truth() }),
}

// SyncedMetrics returns the Source of exchanges, as [StrictMetrics] does. What a Synced decides is told by
// metrics.Limiters, of its limiter.
func SyncedMetrics(limiters iter.Seq2[string, *Synced]) *metrics.Source {
	return metrics.NewSource(metrics.All(syncedTable), func(context.Context) (list []metrics.Sample, _ error) {
		for name, s := range limiters {
			stats := s.Stats()
			list = metrics.Append(list, syncedTable, &stats, name)
		}
		return list, nil
	})
}
