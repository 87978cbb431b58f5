package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// indexFile is the file of a snapshot that tells what the others are.
const indexFile = "index.json"

// temporaryIndex begins the names of indexes that are being written.
const temporaryIndex = indexFile + ".tmp"

// saved is a limiter of a snapshot.
type saved struct {
	File                string
	Domain, Path, Exact string
	Keyed               bool
	Limit               int
	Window              time.Duration
	Algorithm           sketchlimit.Algorithm
	Burst, Keys         int
	Units               float64
	Headroom            float64
	Rate                float64
	Memory              int
	Overload            sketchlimit.Overload
	Months              bool `json:",omitempty"`
	Made, MadeBurst     int  // what it was made for, if it has gone on under other limits; otherwise 0
	Reach               int  // the highest of these
	Former              bool // it had been replaced
	Until               time.Time
}

func (c *counter) saved(file string) saved {
	return saved{
		File: file, Domain: c.place.domain, Path: c.place.path, Exact: c.place.exact, Keyed: c.place.keyed,
		Limit: c.limit, Window: c.window, Algorithm: c.algorithm, Burst: c.burst, Keys: c.keys, Units: c.units,
		Headroom: c.headroom, Rate: c.rate, Memory: c.memory, Overload: c.overload, Months: c.months,
	}
}

func (s *saved) counter() counter {
	return counter{
		place{s.Domain, s.Path, s.Exact, s.Keyed}, s.Limit, s.Window, s.Algorithm, s.Burst, s.Keys, s.Units, s.Headroom,
		s.Rate, s.Memory, s.Overload, s.Months,
	}
}

// Save writes the counts of all rules into a folder, which it makes if it is not there:
// a file for each limiter, see [sketchlimit.Limiter.Save], and an index, which is
// written last. Counts of rules that are not there any more are removed. Only one
// process may save there.
//
// Decisions go on. Files only their owner may read: by the seeds in them one can choose
// values that count together.
func (r *Rules) Save(folder string) error {
	r.change.Lock()
	defer r.change.Unlock()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	generation := time.Now().UnixNano()
	var all []saved
	add := func(c counter, o origin, l *sketchlimit.Limiter, until time.Time) error {
		one := c.saved(fmt.Sprintf("%d-%d.counts", generation, len(all)))
		one.Made, one.MadeBurst, one.Reach = o.limit, o.burst, o.reach
		one.Former, one.Until = !until.IsZero(), until
		all = append(all, one)
		return l.Save(filepath.Join(folder, one.File))
	}
	now := r.options.Clock()
	for rule := range r.current.Load().counting() {
		if rule.limiter != nil {
			if err := add(rule.counter, rule.origin, rule.limiter, time.Time{}); err != nil {
				return fmt.Errorf("rules: %w", err)
			}
		}
		for _, f := range rule.live(now) {
			if err := add(f.counter, f.origin, f.limiter, f.until); err != nil {
				return fmt.Errorf("rules: %w", err)
			}
		}
	}
	return writeIndex(folder, all)
}

// writeIndex replaces the index and removes files that it does not name.
func writeIndex(folder string, all []saved) error {
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	// Under a name that is not there yet, so that nothing is written where a link points.
	f, err := os.CreateTemp(folder, temporaryIndex+"*")
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil { // or a crash might leave an empty index
		err = os.Rename(f.Name(), filepath.Join(folder, indexFile))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("rules: %w", err)
	}
	named := map[string]bool{}
	for _, one := range all {
		named[one.File] = true
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	for _, e := range entries {
		left := strings.HasPrefix(e.Name(), temporaryIndex) // by a save that was killed
		if left || strings.HasSuffix(e.Name(), ".counts") && !named[e.Name()] {
			os.Remove(filepath.Join(folder, e.Name())) // or else the next one does
		}
	}
	return nil
}

// Restore reads the counts that Save has written, before the first decision: what was
// counted since is lost. Rules carry them on as they do over a reload, also with other
// limits and sizes, and rules that share memory have the shares that they had. Counts
// of rules that are not there any more are left out, and so are those that a limiter
// refuses, see [sketchlimit.Limiter.Load]: the error tells of them, and all others are
// restored. It wraps [io/fs.ErrNotExist] if there is no snapshot.
func (r *Rules) Restore(folder string) error {
	r.change.Lock()
	defer r.change.Unlock()
	text, err := os.ReadFile(filepath.Join(folder, indexFile))
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	var all []saved
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("rules: %s: %w", indexFile, err)
	}
	before, shares, failed := r.restored(folder, all)
	if err := r.become(r.texts, shares, before); err != nil {
		return errors.Join(append(failed, err)...)
	}
	return errors.Join(failed...)
}

