package main

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	stats "github.com/lyft/gostats"
	"github.com/prometheus/client_golang/prometheus"
)

// newSink returns where statistics go.
func newSink(set *statsSettings, registry prometheus.Registerer, logger *slog.Logger) (stats.Sink, error) {
	switch {
	case set.Disable:
		return stats.NewNullSink(), nil
	case set.DogStatsd:
		return newDogStatsd(set)
	case set.Prometheus:
		return newPrometheus(set, registry)
	case set.Statsd:
		return stats.NewNetSink(stats.WithStatsdHost(set.StatsdHost), stats.WithStatsdPort(set.StatsdPort),
			stats.WithStatsdProtocol(set.StatsdProtocol), stats.WithLogger(&sinkLog{logger: logger})), nil
	default:
		return stats.NewLoggingSink(), nil
	}
}

// sinkLog is told every three seconds that there is no statsd, and says so once a minute.
type sinkLog struct {
	logger *slog.Logger
	mu     sync.Mutex
	last   time.Time
}

// Warnf implements [stats.Logger].
func (l *sinkLog) Warnf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.last) >= time.Minute {
		l.last = time.Now()
		l.logger.Warn("statsd", "error", fmt.Sprintf(format, args...))
	}
}

// Errorf implements [stats.Logger].
func (l *sinkLog) Errorf(format string, args ...any) { l.Warnf(format, args...) }
