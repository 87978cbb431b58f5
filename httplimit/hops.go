package httplimit

import (
	"net/netip"
	"net/textproto"
	"strings"
)

const ows = " \t" // optional whitespace (RFC 9110, section 5.6.3)

// parseHop reads an address as servers and proxies write it: with or without a port,
// IPv6 with or without brackets and a zone. It returns the zero Addr for anything else, and
// of IPv4 the part of s that is the address, for it can be written in one way only.
func parseHop(s string) (addr netip.Addr, dotted string) {
	host, port, bracketed := s, "", false
	if strings.HasPrefix(s, "[") {
		if host, port, bracketed = strings.Cut(s[1:], "]"); !bracketed {
			return netip.Addr{}, ""
		}
	} else if colon := strings.IndexByte(s, ':'); colon >= 0 && colon == strings.LastIndexByte(s, ':') {
		host, port = s[:colon], s[colon:]
	}
	if port != "" && !isPort(port) {
		return netip.Addr{}, ""
	}
	if b, ok := parseIPv4(host); ok {
		if bracketed {
			return netip.Addr{}, ""
		}
		return netip.AddrFrom4(b), host
	}
	host, zone, zoned := strings.Cut(host, "%") // before it is parsed: netip keeps a table of zones
	addr, err := netip.ParseAddr(host)
	if err != nil || zoned && zone == "" || addr.Is4() {
		return netip.Addr{}, ""
	}
	return addr.Unmap(), ""
}

// parseIPv4 is [netip.ParseAddr] for IPv4. Most requests have two such addresses, and by netip
// they take a tenth of all that the limits of examples/service cost.
func parseIPv4(s string) (b [4]byte, ok bool) {
	field, digits, n := 0, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9' && (digits == 0 || n > 0) && n <= 25:
			digits, n = digits+1, 10*n+int(c-'0')
		case c == '.' && digits > 0 && n <= 255 && field < 3:
			b[field] = byte(n)
			field, digits, n = field+1, 0, 0
		default:
			return b, false
		}
	}
	b[3] = byte(n)
	return b, field == 3 && digits > 0 && n <= 255
}

// isPort tells whether s is a colon and a port, or what RFC 7239 lets stand for one.
func isPort(s string) bool {
	if s[0] != ':' {
		return false
	}
	if strings.HasPrefix(s, ":_") {
		return len(s) > 2
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
	comma := strings.LastIndexByte(line, ',')
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

// escaped tells whether what follows s is escaped by a backslash.
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
