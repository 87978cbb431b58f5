package httplimit

import (
	"net/netip"
	"strconv"
)

// AppendAddr appends the key of a client's address, as AppendKey does for a request:
// nothing for the zero Addr, 4 bytes for IPv4, for IPv6 the whole blocks of 8 bytes
// that the prefix touches, and one more byte for a prefix length that is not the
// default.
func (c *Clients) AppendAddr(dst []byte, addr netip.Addr) []byte {
	addr = original(addr.Unmap().WithZone(""))
	if !addr.IsValid() {
		return dst
	}
	bits, usual := c.ipv4Bits(), 32
	if addr.Is6() {
		bits, usual = c.ipv6Bits(), 64
	}
	network, _ := addr.Prefix(bits) // of no more bits than there are
	if addr.Is4() {
		b := network.Addr().As4()
		dst = append(dst, b[:]...)
	} else {
		b := network.Addr().As16()
		dst = append(dst, b[:(bits+63)/64*8]...)
	}
	if bits != usual {
		dst = append(dst, byte(bits))
	}
	return dst
}

// Key returns the key of a client's address as a string, for Limiter.Take. It allocates;
// AppendAddr does not.
func (c *Clients) Key(addr netip.Addr) string {
	var key [maxAddrKey]byte
	return string(c.AppendAddr(key[:0], addr))
}

// maxAddrKey is the most bytes of the key of an address.
const maxAddrKey = 17

func (c *Clients) ipv4Bits() int { return lengthOr(c.IPv4Bits, 32, 32) }
func (c *Clients) ipv6Bits() int { return lengthOr(c.IPv6Bits, 128, 64) }

// lengthOr returns bits if it is 1 … most, and usual otherwise.
func lengthOr(bits, most, usual int) int {
	if bits < 1 || bits > most {
		return usual
	}
	return bits
}

// KeyText returns the address or network of a key of any Clients, such as "192.0.2.1" or
// "2001:db8::/64"; for other bytes it returns them quoted.
func (*Clients) KeyText(key []byte) string {
	var b [16]byte
	switch n := copy(b[:], key); len(key) {
	case 0:
		return ""
	case 4:
		return netip.AddrFrom4([4]byte(key)).String()
	case 5:
		if network := netip.PrefixFrom(netip.AddrFrom4([4]byte(key[:4])), int(key[4])); network.IsValid() {
			return network.String()
		}
	case 8:
		return netip.PrefixFrom(netip.AddrFrom16(b), 64).String()
	case 9, 17:
		clear(b[n/8*8:])
		if network := netip.PrefixFrom(netip.AddrFrom16(b), int(key[len(key)-1])); network.IsValid() {
			return network.String()
		}
	}
	return strconv.Quote(string(key))
}
