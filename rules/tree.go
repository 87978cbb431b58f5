package rules

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Entry is a key and a value of a request.
type Entry struct{ Key, Value string }

// Descriptor is what a request says of itself, from the outermost level to the innermost.
type Descriptor []Entry

// node is a descriptor of a file, or the top of a domain.
type node struct {
	keys     index[*values] // below it, without wildcards
	patterns []*node        // below it, with wildcards, in the order of the file
	rule     *Rule          // nil: none

	// Of a node with wildcards: what stands around the stars.
	key, value []string
	// What of an entry tells counters of the same rule apart.
	countsKey, countsValue bool
	prefixes               prefixes // by which values are counted; zero: as they are
}

// values is what a level has for one key.
type values struct {
	exact index[*node]
	bare  *node // for any other value; nil: none
}

// of returns what the level below has for a key.
func (n *node) of(key string) *values {
	v := n.keys.find(key)
	if v == nil {
		v = new(values)
		n.keys.add(key, v)
	}
	return v
}

// add puts a descriptor of the file under the node; false if the level has it already.
func (n *node) add(d *descriptor) (child *node, ok bool) {
	child = &node{prefixes: d.prefixes}
	switch {
	case strings.Contains(d.key, "*") || strings.Contains(d.value, "*"):
		child.key, child.value = strings.Split(d.key, "*"), strings.Split(d.value, "*")
		if d.value == "" {
			child.value = []string{"", ""} // any
		}
		child.countsKey = len(child.key) > 1
		child.countsValue = !d.shareThreshold && len(child.value) > 1
		for _, p := range n.patterns {
			if equal(p.key, child.key) && equal(p.value, child.value) {
				return nil, false
			}
		}
		n.patterns = append(n.patterns, child)
	case d.value == "":
		child.countsValue = true
		level := n.of(d.key)
		if level.bare != nil {
			return nil, false
		}
		level.bare = child
	default:
		level := n.of(d.key)
		if level.exact.find(d.value) != nil {
			return nil, false
		}
		level.exact.add(d.value, child)
	}
	return child, true
}

func equal(a, b []string) bool { return strings.Join(a, "*") == strings.Join(b, "*") }

// child returns the node that an entry leads to, the most specific first; nil if none.
func (n *node) child(e Entry) *node {
	level := n.keys.find(e.Key)
	if level != nil {
		if c := level.exact.find(e.Value); c != nil {
			return c
		}
	}
	for _, p := range n.patterns {
		if fits(p.key, e.Key) && fits(p.value, e.Value) {
			return p
		}
	}
	if level != nil {
		return level.bare
	}
	return nil
}

// match returns the rule that a descriptor leads to, nil if none, and appends to key what
// tells its counter from others of that rule: the open values, each with its length.
func (n *node) match(d Descriptor, key []byte) (*Rule, []byte) {
	if n == nil || len(d) == 0 {
		return nil, key
	}
	for _, e := range d {
		if n = n.child(e); n == nil {
			return nil, key
		}
		if n.countsKey {
			key = appendPart(key, e.Key)
		}
		switch {
		case n.countsValue && n.prefixes.given():
			key = n.prefixes.append(key, e.Value)
		case n.countsValue:
			key = appendPart(key, e.Value)
		}
	}
	return n.rule, key
}

func appendPart[T string | []byte](key []byte, part T) []byte {
	return append(binary.AppendUvarint(key, uint64(len(part))), part...)
}

// fits reports whether s is the parts with any characters between them.
func fits(parts []string, s string) bool {
	last := len(parts) - 1
	if last == 0 {
		return s == parts[0]
	}
	if !strings.HasPrefix(s, parts[0]) || !strings.HasSuffix(s[len(parts[0]):], parts[last]) {
		return false
	}
	s = s[len(parts[0]) : len(s)-len(parts[last])]
	for _, part := range parts[1:last] { // the earliest place leaves the most for the next
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// place is where in a file a descriptor stands.
type place struct {
	domain string
	path   string // of the levels above and its own: key_value.key_value…
	exact  string // the same, without ambiguity
	keyed  bool   // a level leaves a key or a value open
}

// grow adds a level of a file, and what is below it, and returns the rules there.
func (n *node) grow(file string, above place, levels []level, all []descriptor) (rules []*Rule, err error) {
	for i := range all {
		d := &all[i]
		at := fmt.Sprintf("%s:%d", file, d.line)
		child, ok := n.add(d)
		exact := fmt.Sprintf("%s%q%q%t%v", above.exact, d.key, d.value, d.shareThreshold, d.prefixes)
		here := place{above.domain, above.path + d.composite(), exact, above.keyed}
		if !ok {
			return nil, fmt.Errorf("%s: duplicate descriptor composite key '%s.%s'", at, here.domain, here.path)
		}
		here.keyed = here.keyed || child.countsKey || child.countsValue
		levels := append(slices.Clip(levels), level{d.composite(), d.shareThreshold, d.toMetric && d.open() && !d.shareThreshold})
		if d.limit != nil {
			if child.rule, err = newRule(here, d, at); err != nil {
				return nil, err
			}
			child.rule.levels = levels
			child.rule.NamedByRequest = d.detailed || slices.ContainsFunc(levels, func(l level) bool { return l.toMetric })
			rules = append(rules, child.rule)
		}
		here.path += "."
		below, err := child.grow(file, here, levels, d.children)
		if err != nil {
			return nil, err
		}
		rules = append(rules, below...)
	}
	return rules, nil
}
