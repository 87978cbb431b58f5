package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// node is a descriptor of a rule file drawn at random.
type node struct {
	key, value string // the value may end in a star
	shared     bool   // of all values that match the star
	shadow     bool
	quota      bool
	limit      *limit // or nil
	parent     *node  // or nil
	children   []*node
}

type limit struct {
	name      string // which no other rule of the domain has
	requests  uint32
	unit      rls.RateLimitResponse_RateLimit_Unit
	unlimited bool
	replaces  []string
}

// file is a rule file drawn at random.
type file struct {
	random *rand.Rand
	domain string
	root   node
	units  []rls.RateLimitResponse_RateLimit_Unit
	rules  map[string]*node // by their names
}

func newFile(domain string, seed uint64, units []rls.RateLimitResponse_RateLimit_Unit) *file {
	f := &file{random: rand.New(rand.NewPCG(seed, 0)), domain: domain, units: units, rules: map[string]*node{}}
	f.grow(&f.root, 0)
	return f
}

func (f *file) chance(p float64) bool { return f.random.Float64() < p }

func pick[T any](f *file, from ...T) T { return from[f.random.IntN(len(from))] }

var keys = []string{"k0", "k1", "k2", "k3"}

// grow adds children to a node.
func (f *file) grow(parent *node, depth int) {
	taken := map[string]bool{}
	for range 2 + f.random.IntN(3) {
		n := &node{key: pick(f, keys...), value: pick(f, "", "", "v1", "v2", "v1*", "v*", "*"), parent: parent}
		composite := strings.TrimSuffix(n.key+"_"+n.value, "_")
		if taken[composite] {
			continue
		}
		taken[composite] = true
		n.shared = strings.HasSuffix(n.value, "*") && f.chance(0.4)
		n.shadow, n.quota = f.chance(0.1), f.chance(0.1)
		if f.chance(0.8) {
			f.addLimit(n)
		}
		if depth < 2 && f.chance(0.4) {
			f.grow(n, depth+1)
		}
		parent.children = append(parent.children, n)
	}
}

func (f *file) addLimit(n *node) {
	n.limit = &limit{name: fmt.Sprint("rule", len(f.rules)), unlimited: f.chance(0.05)}
	if n.limit.unlimited {
		n.quota = false // for answers do not tell which rule it was
	} else {
		n.limit.requests, n.limit.unit = pick[uint32](f, 0, 1, 3, 10, 40, 3e9), f.unitOf(n.top().key)
	}
	if len(f.rules) > 0 && f.chance(0.15) {
		n.limit.replaces = []string{fmt.Sprint("rule", f.random.IntN(len(f.rules)))}
	}
	f.rules[n.limit.name] = n
}

// unitOf is one for each first key, so that no two counters of the reference have one
// name: theirs ends in the time at which the window began, which may be that of another
// unit, too.
func (f *file) unitOf(key string) rls.RateLimitResponse_RateLimit_Unit {
	return f.units[(len(key)+int(key[1]))%len(f.units)]
}

// top is the descriptor of a node's first key.
func (n *node) top() *node {
	for n.parent.parent != nil {
		n = n.parent
	}
	return n
}

// name is that of the file.
func (f *file) name() string { return f.domain + ".yaml" }

// String is the content of the file.
func (f *file) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", f.domain)
	for _, n := range f.root.children {
		n.write(&b, f, "")
	}
	return b.String()
}

func (n *node) write(b *strings.Builder, f *file, indent string) {
	fmt.Fprintf(b, "%s- key: %s\n", indent, n.key)
	indent += "  "
	if n.value != "" {
		fmt.Fprintf(b, "%svalue: %q\n", indent, n.value)
	}
	fmt.Fprintf(b, "%sshare_threshold: %t\n%sshadow_mode: %t\n%squota_mode: %t\n", indent, n.shared, indent, n.shadow, indent, n.quota)
	fmt.Fprintf(b, "%sdetailed_metric: %t\n%svalue_to_metric: %t\n", indent, f.chance(0.1), indent, f.chance(0.1))
	if l := n.limit; l != nil {
		fmt.Fprintf(b, "%srate_limit:\n%s  name: %s\n", indent, indent, l.name)
		if l.unlimited {
			fmt.Fprintf(b, "%s  unlimited: true\n", indent)
		} else {
			fmt.Fprintf(b, "%s  unit: %s\n%s  requests_per_unit: %d\n", indent, strings.ToLower(l.unit.String()), indent, l.requests)
		}
		for _, name := range l.replaces {
			fmt.Fprintf(b, "%s  replaces: [{name: %s}]\n", indent, name)
		}
	}
	if len(n.children) > 0 {
		fmt.Fprintf(b, "%sdescriptors:\n", indent)
		for _, child := range n.children {
			child.write(b, f, indent)
		}
	}
}

// request draws a request, most of which meet rules.
func (f *file) request() *rls.RateLimitRequest {
	r := &rls.RateLimitRequest{Domain: f.domain, HitsAddend: pick[uint32](f, 0, 1, 1, 1, 2, 5)}
	switch {
	case f.chance(0.01):
		r.Domain = pick(f, "", "unknown")
	case f.chance(0.005):
		return r // without descriptors
	}
	for range pick(f, 1, 1, 1, 2, 3) {
		d := &ratelimit.RateLimitDescriptor{Entries: f.entries()}
		if f.chance(0.1) {
			d.HitsAddend = wrapperspb.UInt64(pick[uint64](f, 0, 0, 1, 3, 7))
		}
		if f.chance(0.05) {
			d.Entries[0].Key = "override"
			d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: pick[uint32](f, 0, 1, 5, 20),
				Unit: types.RateLimitUnit(f.unitOf("override"))}
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// entries draws a way down the rules, and sometimes leaves it.
func (f *file) entries() (entries []*ratelimit.RateLimitDescriptor_Entry) {
	at := &f.root
	for len(at.children) > 0 && (len(entries) == 0 || f.chance(0.7)) {
		at = pick(f, at.children...)
		entry := &ratelimit.RateLimitDescriptor_Entry{Key: at.key, Value: at.value}
		if at.value == "" || f.chance(0.1) {
			entry.Value = pick(f, "", "v1", "v2", "v11", "v12", "w")
		} else if prefix, found := strings.CutSuffix(at.value, "*"); found {
			entry.Value = prefix + pick(f, "", "1", "2")
		}
		if f.chance(0.03) {
			entry.Key = pick(f, keys...)
		}
		entries = append(entries, entry)
	}
	if f.chance(0.05) {
		entries = append(entries, &ratelimit.RateLimitDescriptor_Entry{Key: pick(f, keys...), Value: "v1"})
	}
	return entries
}
