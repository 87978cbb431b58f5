package rules

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Options is how rules are loaded.
type Options struct {
	// MaxMemoryBytes is the most bytes that the counts of all rules may take together,
	// at least 1, so that a slip of the pen in a file is an error and not the end of
	// the service.
	MaxMemoryBytes int
	// SharedBytes is the most bytes that all rules share which leave values open and
	// state no size: neither keys, units_per_key, headroom, false_denial_rate nor
	// memory. It is split by what they take for equal numbers of keys, and
	// [Rules.Adapt] moves it to those that need it. 0: each of them is sized for
	// [DefaultKeys].
	SharedBytes int
	// MergeDomains lets several files have one domain together. Otherwise that is an
	// error.
	MergeDomains bool
	// CalendarMonths makes windows of one month, which are fixed and 30 days otherwise,
	// those of the calendar in UTC, as USE_CALENDAR_MONTH_RATE_LIMIT does in
	// envoyproxy/ratelimit. Counts of windows of the other kind are let go.
	CalendarMonths bool
	// OverrideBytes is the most bytes of the counts for each Window of limits that come
	// with requests, see [Override]. There are seven windows. 0: such requests are
	// refused.
	OverrideBytes int
	// CountRefused counts refused requests as well, as envoyproxy/ratelimit does if not
	// configured otherwise: each Ask is charged by itself, in order, whatever the
	// others are answered, and one that its rule refuses uses up what is left. Stats of
	// rules count what was used up as admitted.
	CountRefused bool
	// Quota puts all rules into quota mode, and descriptors that no rule applies to.
	Quota bool
	// NearLimitRatio is the share of a limit, 0 … 1, above which Counts.Near counts; 0
	// is 0.8.
	NearLimitRatio float32
	// Built is told of each rule that gets a limiter, before any request is held
	// against that: at the first reading of the files, and when a rule has come or
	// changed. It may share the limiter's counts with other processes. It is called for
	// all such rules at once, each by a goroutine. Limiters that [Rules.Restore] brings
	// are not told of. nil: nobody is told.
	Built func(*Rule)
	// Hash is what values are hashed by. If nil, each rule draws a key for its hash, so
	// that nobody who chooses values can spend the quota of another.
	Hash sketchlimit.Hash
	// Seed is that of all limiters, the same in all processes that share their counts;
	// 0: each draws its own.
	Seed uint64
	// Clock is read for every decision. nil is [sketchlimit.Now]: the wall clock,
	// followed ahead only.
	Clock func() time.Time
}

const defaultNearLimitRatio = 0.8

// File is the text of a file, for those who do not have it on disk.
type File struct {
	Name string // in errors
	Data []byte
}

// Load reads files, and folders for the files in them and below that end in .yaml or
// .yml, each with one domain. Files and folders whose names begin with a dot are left
// out.
//
// Errors of what files say begin with FILE:LINE.
func (o Options) Load(paths ...string) (*Rules, error) {
	r, err := o.rules()
	if err != nil {
		return nil, err
	}
	r.paths = paths
	if err := r.Reload(); err != nil {
		return nil, err
	}
	return r, nil
}

// New returns the rules of texts, each with one domain. Without texts there are no
// rules until [Rules.Replace].
func (o Options) New(files ...File) (*Rules, error) {
	r, err := o.rules()
	if err != nil {
		return nil, err
	}
	if err := r.Replace(files...); err != nil {
		return nil, err
	}
	return r, nil
}

// Check reads files as Load does and returns their rules in order, without taking their
// memory.
func (o Options) Check(paths ...string) ([]*Rule, error) {
	s, err := o.check(paths)
	if err != nil {
		return nil, err
	}
	return s.rules, nil
}

// CheckWarnings returns what [Rules.Warnings] would return of the files that Check reads.
func (o Options) CheckWarnings(paths ...string) ([]string, error) {
	s, err := o.check(paths)
	if err != nil {
		return nil, err
	}
	return s.allWarnings(), nil
}

func (o Options) check(paths []string) (*set, error) {
	s := newSet(nil)
	s.merge, s.months = o.MergeDomains, o.CalendarMonths
	texts, err := read(paths)
	if err == nil {
		err = s.add(texts)
	}
	if err == nil {
		_, err = s.split(o.SharedBytes, nil)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// rules checks the options and returns rules without files.
func (o Options) rules() (*Rules, error) {
	if o.MaxMemoryBytes < 1 {
		return nil, fmt.Errorf("rules: MaxMemoryBytes %d, must be at least 1", o.MaxMemoryBytes)
	}
	if o.SharedBytes < 0 || o.SharedBytes > o.MaxMemoryBytes {
		return nil, fmt.Errorf("rules: SharedBytes %d, must be 0 … MaxMemoryBytes %d", o.SharedBytes, o.MaxMemoryBytes)
	}
	if o.OverrideBytes < 0 {
		return nil, fmt.Errorf("rules: OverrideBytes %d, must be at least 0", o.OverrideBytes)
	}
	if !(o.NearLimitRatio >= 0 && o.NearLimitRatio <= 1) {
		return nil, fmt.Errorf("rules: NearLimitRatio %v, must be 0 … 1", o.NearLimitRatio)
	}
	if o.NearLimitRatio == 0 {
		o.NearLimitRatio = defaultNearLimitRatio
	}
	if o.Clock == nil {
		o.Clock = sketchlimit.Now
	}
	own, err := newOverrides(o.OverrideBytes, o.CalendarMonths)
	if err != nil {
		return nil, fmt.Errorf("rules: OverrideBytes %d: %w", o.OverrideBytes, err)
	}
	r := &Rules{options: o, carrying: stripes{seed: maphash.MakeSeed()}}
	first := newSet(own)
	first.succeed(new(set), false, time.Time{})
	for _, rule := range own {
		if err := rule.build(o.Clock, o.Hash, o.Seed); err != nil {
			return nil, err
		}
	}
	o.tell(own)
	r.current.Store(first)
	return r, nil
}

// tell passes on the rules that were built, and waits until the receiver has taken all.
func (o *Options) tell(built []*Rule) {
	var all sync.WaitGroup
	for _, rule := range built {
		if o.Built != nil && rule.limiter != nil {
			all.Go(func() { o.Built(rule) })
		}
	}
	all.Wait()
}
