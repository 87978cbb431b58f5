package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sketchlimit/sketchlimit"
)

// domain is one file as written.
type domain struct {
	name        string
	descriptors []descriptor
	warnings    []string
}

type descriptor struct {
	key, value     string
	limit          *limit // nil: none
	children       []descriptor
	shadow, quota  bool
	shareThreshold bool
	detailed       bool // detailed_metric
	toMetric       bool // value_to_metric
	metadata       map[string]any
	prefixes       prefixes // zero: none
	line           int
}

// limit is a rate_limit.
type limit struct {
	requests   int64
	stated     bool // requests_per_unit is given
	unit       string
	multiplier int
	unlimited  bool
	name       string
	replaces   []string
	algorithm  sketchlimit.Algorithm
	burst      int
	keys       int
	units      float64 // a key
	headroom   float64
	rate       float64
	memory     int
	overload   sketchlimit.Overload
	charge     bool
}

// reader reads a file and keeps the first error.
type reader struct {
	file     string
	err      error
	warnings []string
}

// parse reads one file. Its errors begin with the file's name and, where there is one,
// the line, and then say what envoyproxy/ratelimit says, if that has an error for it
// too.
func parse(file string, data []byte) (*domain, error) {
	r := &reader{file: file}
	root := r.document(data)
	if r.err != nil {
		return nil, r.err
	}
	d := new(domain)
	r.mapping(root, "a file", fields{
		"domain":      func(n *yaml.Node) { d.name = r.text(n) },
		"descriptors": func(n *yaml.Node) { d.descriptors = elements(r, n, r.descriptor) },
	})
	if r.err == nil && d.name == "" {
		r.fail(nil, "config file cannot have empty domain")
	}
	d.warnings = r.warnings
	return d, r.err
}

// document returns the root of the file's only document that is not empty. What YAML
// itself forbids, and aliases that multiply beyond measure, the library finds when it
// decodes.
func (r *reader) document(data []byte) *yaml.Node {
	decoder, root := yaml.NewDecoder(bytes.NewReader(data)), &yaml.Node{Kind: yaml.MappingNode}
	for found := false; ; {
		var document yaml.Node
		var decoded any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return root
		}
		if err == nil {
			err = document.Decode(&decoded)
		}
		if err == nil && found && decoded != nil {
			r.fail(document.Content[0], "error loading config file: more than one document that is not empty, must be one")
			return nil
		}
		if err != nil {
			r.failYAML(data, err)
			return nil
		}
		if decoded != nil {
			root, found = document.Content[0], true
		}
	}
}

// inYAML is an error of the library: its line, and the first thing that is wrong.
var inYAML = regexp.MustCompile(`^(?:yaml: )?(?:construct errors:\s*|go-yaml load error in \w+ at )?(?:line |L)?(\d+)?(?:\.C\d+)?(?:: )?(.*)`)

// failYAML fails by an error of the library. What is missing at the end is missing in
// the last line.
func (r *reader) failYAML(data []byte, err error) {
	at, text := &yaml.Node{}, err.Error()
	if m := inYAML.FindStringSubmatch(text); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		at.Line, text = min(at.Line, 1+bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n"))), m[2]
	}
	r.fail(at, "error loading config file: yaml: %s", text)
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	if r.err != nil {
		return
	}
	at := r.file
	if n != nil && n.Line > 0 {
		at += ":" + strconv.Itoa(n.Line)
	}
	r.err = fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...))
}

