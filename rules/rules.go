package rules

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Rules limits by the rules of files. It is safe for concurrent use.
type Rules struct {
	options Options
	paths   []string // nil: of New
	current atomic.Pointer[set]

	change sync.Mutex       // held while the rules change, and guards what follows
	texts  []File           // that the rules are of
	shares map[place]*share // of rules that state no size
	used   []string         // domains that handlers limit by

	// deciding is held, for reading, by those who decide by current, and while that
	// changes: so all who decide do so by the same rules.
	deciding sync.RWMutex
	carrying stripes
	grants   grants
	unknown  atomic.Uint64 // requests for unknown domains

	mu    sync.Mutex // guards what follows
	loads Stats      // but for UnknownDomains
}

// set is the rules of one reading of the files, which does not change.
type set struct {
	domains   index[*node]
	rules     []*Rule
	overrides overrides          // for requests with limits of their own
	merge     bool               // files may have one domain together
	warnings  []string           // of what leads to no rule
	months    bool               // see Options.CalendarMonths
	names     map[string]int     // how many rules have it
	labels    map[string]bool    // of rules
	group     *sketchlimit.Group // of all rules that count; nil if none does
}

func newSet(own overrides) *set {
	s := &set{overrides: own, names: map[string]int{}, labels: map[string]bool{}}
	for _, rule := range own {
		s.names[rule.title]++
		s.labels[rule.label] = true
	}
	return s
}

// counting returns the rules, and those of requests' own limits behind them.
func (s *set) counting() iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		for _, some := range [...][]*Rule{s.rules, s.overrides} {
			for _, rule := range some {
				if !yield(rule) {
					return
				}
			}
		}
	}
}

// Load is [Options.Load] with all options but MaxMemoryBytes as they are if not set.
func Load(maxMemoryBytes int, paths ...string) (*Rules, error) {
	return Options{MaxMemoryBytes: maxMemoryBytes}.Load(paths...)
}

// Check reads files as [Load] does and returns their rules in order, without taking their
// memory.
func Check(paths ...string) ([]*Rule, error) { return Options{}.Check(paths...) }

// Stats is what has become of files and requests since construction.
type Stats struct {
	Loads          uint64 // readings of the files, or texts, that have replaced the rules, the first one included
	FailedLoads    uint64 // readings that have left the rules as they were
	LastError      error  // of the latest reading; nil if that has not failed
	UnknownDomains uint64 // requests for domains that no file has: all admitted
}

// Stats returns what has become of files and requests.
func (r *Rules) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.loads
	s.UnknownDomains = r.unknown.Load()
	return s
}

// Reload reads the files again, and from one decision to the next all rules are those
// of the files. A rule carries on its counts if its place, window and algorithm are as
// before. If its limit, burst or size has changed, its former counts are kept beside
// the new ones until they have left the window, and count there: what a key has used it
// has used of the new limit. Their memory counts as well meanwhile.
//
// If a file cannot be read or is wrong, the rules stay as they are, and the error says
// why. Rules of [Options.New] have no files: use [Rules.Replace].
func (r *Rules) Reload() error {
	return r.update(func() ([]File, error) { return read(r.paths) })
}

// Replace is [Rules.Reload] with texts in place of the files.
func (r *Rules) Replace(files ...File) error {
	return r.update(func() ([]File, error) { return slices.Clone(files), nil })
}

