package rules

import (
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
	names   map[string]int     // how many rules have it
	group   *sketchlimit.Group // of all rules that count; nil if none does
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
	if err := next.join(); err != nil {
		return err
	}
	r.current.Store(next)
	return nil
}

// join makes a group of all limiters, so that any of them can be asked in one step.
func (s *set) join() (err error) {
	var all []*sketchlimit.Limiter
	for _, rule := range s.rules {
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