func (r *reader) descriptor(n *yaml.Node) descriptor {
	d := descriptor{line: n.Line}
	r.mapping(n, "a descriptor", fields{
		"key":             func(n *yaml.Node) { d.key = r.text(n) },
		"value":           func(n *yaml.Node) { d.value = r.text(n) },
		"rate_limit":      func(n *yaml.Node) { d.limit = r.limit(n) },
		"descriptors":     func(n *yaml.Node) { d.children = elements(r, n, r.descriptor) },
		"shadow_mode":     func(n *yaml.Node) { d.shadow = r.flag(n) },
		"quota_mode":      func(n *yaml.Node) { d.quota = r.flag(n) },
		"share_threshold": func(n *yaml.Node) { d.shareThreshold = r.flag(n) },
		"prefixes":        func(n *yaml.Node) { d.prefixes = r.prefixes(n) },
		"detailed_metric": func(n *yaml.Node) { d.detailed = r.flag(n) },
		"value_to_metric": func(n *yaml.Node) { d.toMetric = r.flag(n) },
		"metadata":        func(n *yaml.Node) { d.metadata = r.metadata(n) },
	})
	switch {
	case d.key == "":
		r.fail(n, "descriptor has empty key")
	case d.shareThreshold && !strings.Contains(d.value, "*"):
		r.fail(n, "share_threshold can only be used with wildcard values (containing '*'), but found key '%s'", d.composite())
	case d.prefixes.given() && d.value != "" && !strings.Contains(d.value, "*"):
		r.fail(n, "prefixes with value '%s', go with open values only", d.value)
	case d.prefixes.given() && d.shareThreshold:
		r.fail(n, "prefixes with share_threshold, only one of them may be given")
	}
	return d
}

// composite is a descriptor's name within its level.
func (d *descriptor) composite() string {
	if d.value == "" {
		return d.key
	}
	return d.key + "_" + d.value
}

// open reports whether requests choose the key or the value.
func (d *descriptor) open() bool { return d.value == "" || strings.Contains(d.composite(), "*") }

func (r *reader) limit(n *yaml.Node) *limit {
	l := &limit{algorithm: sketchlimit.FixedWindow, multiplier: 1}
	extras := "" // a field that an unlimited rule has no use for
	extra := func(name string, read func(*yaml.Node)) func(*yaml.Node) {
		return func(n *yaml.Node) { read(n); extras = name }
	}
	r.mapping(n, "a rate_limit", fields{
		"unit":              func(n *yaml.Node) { l.unit = r.text(n) },
		"requests_per_unit": func(n *yaml.Node) { l.requests, l.stated = r.number(n, "requests_per_unit", 0, math.MaxUint32), true },
		"unlimited":         func(n *yaml.Node) { l.unlimited = r.flag(n) },
		"name":              func(n *yaml.Node) { l.name = r.text(n) },
		"replaces":          func(n *yaml.Node) { l.replaces = elements(r, n, r.replaced) },
		"unit_multiplier":   extra("unit_multiplier", func(n *yaml.Node) { l.multiplier = int(r.number(n, "unit_multiplier", 1, math.MaxInt32)) }),
		"algorithm":         extra("algorithm", func(n *yaml.Node) { l.algorithm = r.algorithm(n) }),
		"burst":             extra("burst", func(n *yaml.Node) { l.burst = int(r.number(n, "burst", 1, math.MaxInt32)) }),
		"keys":              extra("keys", func(n *yaml.Node) { l.keys = int(r.number(n, "keys", 1, math.MaxInt32)) }),
		"false_denial_rate": extra("false_denial_rate", func(n *yaml.Node) { l.rate = r.share(n, "false_denial_rate") }),
		"units_per_key":     extra("units_per_key", func(n *yaml.Node) { l.units = r.above(n, "units_per_key", 0, math.MaxInt32) }),
		"headroom":          extra("headroom", func(n *yaml.Node) { l.headroom = r.above(n, "headroom", 1, 1000) }),
		"memory":            extra("memory", func(n *yaml.Node) { l.memory = r.bytes(n) }),
		"overload":          extra("overload", func(n *yaml.Node) { l.overload = r.overload(n) }),
		"charge":            extra("charge", func(n *yaml.Node) { l.charge = r.flag(n) }),
	})
	window, known := l.window()
	switch {
	case l.unlimited && l.unit != "":
		r.fail(n, "should not specify rate limit unit when unlimited")
	case l.unlimited && extras != "":
		r.fail(n, "should not specify %s when unlimited", extras)
	case !l.unlimited && !known:
		r.fail(n, "invalid rate limit unit '%s'", l.unit)
	case !l.unlimited && (window < minWindow || window > maxWindow):
		r.fail(n, "unit '%s' times unit_multiplier %d, must be %v … %v", l.unit, l.multiplier, minWindow, maxWindow)
	case l.burst > 0 && l.algorithm != sketchlimit.TokenBucket:
		r.fail(n, "burst %d, goes with algorithm token_bucket only", l.burst)
	case l.memory > 0 && l.rate > 0:
		r.fail(n, "false_denial_rate with memory, only one of them may be given")
	case l.memory > 0 && l.units > 0:
		r.fail(n, "units_per_key with memory, only one of them may be given")
	case l.memory > 0 && l.headroom > 0:
		r.fail(n, "headroom with memory, only one of them may be given")
	}
	for _, name := range l.replaces {
		if name == l.name {
			r.fail(n, "replaces should not contain name of same descriptor")
		}
	}
	return l
}

