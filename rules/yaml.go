package rules

import (
	"fmt"
	"math"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// fields maps every field of a mapping to the function that reads its value.
type fields map[string]func(*yaml.Node)

// everywhere is the fields that exist somewhere in a file.
var everywhere = map[string]string{
	"domain":      "a file",
	"descriptors": "a file or descriptor",
	"key":         "a descriptor", "value": "a descriptor", "rate_limit": "a descriptor", "shadow_mode": "a descriptor",
	"prefixes": "a descriptor", "ipv4": "prefixes", "ipv6": "prefixes",
	"quota_mode": "a descriptor", "share_threshold": "a descriptor", "detailed_metric": "a descriptor",
	"value_to_metric": "a descriptor", "metadata": "a descriptor",
	"unit": "a rate_limit", "requests_per_unit": "a rate_limit", "unlimited": "a rate_limit", "replaces": "a rate_limit",
	"unit_multiplier": "a rate_limit", "algorithm": "a rate_limit", "burst": "a rate_limit", "keys": "a rate_limit",
	"units_per_key": "a rate_limit", "headroom": "a rate_limit", "false_denial_rate": "a rate_limit", "memory": "a rate_limit",
	"overload": "a rate_limit", "charge": "a rate_limit",
	"name": "a rate_limit or an entry of replaces",
}

// mapping reads a node's fields in the order of the file.
func (r *reader) mapping(n *yaml.Node, what string, known fields) {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		r.fail(n, "error loading config file: %s is a mapping, found %s", what, shown(n))
		return
	}
	for _, pair := range pairs(n) {
		name, value := pair[0], target(pair[1])
		read, ok := known[name.Value]
		switch place := everywhere[name.Value]; {
		case name.Tag != "!!str":
			r.fail(name, "config error, key is not of type string: %s", shown(name))
		case !ok && place != "":
			r.fail(name, "config error, key '%s' belongs into %s, not into %s", name.Value, place, what)
		case !ok:
			r.fail(name, "config error, unknown key '%s'", name.Value)
		case value.Tag != "!!null":
			read(value)
		case name.Value == "rate_limit":
			r.warnings = append(r.warnings, fmt.Sprintf("%s:%d: empty rate_limit, limits nothing", r.file, name.Line))
		}
	}
}

// pairs returns the keys and values of a mapping, with those of mappings that it merges
// in (<<) unless it has them itself.
func pairs(n *yaml.Node) (all [][2]*yaml.Node) {
	seen := map[string]bool{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := target(n.Content[i]), target(n.Content[i+1])
		switch {
		case key.Tag != "!!merge":
			all = append(all, [2]*yaml.Node{key, value})
			seen[key.Value] = true
		case value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		default:
			merged = append(merged, value)
		}
	}
	for _, m := range merged {
		for _, pair := range pairs(target(m)) {
			if !seen[pair[0].Value] {
				all = append(all, pair)
				seen[pair[0].Value] = true
			}
		}
	}
	return all
}

// target is what a node is, or what it is an alias of.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// elements reads a sequence of mappings.
func elements[T any](r *reader, n *yaml.Node, read func(*yaml.Node) T) (all []T) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "error loading config file: a list was expected, found %s", shown(n))
	}
	for _, element := range n.Content {
		if element = target(element); element.Kind != yaml.MappingNode {
			r.fail(element, "config error, yaml file contains list of type other than map: %s", shown(element))
			break
		}
		all = append(all, read(element))
	}
	return all
}

// text reads a string, or a whole number or a boolean as it is written.
func (r *reader) text(n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fail(n, "error loading config file: a text was expected, found %s", shown(n))
	case n.Tag != "!!str" && n.Tag != "!!int" && n.Tag != "!!bool":
		r.fail(n, "error checking config: %s is neither text nor whole number, put it in quotes", shown(n))
	}
	return n.Value
}

// flag reads a boolean, also as YAML 1.1 has them: yes, no, on and off.
func (r *reader) flag(n *yaml.Node) (value bool) {
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if n.Kind != yaml.ScalarNode || quoted || n.Decode(&value) != nil {
		r.fail(n, "error loading config file: true or false was expected, found %s", shown(n))
	}
	return value
}

// number reads a whole number, and returns the least one if there is none. Helm writes
// a million as 1e+06.
func (r *reader) number(n *yaml.Node, name string, least, most int64) int64 {
	var value int64
	var float float64
	switch {
	case n.Tag == "!!float" && (n.Decode(&float) != nil || float != math.Trunc(float)):
		r.fail(n, "error checking config: %s %s, must be a whole number %d … %d", name, shown(n), least, most)
	case n.Tag == "!!float" && float >= float64(least) && float <= float64(most):
		return int64(float)
	case n.Tag != "!!int" || n.Decode(&value) != nil || value < least || value > most:
		r.fail(n, "error loading config file: %s %s, must be a whole number %d … %d", name, shown(n), least, most)
	default:
		return value
	}
	return least
}

// share reads a number above 0 and below 1. YAML takes 1e-5 for one and 1e-05 for a text:
// both are meant.
func (r *reader) share(n *yaml.Node, name string) float64 {
	value, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || !(value > 0 && value < 1) {
		r.fail(n, "%s %s, must be a number above 0 and below 1 such as 1e-5", name, shown(n))
	}
	return value
}

// above reads a number above 0, from least to most.
func (r *reader) above(n *yaml.Node, name string, least, most float64) float64 {
	value, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || !(value > 0 && value >= least && value <= most) {
		r.fail(n, "%s %s, must be a number above 0, %.0f … %.0f", name, shown(n), least, most)
	}
	return value
}

// shown is a node in an error.
func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	const most = 100
	if len(n.Value) > most {
		return fmt.Sprintf("%.*s…", most, n.Value)
	}
	return n.Value
}
