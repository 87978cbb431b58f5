package rules

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// Rules limits by the rules of files. It is safe for concurrent use.
type Rules struct {
	maxBytes int
	paths    []string
	clock    func() time.Time
	hash     sketchlimit.Hash
	reload   sync.Mutex
	current  atomic.Pointer[set]
}

// set is the rules of one reading of the files, which does not change.
type set struct {
	domains index[*node]
	rules   []*Rule
	names   map[string]int // how many rules have it
}

func newSet() *set { return &set{names: map[string]int{}} }

// Load reads files, and directories for the files in them that end in .yaml, each with one
// domain. The counts of all rules may take maxBytes together, so that a slip of the
// pen in a file is an error and not the end of the service.
//
// The values of descriptors are whatever clients send. They are hashed under keys that each rule draws: nobody can
// choose a value that spends the quota of another.
//
// Errors of what files say begin with FILE:LINE.
func Load(maxBytes int, paths ...string) (*Rules, error) {
	return LoadHash(nil, maxBytes, paths...)
}

// LoadHash is [Load] with another hash of values, such as a sketchlimit.KeyedHash that several processes share.
func LoadHash(hash sketchlimit.Hash, maxBytes int, paths ...string) (*Rules, error) {
	start := time.Now() // carried on by the monotonic clock: steps of the wall clock do not reach it
	return load(func() time.Time { return start.Add(time.Since(start)) }, hash, maxBytes, paths...)
}

func load(clock func() time.Time, hash sketchlimit.Hash, maxBytes int, paths ...string) (*Rules, error) {
	r := &Rules{maxBytes: maxBytes, paths: paths, clock: clock, hash: hash}
	r.current.Store(newSet())
	if err := r.Reload(); err != nil {
		return nil, err
	}
	return r, nil
}

// Check reads files as [Load] does and returns their rules in order, without taking their
// memory.
func Check(paths ...string) ([]*Rule, error) {
	s, err := read(paths)
	if err != nil {
		return nil, err
	}
	return s.rules, nil
}

// Reload reads the files again, and from one decision to the next all rules are those of
// the files. A rule carries on its counts if its place, limit, window, algorithm,
// burst and size are as before. For a moment both the old and the new rules take their memory.
//
// If a file cannot be read or is wrong, the rules stay as they are, and the error says why.
func (r *Rules) Reload() error {
	r.reload.Lock()
	defer r.reload.Unlock()
	next, err := read(r.paths)
	if err != nil {
		return err
	}
	if total := next.bytes(); total > r.maxBytes {
		largest := slices.MaxFunc(next.rules, func(a, b *Rule) int { return cmp.Compare(a.bytes, b.bytes) })
		return fmt.Errorf("rules: %d bytes in all, must be at most %d; the most, %d, takes the rule at %s",
			total, r.maxBytes, largest.bytes, largest.Line)
	}
	limiters := map[counter]*sketchlimit.Limiter{}
	for _, rule := range r.current.Load().rules {
		limiters[rule.counter] = rule.limiter
	}
	for _, rule := range next.rules {
		if rule.limiter = limiters[rule.counter]; rule.limiter == nil {
			if err := rule.build(r.clock, r.hash); err != nil {
				return err
			}
		}
	}
	r.current.Store(next)
	return nil
}

// bytes returns the memory of all rules, or the largest int if it is more than that.
func (s *set) bytes() (total int) {
	for _, rule := range s.rules {
		total += min(rule.bytes, math.MaxInt-total)
	}
	return total
}

// read reads the rules of files; they have no limiters yet.
func read(paths []string) (*set, error) {
	s := newSet()
	files, err := list(paths)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
		if err := s.add(file, data); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// list returns the files that the paths stand for.
func list(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".yaml") {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("rules: no files in %q, must be at least 1 that ends in .yaml", paths)
	}
	return files, nil
}

// add adds the domain of a file.
func (s *set) add(file string, data []byte) error {
	d, err := parse(file, data)
	if err != nil {
		return err
	}
	if s.domains.find(d.name) != nil {
		return fmt.Errorf("%s: duplicate domain '%s' in config file", file, d.name)
	}
	top := new(node)
	rules, err := top.grow(file, place{domain: d.name}, d.descriptors)
	if err != nil {
		return err
	}
	for _, rule := range rules {
		rule.title = rule.Domain + "." + rule.Path
		s.names[rule.title]++
		if n := s.names[rule.title]; n > 1 { // (a, b_c) beside (a_b, c)
			rule.title = fmt.Sprintf("%s#%d", rule.title, n)
		}
	}
	s.domains.add(d.name, top)
	s.rules = append(s.rules, rules...)
	return nil
}

// All returns the rules of all files in their order.
func (r *Rules) All() []*Rule { return slices.Clone(r.current.Load().rules) }

// Counting returns the rules that count, by their String, at the moment of each range over
// it. Neither unlimited rules nor those that block count.
func (r *Rules) Counting() iter.Seq2[string, *Rule] {
	return func(yield func(string, *Rule) bool) {
		for _, rule := range r.current.Load().rules {
			if rule.limiter != nil && !yield(rule.title, rule) {
				return
			}
		}
	}
}

// MemoryBytes returns the memory of all rules' counts, which changes with Reload only.
func (r *Rules) MemoryBytes() int { return r.current.Load().bytes() }

// Match returns the rule that applies to a descriptor, nil if none does.
func (r *Rules) Match(domain string, d Descriptor) *Rule {
	rule, _ := r.current.Load().domains.find(domain).match(d, nil)
	return rule
}

