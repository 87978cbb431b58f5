package caddylimit

import (
	"net/netip"

	"github.com/sketchlimit/sketchlimit"
)

// request returns what counts for a key: the network that an address is in, if the zone
// has a prefix for its kind, and otherwise the text.
func (z *Zone) request(key string) sketchlimit.Request {
	if network := z.network(key); network.IsValid() {
		return sketchlimit.Request{Addr: network.Addr()}
	}
	return sketchlimit.Request{Key: key}
}

// network returns the network that an address counts as; an invalid one for all other
// keys.
func (z *Zone) network(key string) netip.Prefix {
	if z.IPv4Prefix == 0 && z.IPv6Prefix == 0 {
		return netip.Prefix{}
	}
	addr, err := netip.ParseAddr(key)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap()
	bits := z.IPv6Prefix
	if addr.Is4() {
		bits = z.IPv4Prefix
	}
	if bits == 0 {
		return netip.Prefix{}
	}
	network, _ := addr.Prefix(bits) // provision has seen to it that bits are in their range
	return network
}

// text returns what counts, for people.
func (z *Zone) text(key string) string {
	if network := z.network(key); network.IsValid() {
		return network.String()
	}
	return key
}