// restored returns rules as they were saved, and their shares.
func (r *Rules) restored(folder string, all []saved) (*set, map[place]*share, []error) {
	current, now := r.current.Load(), r.options.Clock()
	before, shares, places := newSet(current.overrides), map[place]*share{}, map[place]*Rule{}
	present := map[place]*Rule{}
	for rule := range current.counting() {
		present[rule.counter.place] = rule
	}
	var failed []error
	for _, one := range all {
		c := one.counter()
		rule := present[c.place]
		if rule == nil || one.Former && !now.Before(one.Until) {
			continue
		}
		old, err := r.load(rule, &one, now, filepath.Join(folder, one.File))
		if err != nil {
			failed = append(failed, fmt.Errorf("rules: %s: %w", rule, err))
		}
		if err != nil || rule.Override {
			continue
		}
		if places[c.place] == nil {
			places[c.place] = &Rule{counter: counter{place: c.place}, tally: rule.tally}
			before.rules = append(before.rules, places[c.place])
		}
		places[c.place].restore(old, one, now)
		if rule.Shared && !one.Former && c.memory > 0 {
			shares[c.place] = &share{bytes: c.memory}
		}
	}
	return before, shares, failed
}

// load returns a rule with the limiter of a file. That of a rule for overrides, which
// stays, it restores itself.
func (r *Rules) load(present *Rule, one *saved, now time.Time, file string) (*Rule, error) {
	if present.Override {
		return present, present.limiter.Load(file)
	}
	c := one.counter()
	if one.Made > 0 {
		c.limit, c.burst = one.Made, one.MadeBurst
	}
	old := &Rule{
		counter: c, Limit: c.limit, Window: c.window, Algorithm: c.algorithm, Burst: c.burst, Keys: c.keys,
		UnitsPerKey: c.units, Headroom: c.headroom, FalseDenialRate: c.rate, Overload: c.overload, Months: c.months,
	}
	_, bytes, err := old.config().Size()
	switch {
	case err != nil:
		return nil, err
	case bytes > r.options.MaxMemoryBytes:
		return nil, fmt.Errorf("%d bytes, must be at most %d", bytes, r.options.MaxMemoryBytes)
	}
	old.bytes = bytes
	if err := old.build(r.options.Clock, r.options.Hash, r.options.Seed); err != nil {
		return nil, err
	}
	if one.Made > 0 {
		if err := old.again(one, now); err != nil {
			return nil, err
		}
	}
	return old, old.limiter.Load(file)
}

// again makes a rule with the limiter that was made at first one that has gone on as
// the saved one has.
func (r *Rule) again(one *saved, now time.Time) (err error) {
	r.origin = origin{one.Made, one.MadeBurst, one.Reach, now}
	r.Limit, r.Burst, r.counter = one.Limit, one.Burst, one.counter()
	limit, burst := one.Reach, 0
	if r.Algorithm == sketchlimit.TokenBucket {
		limit, burst = one.Limit, one.Reach
	}
	if r.limiter, err = r.limiter.WithLimit(r.at(now), limit, burst); err != nil {
		return err
	}
	r.limiter, err = r.limiter.WithLimit(r.at(now), one.Limit, one.Burst)
	return err
}

// restore adds what was saved to a rule that stands for it.
func (r *Rule) restore(old *Rule, one saved, now time.Time) {
	if !one.Former {
		r.counter, r.origin, r.limiter, r.bytes = old.counter, old.origin, old.limiter, old.bytes
		r.Limit, r.Burst = old.Limit, old.Burst
		return
	}
	formers := append(r.live(now), predecessor{old.counter, old.origin, old.limiter, old.bytes, one.Until})
	r.formers.Store(&formers)
}
