package httplimit

import (
	"encoding/binary"
	"net/netip"
	"net/textproto"
	"strings"
)

const ows = " \t" // optional whitespace (RFC 9110, section 5.6.3)

// parseHop reads an address as servers and proxies write it: with or without a port,
// IPv6 with or without brackets and a zone. It returns the zero Addr for anything else,
// and of IPv4 the part of s that is the address, for it can be written in one way only.
func parseHop(s string) (addr netip.Addr, dotted string) {
	b, n := parseIPv4(s)
	switch {
	case n == 0:
		return parseIPv6(s), ""
	case n < len(s) && !isPort(s[n:]):
		return netip.Addr{}, ""
	}
	return netip.AddrFrom4(b), s[:n]
}

// parseIPv4 reads the address that s begins with, and returns its length; 0 if there is
// none. Most requests have two such addresses, and [netip.ParseAddr] takes three times
// as long.
func parseIPv4(s string) (b [4]byte, n int) {
	var addr, octet uint32
	dots, digits := 0, 0
	for ; n < len(s); n++ {
		if digit := s[n] - '0'; digit <= 9 {
			octet, digits = 10*octet+uint32(digit), digits+1
			continue
		}
		if s[n] != '.' || dots == 3 {
			break
		}
		if !isOctet(octet, digits) {
			return b, 0
		}
		addr, dots, octet, digits = addr<<8|octet, dots+1, 0, 0
	}
	if dots < 3 || !isOctet(octet, digits) {
		return b, 0
	}
	binary.BigEndian.PutUint32(b[:], addr<<8|octet)
	return b, n
}

// isOctet reports whether a number of so many digits is a byte without zeros in front.
func isOctet(n uint32, digits int) bool {
	return digits == 1 || digits == 2 && n >= 10 || digits == 3 && 100 <= n && n <= 255
}

// parseIPv6 is parseHop for IPv6.
func parseIPv6(s string) netip.Addr {
	host, port, bracketed := s, "", false
	if strings.HasPrefix(s, "[") {
		if host, port, bracketed = strings.Cut(s[1:], "]"); !bracketed || port != "" && !isPort(port) {
			return netip.Addr{}
		}
	}
	host, zone, zoned := strings.Cut(host, "%") // before it is parsed: netip keeps a table of zones
	addr, err := netip.ParseAddr(host)
	if err != nil || zoned && zone == "" || addr.Is4() {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// obfuscated is what stands behind the underscore in place of a port (RFC 7239, section
// 6.3).
const obfuscated = "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// isPort reports whether s is a colon and a port, or what RFC 7239 lets stand for one.
func isPort(s string) bool {
	if s[0] != ':' {
		return false
	}
	if strings.HasPrefix(s, ":_") {
		return len(s) > 2 && strings.Trim(s[2:], obfuscated) == ""
	}
	port := 0
	for _, c := range []byte(s[1:]) {
		if port = 10*port + int(c-'0'); c < '0' || c > '9' || port > 65535 {
			return false
		}
	}
	return len(s) > 1
}

// cutXForwardedFor cuts the last entry off a line. more is whether there are others.
func cutXForwardedFor(line string) (rest, last string, more bool) {
	comma := strings.IndexByte(line, ',')
	if comma >= 0 {
		comma = strings.LastIndexByte(line, ',') // which is slow, and most lines have one entry
	}
	return line[:max(comma, 0)], textproto.TrimString(line[comma+1:]), comma >= 0
}

// cutForwarded cuts the last element off a line of Forwarded, and returns the node that
// it names; "" if it names none or is malformed.
//
// The end of the element before it is looked for from the right, because the right is
// what a proxy wrote. From the left, a quote that a client has left open would hide
// what proxies added behind it. In a well-formed element both ways agree: an opening
// quote follows "=", and quotes inside have a backslash before them.
func cutForwarded(line string) (rest, last string, more bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch {
		case line[i] == '"' && !escaped(line[:i]):
			quoted = !quoted
		case line[i] == ',' && !quoted:
			return line[:i], forwardedFor(line[i+1:]), true
		}
	}
	return "", forwardedFor(line), false
}

// escaped reports whether what follows s is escaped by a backslash.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// forwardedFor returns the value of "for" in an element of Forwarded: pairs of name and
// value between semicolons. It returns "" if there is none, or one too many.
func forwardedFor(element string) (node string) {
	for {
		element = strings.TrimLeft(element, ows+";")
		if element == "" {
			return node
		}
		name, rest, ok := strings.Cut(element, "=")
		if !ok {
			return ""
		}
		var value string
		if value, element, ok = cutValue(rest); !ok {
			return ""
		}
		if strings.EqualFold(name, "for") {
			if node != "" {
				return ""
			}
			node = value
		}
	}
}

// cutValue cuts a value, quoted or not, off what begins with it. Backslashes stay: no
// address has need of them, so one that has them is malformed.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ";")
		return strings.TrimRight(value, ows), rest, !strings.Contains(value, `"`)
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			rest = strings.TrimLeft(s[i+1:], ows)
			return s[1:i], rest, rest == "" || rest[0] == ';'
		}
	}
	return "", "", false
}
