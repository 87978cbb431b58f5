// Package otellimit exports limiters to OpenTelemetry: how much they admit and deny,
// how full they are and how often they err.
//
//	limiters := map[string]*sketchlimit.Limiter{"api": limiter}
//	meter := otel.Meter("example.com/service")
//	registration, err := otellimit.Register(meter, metrics.Limiters(maps.All(limiters)))
//	...
//	defer registration.Unregister()
//	count, err := otellimit.Refusals(meter)
//	...
//	limit, err := httplimit.New(limiter, &httplimit.Clients{}, count)
//
// Names are those of module promlimit in the form of OpenTelemetry:
// "sketchlimit.admitted_units" is what Prometheus has as
// sketchlimit_admitted_units_total. Attributes have the names of its labels: names of
// limiters and policies, never keys, except for metrics.TopKeys.
package otellimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/metrics"
)

// Register makes asynchronous instruments of all metrics of the sources. At each
// collection, a source is read once for all of them; what took long to read is told
// again for a while, see [metrics.Source.Read]. What cannot be read is left out, and
// the error goes to OpenTelemetry's error handler.
//
// Until Unregister of the Registration is called, the sources are kept.
func Register(meter metric.Meter, sources ...*metrics.Source) (metric.Registration, error) {
	if meter == nil {
		return nil, errors.New("otellimit: meter nil, must be one")
	}
	var all []metric.Observable
	instruments := map[*metrics.Metric]metric.Float64Observable{}
	for i, s := range sources {
		if s == nil {
			return nil, fmt.Errorf("otellimit: sources[%d] nil, must be one", i)
		}
		for _, m := range s.Metrics() {
			instrument, err := newInstrument(meter, m)
			if err != nil {
				return nil, fmt.Errorf("otellimit: %w", err)
			}
			instruments[m] = instrument
			all = append(all, instrument)
		}
	}
	return meter.RegisterCallback(func(ctx context.Context, o metric.Observer) (err error) {
		for _, s := range sources {
			samples, e := s.Read(ctx)
			err = errors.Join(err, e)
			for _, sample := range samples {
				o.ObserveFloat64(instruments[sample.Metric], sample.Value, attributes(&sample))
			}
		}
		return err
	}, all...)
}

func newInstrument(meter metric.Meter, m *metrics.Metric) (metric.Float64Observable, error) {
	name, help, unit := "sketchlimit."+m.Name, metric.WithDescription(m.Help), metric.WithUnit(m.Unit)
	switch m.Kind {
	case metrics.Counter:
		return meter.Float64ObservableCounter(name, help, unit)
	case metrics.Sum:
		return meter.Float64ObservableUpDownCounter(name, help, unit)
	default:
		return meter.Float64ObservableGauge(name, help, unit)
	}
}

func attributes(s *metrics.Sample) metric.MeasurementOption {
	list := make([]attribute.KeyValue, len(s.Labels))
	for i, l := range s.Labels {
		list[i] = text(s.Metric.Labels[i], l)
	}
	return metric.WithAttributes(list...)
}

// text is an attribute of valid UTF-8: one of anything else keeps the whole export from
// being sent.
func text(name, value string) attribute.KeyValue {
	return attribute.String(name, strings.ToValidUTF8(value, "\uFFFD"))
}

// Refusals returns the option that makes a middleware count the requests that policies
// do not admit, as sketchlimit.refused_requests, by the policy's name, which is the
// attribute limiter, and whether it is in shadow mode.
func Refusals(meter metric.Meter) (httplimit.Option, error) {
	if meter == nil {
		return nil, errors.New("otellimit: meter nil, must be one")
	}
	counter, err := meter.Int64Counter("sketchlimit.refused_requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that a policy does not admit; with shadow=true it did not refuse them."))
	if err != nil {
		return nil, fmt.Errorf("otellimit: %w", err)
	}
	return httplimit.OnRefusal(func(r *http.Request, p httplimit.Policy) {
		counter.Add(r.Context(), 1, metric.WithAttributes(text("limiter", p.Name), attribute.Bool("shadow", p.Shadow)))
	}), nil
}
