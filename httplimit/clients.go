package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Clients finds the address of a request's client, and is the [Key] of it. The zero
// Clients takes the peer of the connection.
//
// A client can write any header field, so an address in one is only as good as the hop
// that wrote it. If the peer of the connection is one of Proxies, the last address in
// Header is the hop before it; if that is one of Proxies too, the next address to the
// left, and so on over all lines of the field. The first address that is not one of
// Proxies is the client; entries to the left of it are not read. An entry that is not
// an address ends the walk: the hop that wrote it then stands for its clients, and they
// share a key.
//
// Addresses may have brackets, ports and zones. An IPv4-mapped IPv6 address is the IPv4
// address, and zones do not count. A client behind a translator (64:ff9b::/96 and
// 64:ff9b:1::/48, RFC 6052 and 8215) is its IPv4 address, but a proxy behind one is
// matched by its IPv6 address. A peer without an address, as on a Unix socket, is no
// proxy; its requests share the empty key.
//
// A Clients is safe for concurrent use as long as nobody changes it.
type Clients struct {
	// Proxies are the networks of trusted hops. 0.0.0.0/0 and ::/0 are errors, because
	// clients could then choose their addresses.
	Proxies []netip.Prefix
	// Header is the field in which Proxies write the address that sent them a request.
	// "X-Forwarded-For", the default, and "Forwarded" (RFC 7239) have one address a
	// hop. Any other field, such as "X-Real-IP", must be set by the peer itself to a
	// single address; if it has several lines or anything else, the peer is the client.
	Header string
	// IPv4Bits is the prefix length that keys of IPv4 addresses have, 1 … 32; 0 is 32.
	IPv4Bits int
	// IPv6Bits is the prefix length that keys of IPv6 addresses have, 1 … 128; 0 is 64,
	// the smallest network that a customer gets, all of whose addresses are the
	// customer's.
	IPv6Bits int
}

// AppendKey implements [Key]: see [Clients.AppendAddr].
func (c *Clients) AppendKey(dst []byte, r *http.Request) []byte {
	return c.AppendAddr(dst, c.Addr(r))
}

// Text returns the KeyText of the request's key: an IPv4 address, or the network of an
// IPv6 one. It may be a part of the request; clone it to keep it.
func (c *Clients) Text(r *http.Request) string {
	addr, dotted := c.client(r)
	if dotted != "" && c.ipv4Bits() == 32 {
		return dotted
	}
	var key [maxAddrKey]byte
	return c.KeyText(c.AppendAddr(key[:0], addr))
}

// Addr returns the client's whole address, without zone, IPv4 unmapped; the zero Addr
// if the peer has none. Log this one.
func (c *Clients) Addr(r *http.Request) netip.Addr {
	addr, _ := c.client(r)
	return original(addr)
}

// client returns the client's address as it is written, and its text if the request has
// it, see parseHop.
func (c *Clients) client(r *http.Request) (addr netip.Addr, dotted string) {
	addr, dotted = parseHop(r.RemoteAddr)
	switch {
	case !contains(c.Proxies, addr):
		return addr, dotted
	case c.Header == "" || strings.EqualFold(c.Header, "X-Forwarded-For"):
		return c.walk(addr, dotted, r.Header["X-Forwarded-For"], cutXForwardedFor)
	case strings.EqualFold(c.Header, "Forwarded"):
		return c.walk(addr, dotted, r.Header["Forwarded"], cutForwarded)
	}
	if lines := r.Header.Values(c.Header); len(lines) == 1 {
		if named, text := parseHop(strings.Trim(lines[0], ows)); named.IsValid() {
			return named, text
		}
	}
	return addr, dotted
}

// walk follows the hops to the left for as long as they are believed. cut takes the last
// hop off a line.
func (c *Clients) walk(hop netip.Addr, dotted string, lines []string, cut func(string) (rest, last string, more bool)) (netip.Addr, string) {
	for i := len(lines) - 1; i >= 0; i-- {
		for line, more := lines[i], true; more; {
			var last string
			line, last, more = cut(line)
			addr, text := parseHop(last)
			if !addr.IsValid() {
				return hop, dotted
			}
			if hop, dotted = addr, text; !contains(c.Proxies, hop) {
				return hop, dotted
			}
		}
	}
	return hop, dotted
}

func (c *Clients) check() error {
	if c == nil {
		return errors.New("Clients nil, must be one")
	}
	if err := checkNetworks(c.Proxies); err != nil {
		return fmt.Errorf("Clients.Proxies%w", err)
	}
	for i, p := range c.Proxies {
		if p.Bits() == 0 {
			return fmt.Errorf("Clients.Proxies[%d] %v, must not be all addresses: clients could then write their own", i, p)
		}
	}
	if c.IPv4Bits < 0 || c.IPv4Bits > 32 {
		return fmt.Errorf("Clients.IPv4Bits %d, must be 0 … 32", c.IPv4Bits)
	}
	if c.IPv6Bits < 0 || c.IPv6Bits > 128 {
		return fmt.Errorf("Clients.IPv6Bits %d, must be 0 … 128", c.IPv6Bits)
	}
	if c.Header != "" {
		return checkName("Clients.Header", c.Header)
	}
	return nil
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}
