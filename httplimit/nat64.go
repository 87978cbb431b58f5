package httplimit

import "net/netip"

// The prefixes that stand for IPv4 everywhere: the well-known one (RFC 6052), and the
// one from which each operator takes his own, of any length (RFC 8215).
var (
	wellKnown = netip.MustParsePrefix("64:ff9b::/96")
	localUse  = netip.MustParsePrefix("64:ff9b:1::/48")
)

// original returns the IPv4 address that a translator has put into an IPv6 address, or
// else the address.
//
// All of IPv4 lies in one /64 of the well-known prefix, and would share a key.
func original(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	b := addr.As16()
	switch {
	case wellKnown.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:]))
	case localUse.Contains(addr) && b[8] == 0: // as it is wherever IPv4 is inside
		return netip.AddrFrom4(embedded(b))
	}
	return addr
}

// embedded returns the IPv4 address in one of the local-use prefix. Where it lies
// depends on the length of the operator's prefix (RFC 6052, section 2.2), which only
// the zeros tell that fill the rest: the longest prefix that fits them counts. It is
// too long for some addresses that end in 0, which clients rarely have; they then get
// keys of their own.
func embedded(b [16]byte) [4]byte {
	switch {
	case b[13]|b[14]|b[15] != 0: // of /96
		return [4]byte(b[12:])
	case b[12] != 0: // of /64
		return [4]byte(b[9:])
	case b[11] != 0: // of /56
		return [4]byte{b[7], b[9], b[10], b[11]}
	}
	return [4]byte{b[6], b[7], b[9], b[10]} // of /48
}
