package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/DataDog/datadog-go/v5/statsd"
	stats "github.com/lyft/gostats"
)

// dogStatsd sends statistics to DogStatsD, which has tags of its own.
type dogStatsd struct {
	client     *statsd.Client
	mogrifiers []mogrifier
}

func newDogStatsd(set *statsSettings) (stats.Sink, error) {
	mogrifiers, err := readMogrifiers(set.Mogrifiers)
	if err != nil {
		return nil, err
	}
	client, err := statsd.New(net.JoinHostPort(set.StatsdHost, strconv.Itoa(set.StatsdPort)), statsd.WithoutTelemetry())
	if err != nil {
		return nil, fmt.Errorf("USE_DOG_STATSD: %w", err)
	}
	return &dogStatsd{client, mogrifiers}, nil
}

// FlushCounter implements [stats.Sink].
func (d *dogStatsd) FlushCounter(name string, value uint64) {
	name, tags := d.tags(name)
	d.client.Count(name, int64(value), tags, 1)
}

// FlushGauge implements [stats.Sink].
func (d *dogStatsd) FlushGauge(name string, value uint64) {
	name, tags := d.tags(name)
	d.client.Gauge(name, float64(value), tags, 1)
}

// FlushTimer implements [stats.Sink].
func (d *dogStatsd) FlushTimer(name string, milliseconds float64) {
	name, tags := d.tags(name)
	d.client.Timing(name, time.Duration(milliseconds*float64(time.Millisecond)), tags, 1)
}

// tags returns a name without its tags, which the store writes behind it as
// .__tag=value, and all tags.
func (d *dogStatsd) tags(name string) (string, []string) {
	parts := strings.Split(name, ".__")
	name, tags := mogrify(d.mogrifiers, parts[0])
	for _, part := range parts[1:] {
		if tag, value, ok := strings.Cut(part, "="); ok {
			tags = append(tags, tag+":"+value)
		}
	}
	return name, tags
}