// metadata reads a mapping of anything that JSON has, and returns it as JSON has it.
func (r *reader) metadata(n *yaml.Node) (m map[string]any) {
	var decoded map[string]any
	err := n.Decode(&decoded)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(decoded); err == nil {
			err = json.Unmarshal(text, &m)
		}
	}
	if err != nil {
		r.fail(n, "error loading config file: metadata: %v, must be a mapping that JSON can hold", err)
	}
	return m
}

// units are the names of windows; months and years are no calendar's.
var units = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

// What a limiter takes for a window.
const (
	minWindow = time.Millisecond
	maxWindow = time.Duration(1 << 61)
)

// window returns the unit times its multiplier, if there is such a unit. What a limiter
// does not take is the longest duration there is.
func (l *limit) window() (time.Duration, bool) {
	unit, ok := units[strings.ToLower(l.unit)]
	if !ok {
		var err error
		if unit, err = time.ParseDuration(l.unit); err != nil {
			return 0, false
		}
	}
	if unit > maxWindow/time.Duration(l.multiplier) {
		return math.MaxInt64, true
	}
	return unit * time.Duration(l.multiplier), true
}

func (r *reader) replaced(n *yaml.Node) (name string) {
	r.mapping(n, "an entry of replaces", fields{"name": func(n *yaml.Node) { name = r.text(n) }})
	if name == "" {
		r.fail(n, "should not have an empty replaces entry")
	}
	return name
}

// algorithms are the names of rules of admission.
var algorithms = map[string]sketchlimit.Algorithm{
	"fixed_window": sketchlimit.FixedWindow, "sliding_window": sketchlimit.SlidingWindow, "token_bucket": sketchlimit.TokenBucket,
}

func (r *reader) algorithm(n *yaml.Node) sketchlimit.Algorithm {
	a, ok := algorithms[r.text(n)]
	if !ok {
		r.fail(n, "algorithm '%s', must be fixed_window, sliding_window or token_bucket", n.Value)
	}
	return a
}

func (r *reader) overload(n *yaml.Node) sketchlimit.Overload {
	for _, o := range []sketchlimit.Overload{sketchlimit.Deny, sketchlimit.DenyProven} {
		if r.text(n) == o.String() {
			return o
		}
	}
	r.fail(n, "overload '%s', must be deny or deny_proven", n.Value)
	return sketchlimit.Deny
}

// bytes reads a number of bytes, 1 or more, with or without KiB, MiB or GiB.
func (r *reader) bytes(n *yaml.Node) int {
	text := r.text(n)
	for unit, shift := range map[string]uint{"": 0, "KiB": 10, "MiB": 20, "GiB": 30} {
		digits, ok := strings.CutSuffix(text, unit)
		size, err := strconv.ParseInt(digits, 10, 0)
		if ok && err == nil && size > 0 && size <= math.MaxInt>>shift {
			return int(size) << shift
		}
	}
	r.fail(n, "memory '%s', must be a number of bytes such as 65536, 512KiB, 8MiB or 1GiB", text)
	return 0
}
