package caddylimit

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/sketchlimit/sketchlimit"
)

// states are what zones have counted, by the settings that the counts depend on. They
// outlive a config of Caddy's if the next one has a zone with the same settings.
var states = caddy.NewUsagePool()

var (
	clock     func() time.Time // of the limiters; nil is the wall clock. Tests set it
	sequences atomic.Uint64
)

// state is what a zone has counted.
type state struct {
	zone     string
	settings settings
	kept     atomic.Pointer[kept] // as the latest config says that has it
	sequence uint64               // states that began later have a higher one
	v4, v6   int                  // prefixes
	limiters []*limiter           // one for each limit
	held     atomic.Int64         // bytes of these, until they are closed
	shared   *shared              // nil: with nobody
	stop     func()               // ends the watch
	saver    *saver               // nil: nothing is kept over a restart; if shared, because others know it
}

// newState returns the state of a zone that begins, with what was kept of it.
func newState(z *Zone) (_ *state, err error) {
	s := &state{zone: z.name, settings: z.settings, v4: z.IPv4Prefix, v6: z.IPv6Prefix, sequence: sequences.Add(1)}
	s.kept.Store(&z.kept)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if z.redis != nil {
		if s.shared, err = newShared(z); err != nil {
			return nil, err
		}
	}
	for _, c := range z.configs {
		if s.shared != nil {
			c.Seed = s.shared.seed
		}
		if err := fits(c); err != nil {
			return nil, fmt.Errorf("events %d, window %v: %w", c.Limit, c.Window, err)
		}
		l := &limiter{config: c, name: fmt.Sprintf("%s/%v", z.name, c.Window)}
		if l.Limiter, err = sketchlimit.New(c); err != nil {
			return nil, fmt.Errorf("events %d, window %v: %w", c.Limit, c.Window, err)
		}
		s.limiters = append(s.limiters, l)
		bytes := int64(l.MemoryBytes())
		s.held.Add(bytes)
		held.Add(bytes)
	}
	if s.shared != nil {
		if err := s.shared.connect(s.limiters); err != nil {
			return nil, err
		}
	} else {
		s.saver = newSaver(z.name, z.settings.identity(), s.limiters, z.kept)
	}
	s.watch()
	return s, nil
}

// held is the bytes of all limiters of zones that are. In a reload, those of the config
// before are among them.
var held atomic.Int64

// fits returns an error if a limiter would not fit beside all others: it would end the
// server, where one that is refused leaves the config before.
func fits(c sketchlimit.Config) error {
	_, bytes, err := c.Size()
	if err != nil {
		return nil // which New explains
	}
	total := int(held.Load()) + bytes
	if err := sketchlimit.CheckMemory(total); err != nil {
		return fmt.Errorf("memory of %d bytes, with that of all zones and of the config that runs: %s", bytes, words.Replace(err.Error()))
	}
	return nil
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
	err := s.close()
	for _, l := range s.limiters {
		for heir := l.heir.Load(); heir != nil; heir = heir.heir.Load() {
			heir.keepFormers() // they have what this one has counted to its end
		}
	}
	return err
}

// close keeps what is to be kept, and ends what goes on in the background.
func (s *state) close() error {
	if s.stop != nil {
		s.stop()
	}
	if s.saver != nil {
		s.saver.close()
	}
	var err error
	if s.shared != nil {
		err = s.shared.close()
	}
	held.Add(-s.held.Swap(0))
	for _, l := range s.limiters {
		l.Close()
	}
	return err
}
