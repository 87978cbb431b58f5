package httplimit

import (
	"net/netip"
	"strconv"
	"strings"
)

const ows = " \t" // optional whitespace (RFC 9110, section 5.6.3)

// parseHop reads an address as servers and proxies write it: with or without a port,
// IPv6 with or without brackets and a zone. It returns the zero Addr for anything else.
func parseHop(s string) netip.Addr {
	inside, port, bracketed := strings.Cut(strings.TrimPrefix(s, "["), "]")
	switch {
	case bracketed && s[0] == '[':
		if port != "" && !isPort(port) {
			return netip.Addr{}
		}
		s = inside
	case strings.Count(s, ":") == 1:
		colon := strings.IndexByte(s, ':')
		if !isPort(s[colon:]) {
			return netip.Addr{}
		}
		s = s[:colon]
	}
	s, zone, zoned := strings.Cut(s, "%") // before it is parsed: netip keeps a table of zones
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Is4() && (zoned || bracketed) || zoned && zone == "" {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// isPort tells whether s is a colon and a port, or what RFC 7239 lets stand for one.
func isPort(s string) bool {
	if s[0] != ':' {
		return false
	}
	if strings.HasPrefix(s, ":_") {
		return len(s) > 2
	}
	_, err := strconv.ParseUint(s[1:], 10, 16)
	return err == nil
}

// cutXForwardedFor cuts the last entry off a line. more is whether there are others.
func cutXForwardedFor(line string) (rest, last string, more bool) {
	comma := strings.LastIndexByte(line, ',')
	return line[:max(comma, 0)], strings.Trim(line[comma+1:], ows), comma >= 0
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
