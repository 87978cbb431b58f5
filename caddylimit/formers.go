package caddylimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// formersKey ends the storage key of the former limiters of a limiter.
const formersKey = "-formers"

// savedFormer is a former limiter in a snapshot, with the fields of its config that
// zones set.
type savedFormer struct {
	Limit       int
	Window      time.Duration
	Algorithm   sketchlimit.Algorithm
	Burst       int
	Keys        int
	Headroom    float64
	MemoryBytes int
	Overload    sketchlimit.Overload
	Until       time.Time
	Snapshot    []byte // packed
}

// keepFormers makes the saver keep the former limiters now.
func (l *limiter) keepFormers() {
	if l.saver != nil && l.formers.Load() != nil {
		l.owed.Store(true)
		l.saver.tell()
	}
}

// packFormers returns the former limiters that matter, newest first.
func (l *limiter) packFormers() ([]byte, error) {
	var all []savedFormer
	for _, f := range l.live(timeNow()) {
		snapshot, err := pack(f.Limiter)
		if err != nil {
			return nil, err
		}
		c := f.config
		all = append(all, savedFormer{
			c.Limit, c.Window, c.Algorithm, c.Burst, c.Keys, c.Headroom, c.MemoryBytes, c.Overload, f.until, snapshot,
		})
	}
	return json.Marshal(all)
}

// unpackFormers restores the former limiters that still matter. Those that cannot be
// restored are left out: the error is about them.
func (l *limiter) unpackFormers(packed []byte) error {
	var all []savedFormer
	if err := json.Unmarshal(packed, &all); err != nil {
		return err
	}
	var errs []error
	var formers []predecessor
	for _, one := range all[:min(len(all), maxFormers)] {
		if !timeNow().Before(one.Until) {
			continue
		}
		c := sketchlimit.Config{
			Limit: one.Limit, Window: one.Window, Algorithm: one.Algorithm, Burst: one.Burst, Keys: one.Keys,
			Headroom: one.Headroom, MemoryBytes: one.MemoryBytes, Overload: one.Overload, Clock: clock,
		}
		f, err := sketchlimit.New(c)
		if err == nil {
			err = unpack(f, one.Snapshot)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("events %d, window %v: %w", one.Limit, one.Window, err))
			continue
		}
		formers = append(formers, predecessor{f, c, one.Until})
	}
	if len(formers) > 0 {
		l.formers.Store(&formers)
	}
	return errors.Join(errs...)
}