// update replaces all rules by those that are read, and counts that.
func (r *Rules) update(read func() ([]File, error)) error {
	r.change.Lock()
	defer r.change.Unlock()
	texts, err := read()
	if err == nil {
		err = r.become(texts, r.shares, r.current.Load())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loads.LastError = err; err != nil {
		r.loads.FailedLoads++
	} else {
		r.loads.Loads++
	}
	return err
}

// become replaces all rules by those of texts, with these shares, which carry on what
// others have counted.
func (r *Rules) become(texts []File, shares map[place]*share, before *set) error {
	next := newSet(before.overrides)
	next.merge, next.months = r.options.MergeDomains, r.options.CalendarMonths
	if err := next.add(texts); err != nil {
		return err
	}
	shares, err := next.split(r.options.SharedBytes, shares)
	if err != nil {
		return err
	}
	if err := r.checkUsed(next); err != nil {
		return err
	}
	again := r.options.Built == nil // or else whoever shares counts would share those of a former limiter twice
	next.succeed(before, again, r.options.Clock())
	for next.bytes() > r.options.MaxMemoryBytes && (next.inherit() || next.forget()) {
	}
	total := next.bytes()
	if total > r.options.MaxMemoryBytes {
		return next.tooLarge(total, r.options.MaxMemoryBytes)
	}
	if err := next.fits(total); err != nil {
		return err
	}
	// Of a key, a former limiter's counts are carried to a limiter before that counts
	// more of it. Decisions by rules that have formers wait until these and the limiter
	// are of one limit, or they would carry too little.
	for rule := range next.counting() {
		if rule.formers.Load() == nil {
			if err := rule.takeOver(r.options.Clock()); err != nil {
				return err
			}
		}
	}
	if err := r.build(next); err != nil {
		return err
	}
	r.deciding.Lock() // no decision counts in a former limiter any more
	defer r.deciding.Unlock()
	for rule := range next.counting() {
		if rule.formers.Load() != nil {
			if err := rule.takeOver(r.options.Clock()); err != nil {
				return err
			}
		}
	}
	if err := r.build(next); err != nil { // what could not be taken over
		return err
	}
	if err := next.join(); err != nil {
		return err
	}
	r.current.Store(next)
	for rule := range next.counting() {
		rule.tally.dropped.Add(uint64(rule.lost))
		rule.lost, rule.could = 0, nil
	}
	r.texts, r.shares = texts, shares
	return nil
}

// build makes the limiters that rules of a set neither have nor inherit.
func (r *Rules) build(s *set) error {
	var built []*Rule
	for rule := range s.counting() {
		if rule.limiter == nil && rule.heirOf == nil {
			if err := rule.build(r.options.Clock, r.options.Hash, r.options.Seed); err != nil {
				return err
			}
			built = append(built, rule)
		}
	}
	r.options.tell(built)
	return nil
}

// succeed gives all rules what they carry on of those before.
func (s *set) succeed(before *set, again bool, now time.Time) {
	places := map[place]*Rule{}
	for rule := range before.counting() {
		places[rule.counter.place] = rule
	}
	for rule := range s.counting() {
		if old := places[rule.counter.place]; old == nil {
			rule.tally = new(tally)
		} else if old != rule {
			rule.succeed(old, again, now)
		}
	}
}

// use notes that a handler limits by a domain, or returns an error if no file has that.
func (r *Rules) use(domain string) error {
	r.change.Lock()
	defer r.change.Unlock()
	r.used = append(r.used, domain)
	if err := r.checkUsed(r.current.Load()); err != nil {
		r.used = r.used[:len(r.used)-1]
		return err
	}
	return nil
}

// checkUsed returns an error if rules lack a domain that a handler limits by.
func (r *Rules) checkUsed(s *set) error {
	for _, domain := range r.used {
		if s.domains.find(domain) == nil {
			return fmt.Errorf("rules: no file has the domain '%s', which a handler limits by", domain)
		}
	}
	return nil
}

// tooLarge is the error of rules whose total is above the most.
func (s *set) tooLarge(total, most int) error {
	if len(s.rules) == 0 {
		return fmt.Errorf("rules: OverrideBytes: %d bytes in all, must be at most %d", total, most)
	}
	largest := slices.MaxFunc(s.rules, func(a, b *Rule) int { return cmp.Compare(a.bytes, b.bytes) })
	return fmt.Errorf("rules: %d bytes in all, must be at most %d; the most, %d, takes the rule at %s",
		total, most, largest.bytes, largest.Line)
}

// fits returns an error if the rules would not fit into the machine together. One that
// would not by itself is refused when it is built.
func (s *set) fits(total int) error {
	largest := 0
	for rule := range s.counting() {
		largest = max(largest, rule.bytes)
	}
	if err := sketchlimit.CheckMemory(total); err != nil && sketchlimit.CheckMemory(largest) == nil {
		return fmt.Errorf("rules: all of them together: %s", inFile.Replace(err.Error()))
	}
	return nil
}

// join makes a group of all limiters, so that any of them can be asked in one step.
func (s *set) join() (err error) {
	var all []sketchlimit.Member
	for rule := range s.counting() {
		if rule.limiter != nil {
			rule.index = len(all)
			all = append(all, rule.limiter)
		}
	}
	if len(all) > 0 {
		s.group, err = sketchlimit.NewGroup(all...)
	}
	return err
}

// bytes returns the memory of all rules, or the largest int if it is more than that.
func (s *set) bytes() (total int) {
	for rule := range s.counting() {
		total += min(rule.bytes+rule.formerBytes(), math.MaxInt-total)
	}
	return total
}

// addFile adds the domain of a file.
func (s *set) addFile(file string, data []byte) error {
	d, err := parse(file, data)
	if err != nil {
		return err
	}
	s.warnings = append(s.warnings, d.warnings...)
	top := s.domains.find(d.name)
	switch {
	case top == nil:
		top = new(node)
		s.domains.add(d.name, top)
	case !s.merge:
		return fmt.Errorf("%s: duplicate domain '%s' in config file", file, d.name)
	}
	rules, err := top.grow(file, place{domain: d.name}, nil, d.descriptors)
	if err != nil {
		return err
	}
	for _, rule := range rules {
		rule.title = rule.Domain + "." + rule.Path
		s.names[rule.title]++
		if n := s.names[rule.title]; n > 1 { // (a, b_c) beside (a_b, c)
			rule.title = fmt.Sprintf("%s#%d", rule.title, n)
		}
		rule.label = s.newLabel(cmp.Or(rule.Name, rule.title))
		if s.months && rule.monthly {
			if err := rule.byMonths(); err != nil {
				return fmt.Errorf("%s: %w", rule.Line, err)
			}
		}
	}
	s.rules = append(s.rules, rules...)
	return nil
}

// newLabel returns a name, or one like it that no rule has yet.
func (s *set) newLabel(name string) string {
	label := name
	for n := 2; s.labels[label]; n++ {
		label = fmt.Sprintf("%s#%d", name, n)
	}
	s.labels[label] = true
	return label
}

// All returns the rules of all files in their order.
func (r *Rules) All() []*Rule { return slices.Clone(r.current.Load().rules) }

// Warnings returns how rules differ from what files say or seem to mean, as FILE:LINE:
// text: the Warning of each rule, and what files say that leads to none.
func (r *Rules) Warnings() []string { return r.current.Load().allWarnings() }

func (s *set) allWarnings() []string {
	all := slices.Clone(s.warnings)
	for _, rule := range s.rules {
		if rule.Warning != "" {
			all = append(all, rule.Warning)
		}
	}
	return all
}

// Counting returns the rules that count, at the moment of each range over it, and those
// of limits that come with requests. They have the names of their policies, see
// [Rules.HTTP]; where several have one name, others than the first end in #2, #3 and so
// on. Neither unlimited rules nor those that block count.
func (r *Rules) Counting() iter.Seq2[string, *Rule] {
	return func(yield func(string, *Rule) bool) {
		for rule := range r.current.Load().counting() {
			if rule.limiter != nil && !yield(rule.label, rule) {
				return
			}
		}
	}
}

// MemoryBytes returns the memory of all rules' counts, with those that former limits
// and sizes leave for a while.
func (r *Rules) MemoryBytes() int { return r.current.Load().bytes() }

// Match returns the rule that applies to a descriptor, nil if none does.
func (r *Rules) Match(domain string, d Descriptor) *Rule {
	rule, _ := r.current.Load().domains.find(domain).match(d, nil)
	return rule
}