// Status is the answer to one descriptor of a request.
type Status struct {
	// Rule is the rule that applies; nil if none does, if the rule of another
	// descriptor replaces it, or if one before has led to the same counter.
	Rule *Rule
	// Decision is what the rule's counter says, without regard to Shadow and Quota. If
	// no rule applies, or it is unlimited, only Allowed is set; if it blocks,
	// RetryAfter is [sketchlimit.Never].
	sketchlimit.Decision
}

// Take consumes n units of every rule that applies to one of the descriptors, and tells
// whether the request is admitted and what each descriptor's rule says. The request is
// refused if one of its rules refuses, except that those in shadow mode do not
// count, and those in quota mode only if all of them refuse. Descriptors that lead to
// the same counter consume of it once.
//
// With n = 0 it consumes nothing and tells what it would answer for 1.
//
// If the request is refused, no rule's units are consumed: all are looked at before any
// is taken from. Only if another request takes the last unit of one rule in between
// may this one be refused and leave units of others behind.
func (r *Rules) Take(domain string, n int, descriptors ...Descriptor) (admitted bool, statuses []Status) {
	return r.take(r.clock(), domain, n, descriptors)
}

func (r *Rules) take(now time.Time, domain string, n int, descriptors []Descriptor) (bool, []Status) {
	c := pool.Get().(*counters)
	defer func() {
		c.clear()
		pool.Put(c)
	}()
	c.now = now
	top := r.current.Load().domains.find(domain)
	for _, d := range descriptors {
		c.match(top, d)
	}
	return c.take(n), slices.Clone(c.statuses)
}

var pool = sync.Pool{New: func() any { return new(counters) }}

// counters is what one request is held against.
type counters struct {
	now      time.Time
	statuses []Status // of each descriptor
	keys     []byte   // one behind the other
	ends     []int    // of each in keys
	replaces bool     // one of the rules replaces others
	quotas   bool     // all rules in quota mode refuse, or there are none
}

// clear lets go of what belongs to the request, and to the files of the moment.
func (c *counters) clear() {
	clear(c.statuses)
	c.statuses, c.keys, c.ends, c.replaces = c.statuses[:0], c.keys[:0], c.ends[:0], false
}

// match adds the rule and the key of a descriptor. A counter that the request is held against
// already is not asked twice: looking at it would tell nothing of both.
func (c *counters) match(top *node, d Descriptor) {
	rule, keys := top.match(d, c.keys)
	c.keys = keys
	c.ends = append(c.ends, len(keys))
	c.statuses = append(c.statuses, Status{})
	if rule == nil {
		return
	}
	last := len(c.statuses) - 1
	for i := range last {
		if c.statuses[i].Rule == rule && bytes.Equal(c.key(i), c.key(last)) {
			return
		}
	}
	c.statuses[last].Rule = rule
	c.replaces = c.replaces || len(rule.replaces) > 0
	if rule.Keyed && rule.limiter != nil { // a single counter is where it was a moment ago
		rule.limiter.Prefetch(c.key(last))
	}
}

// take consumes n units of all counters, or of none, and tells whether the request is
// admitted. With n = 0 it only looks.
func (c *counters) take(n int) bool {
	const enforced, watching = false, true // whether a rule is in shadow mode
	if c.replaces {
		c.replace()
	}
	if n == 0 {
		c.decide(1, true, watching)
		c.decide(1, true, enforced)
		return c.admits()
	}
	several := c.enforced() > 1 // then all are looked at before any is taken from
	c.decide(n, several, enforced)
	admitted := c.admits()
	switch {
	case several && admitted:
		c.decide(n, false, enforced)
		admitted = c.admits()
	case several:
		c.deny(n, enforced)
	}
	c.decide(n, !admitted, watching)
	if !admitted {
		c.deny(n, watching)
	}
	return admitted
}

// replace drops the rules that others of the request replace by name, also those that are
// replaced themselves.
func (c *counters) replace() {
	var names []string
	for i := range c.statuses {
		if rule := c.statuses[i].Rule; rule != nil && len(rule.replaces) > 0 {
			names = append(names, rule.replaces...)
		}
	}
	for i := range c.statuses {
		if rule := c.statuses[i].Rule; rule != nil && slices.Contains(names, rule.Name) {
			c.statuses[i].Rule = nil
		}
	}
}

// enforced returns how many rules may refuse.
func (c *counters) enforced() (n int) {
	for i := range c.statuses {
		if rule := c.statuses[i].Rule; rule != nil && !rule.Shadow {
			n++
		}
	}
	return n
}

// decide asks the counters of rules that are in shadow mode, or of those that are not.
func (c *counters) decide(n int, peek, shadow bool) {
	for i := range c.statuses {
		if s := &c.statuses[i]; s.shadow() == shadow {
			s.Decision = s.Rule.decide(c.now, c.key(i), n, peek)
		}
	}
}

// deny takes from counters that have been looked at and refuse anyway, for what is denied
// shows in Stats.
func (c *counters) deny(n int, shadow bool) {
	for i := range c.statuses {
		if s := &c.statuses[i]; s.shadow() == shadow && !s.Allowed {
			s.Rule.decide(c.now, c.key(i), n, false)
		}
	}
}

// admits tells whether the request is admitted.
func (c *counters) admits() bool {
	refused, quotas := false, false
	c.quotas = true
	for i := range c.statuses {
		s := &c.statuses[i]
		switch refuses := !s.Allowed && !s.shadow(); {
		case s.Rule == nil || !s.Rule.Quota:
			refused = refused || refuses
		default:
			quotas = true
			c.quotas = c.quotas && refuses
		}
	}
	return !refused && !(quotas && c.quotas)
}

// shadow tells whether the rule is in shadow mode.
func (s *Status) shadow() bool { return s.Rule != nil && s.Rule.Shadow }

// key returns the i-th descriptor's key.
func (c *counters) key(i int) []byte {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.keys[start:c.ends[i]:c.ends[i]]
}
