package caddylimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/sketchlimit/sketchlimit"
)

// states are what zones have counted, by the settings that the counts depend on. They outlive a config of Caddy's if the next
// one has a zone with the same settings.
var states = caddy.NewUsagePool()

var (
	clock     func() time.Time // of the limiters; nil is the wall clock. Tests set it
	sequences atomic.Uint64
)

// state is what a zone has counted.
type state struct {
	zone     string
	sequence uint64 // states that began later have a higher one
	limits   []Limit
	limiters []*sketchlimit.Limiter // one for each limit
	watched  []*watched             // the same, for metrics
	shared   *shared                // nil: with nobody
	saver    *saver                 // nil: nothing is kept over a restart, because others know it
}

// settings returns what counts of the zone depend on, as text. Its key and matchers are not among it: they say which requests
// are counted, not how.
func (z *Zone) settings(limits []Limit, shared *Redis) string {
	text, err := json.Marshal([]any{
		z.name, limits, z.IPv4Prefix, z.IPv6Prefix, z.Algorithm, z.Burst, z.Keys, z.Headroom, z.Memory, z.Overload, shared,
	})
	if err != nil { // a headroom that is not a number, which configs has refused
		panic(err)
	}
	return string(text)
}

// newState returns the state of a zone that begins, with what was kept of it. Its identity is the same on all instances.
func newState(
	ctx caddy.Context, zone, identity string, limits []Limit, configs []sketchlimit.Config, with *Redis, kept kept,
) (_ *state, err error) {
	s := &state{zone: zone, sequence: sequences.Add(1), limits: limits}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if with != nil {
		if s.shared, err = newShared(ctx, with, zone, identity); err != nil {
			return nil, err
		}
	}
	for _, c := range configs {
		if s.shared != nil {
			c.Seed = s.shared.seed
		}
		l, err := sketchlimit.New(c)
		if err != nil {
			return nil, fmt.Errorf("events %d, window %v: %w", c.Limit, c.Window, err)
		}
		s.limiters = append(s.limiters, l)
		name := zone
		if len(configs) > 1 {
			name = fmt.Sprintf("%s/%v", zone, c.Window)
		}
		w := &watched{Limiter: l, name: name}
		s.watched = append(s.watched, w)
		if s.shared != nil {
			if w.share, err = s.shared.add(l, c.Window); err != nil {
				return nil, err
			}
		}
	}
	if s.shared == nil {
		if s.saver, err = newSaver(zone, identity, s.limiters, s.lasts(), kept); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// lasts returns how long the counts matter.
func (s *state) lasts() (longest time.Duration) {
	for _, l := range s.limiters {
		plan := l.Plan()
		span := 2 * l.Window()
		if plan.Burst > plan.Limit {
			span = max(span, time.Duration(float64(plan.Burst)/float64(plan.Limit)*float64(l.Window())))
		}
		longest = max(longest, span)
	}
	return longest
}

// keep says where counts are kept from now on.
func (s *state) keep(k kept) {
	if s.saver != nil {
		s.saver.keep(k)
	}
}

// asked notes that the zone was asked for a decision.
func (s *state) asked() {
	if s.saver != nil && !s.saver.due.Load() { // a write would take the line from the other processors
		s.saver.due.Store(true)
	}
}

// Destruct implements [caddy.Destructor]. No config has the zone any more.
func (s *state) Destruct() error {
	forget(s.zone)
	return s.close()
}

// close keeps what is to be kept, and ends what goes on in the background.
func (s *state) close() error {
	if s.saver != nil {
		s.saver.close()
	}
	var err error
	if s.shared != nil {
		err = s.shared.close()
	}
	for _, l := range s.limiters {
		l.Close()
	}
	return err
}
