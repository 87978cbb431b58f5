package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sketchlimit/sketchlimit/rules"
)

// These bound the names that requests can choose: each takes memory here and a time
// series elsewhere.
const (
	maxNames       = 10_000 // of all rules together, which share them equally
	minNamesOfRule = 100    // however many rules there are
	maxDomains     = 1000   // that no file has
	maxNameBytes   = 250
	nameAge        = time.Hour // a name that no request has used for so long makes room
)

// otherName is told in place of names beyond that, behind the name of their rule.
const otherName = "other"

// suffixes are the ends of the names of a rule's counts, in the order of countsOf.
var suffixes = [...]string{".total_hits", ".within_limit", ".near_limit", ".over_limit", ".shadow_mode"}

// countsOf are counts in the order of suffixes.
func countsOf(c rules.Counts) [len(suffixes)]uint64 {
	return [...]uint64{c.Total, c.Within, c.Near, c.Over, c.Shadow}
}

// names are those that requests have chosen for the statistics of one rule, or of
// domains that no file has, with counts since they were told last. They are safe for
// concurrent use.
type names struct {
	prefix string // of statsd, of the name that stands for all others

	mu     sync.Mutex
	seen   map[string]*named
	most   int
	full   bool   // which was logged
	others uint64 // units that were counted under no name of their own
}

// named is a name.
type named struct {
	statsd string
	counts [len(suffixes)]uint64
	used   time.Time // when it was told last, or came; guarded like all by the mutex
}

// add adds counts to a name, and tells whether it is there for the first time, and
// whether there has just become no room for it.
func (n *names) add(name string, counts [len(suffixes)]uint64) (first, filled bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	entry, known := n.seen[name]
	if !known {
		if n.seen == nil {
			n.seen = map[string]*named{}
		}
		statsd := sanitize(name)
		if full := len(n.seen) >= n.most; full || len(name) > maxNameBytes {
			filled, n.full = full && !n.full, n.full || full
			n.others += counts[0]
			name, statsd = "", n.prefix+otherName // "" is no name of a rule or domain
		}
		if entry, known = n.seen[name]; !known {
			entry = &named{statsd: statsd, used: time.Now()}
			n.seen[name] = entry
		}
	}
	for i, c := range counts {
		entry.counts[i] += c
	}
	return !known, filled
}

// tell calls a function with each count that is above 0 and begins it anew. Names that
// were not used for nameAge are removed.
func (n *names) tell(now time.Time, each func(name string, count uint64)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, entry := range n.seen {
		for i, count := range entry.counts {
			if count > 0 {
				each(entry.statsd+suffixes[i], count)
				entry.used = now
			}
		}
		entry.counts = [len(suffixes)]uint64{}
		if now.Sub(entry.used) >= nameAge {
			delete(n.seen, name)
		}
	}
	n.full = n.full && len(n.seen) >= n.most*9/10 // or it would be logged each time that one makes room
}

// limit returns how many there may be.
func (n *names) limit() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.most
}

// namesOfRules are the names of all rules that requests name.
type namesOfRules struct {
	mu    sync.RWMutex
	rules map[string]*names // by String
}

// of returns the names of a rule. The first request of one that is new divides the room
// anew.
func (r *namesOfRules) of(rule *rules.Rule, limits *rules.Rules) *names {
	r.mu.RLock()
	found := r.rules[rule.String()]
	r.mu.RUnlock()
	if found != nil {
		return found
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	present := map[string]*names{}
	for _, other := range append(limits.All(), rule) {
		if !other.NamedByRequest {
			continue
		}
		n := r.rules[other.String()]
		if n == nil {
			n = &names{prefix: sanitize(other.Domain+"."+other.Path) + "_"}
		}
		present[other.String()] = n
	}
	for _, n := range present {
		n.mu.Lock()
		n.most = max(minNamesOfRule, maxNames/len(present))
		n.mu.Unlock()
	}
	r.rules = present
	return present[rule.String()]
}

// all returns the names of all rules, by rule.
func (r *namesOfRules) all() map[string]*names {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return maps.Clone(r.rules)
}

// Metrics of names.
var (
	namesDesc = prometheus.NewDesc("sketchlimitd_detailed_metric_names",
		"Names that requests have chosen for the statistics of a rule.", []string{"limiter"}, nil)
	namesLimitDesc = prometheus.NewDesc("sketchlimitd_detailed_metric_names_limit",
		"Names that the rule may have; the hits of others are counted as other.", []string{"limiter"}, nil)
	otherHitsDesc = prometheus.NewDesc("sketchlimitd_detailed_metric_other_hits_total",
		"Hits that were counted as other, because the rule had no room for their name or it was too long.", []string{"limiter"}, nil)
)

// Describe implements [prometheus.Collector].
func (r *namesOfRules) Describe(ch chan<- *prometheus.Desc) {
	ch <- namesDesc
	ch <- namesLimitDesc
	ch <- otherHitsDesc
}

// Collect implements [prometheus.Collector].
func (r *namesOfRules) Collect(ch chan<- prometheus.Metric) {
	for rule, n := range r.all() {
		n.mu.Lock()
		seen, most, others := len(n.seen), n.most, n.others
		n.mu.Unlock()
		rule = strings.ToValidUTF8(rule, "\uFFFD")
		ch <- prometheus.MustNewConstMetric(namesDesc, prometheus.GaugeValue, float64(seen), rule)
		ch <- prometheus.MustNewConstMetric(namesLimitDesc, prometheus.GaugeValue, float64(most), rule)
		ch <- prometheus.MustNewConstMetric(otherHitsDesc, prometheus.CounterValue, float64(others), rule)
	}
}

var ipv4 = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// sanitize replaces what has a meaning in statsd, and the dots of addresses.
func sanitize(name string) string {
	name = strings.NewReplacer(":", "_", "|", "_", "\n", "_", "\r", "_").Replace(name)
	return ipv4.ReplaceAllStringFunc(name, func(address string) string { return strings.ReplaceAll(address, ".", "_") })
}

// tagged is what the store writes behind the name of a statistic with these tags.
func tagged(tags map[string]string) (suffix string) {
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		if value := strings.NewReplacer(".", "_", ":", "_", "|", "_").Replace(tags[tag]); tag != "" && value != "" {
			suffix += ".__" + tag + "=" + value
		}
	}
	return suffix
}
