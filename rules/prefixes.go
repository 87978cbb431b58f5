package rules

import (
	"net/netip"
	"strings"

	"go.yaml.in/yaml/v4"
)

// prefixes is the lengths of the prefixes by which a descriptor counts addresses. The
// zero prefixes are none.
type prefixes struct{ ipv4, ipv6 int }

func (p prefixes) given() bool { return p != prefixes{} }

// append appends to a key the network of a value. That is an address, or its network as
// in 2001:db8::/64. What is neither shares one counter, for whoever can write such
// values could have any number of them.
func (p prefixes) append(key []byte, value string) []byte {
	value, _, _ = strings.Cut(value, "/")
	value, _, _ = strings.Cut(value, "%") // a zone
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return appendPart(key, "")
	}
	addr = addr.Unmap()
	bits := p.ipv6
	if addr.Is4() {
		bits = p.ipv4
	}
	network, _ := addr.Prefix(bits)
	var text [len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")]byte
	return appendPart(key, network.AppendTo(text[:0]))
}

// prefixes reads a mapping that has both lengths.
func (r *reader) prefixes(n *yaml.Node) (p prefixes) {
	r.mapping(n, "prefixes", fields{
		"ipv4": func(n *yaml.Node) { p.ipv4 = int(r.number(n, "ipv4", 1, 32)) },
		"ipv6": func(n *yaml.Node) { p.ipv6 = int(r.number(n, "ipv6", 1, 128)) },
	})
	if p.ipv4 == 0 || p.ipv6 == 0 {
		r.fail(n, "prefixes, must have ipv4 and ipv6")
	}
	return p
}
