package accesslog

import (
	"bytes"
	"net/netip"
)

// isIPv4 reports whether b is four numbers of up to 255 without leading zeros.
func isIPv4(b []byte) bool {
	if len(b) < len("0.0.0.0") || len(b) > len("255.255.255.255") {
		return false
	}
	number, digits, dots := 0, 0, 0
	for _, c := range b {
		switch {
		case c == '.':
			if digits == 0 {
				return false
			}
			number, digits = 0, 0
			dots++
		case !digit(c) || digits > 0 && number == 0:
			return false
		default:
			number, digits = 10*number+int(c-'0'), digits+1
			if number > 255 {
				return false
			}
		}
	}
	return dots == 3 && digits > 0
}

// isAddress reports whether b is an address, with a port or without.
func isAddress(b []byte) bool {
	if isIPv4(b) {
		return true
	}
	_, ok := parseAddress(b)
	return ok
}

// parseAddress reads an address, with a port or without. What cannot be one is told by
// its bytes: the errors of netip would be allocations.
func parseAddress(value []byte) (netip.Addr, bool) {
	if len(value) < 2 || len(value) > 64 {
		return netip.Addr{}, false
	}
	switch colons := bytes.Count(value, []byte(":")); {
	case value[0] == '[':
		inner, port, ok := bytes.Cut(value[1:], []byte("]"))
		if !ok || !isIPv6(inner) || len(port) > 0 && !isPort(port) {
			return netip.Addr{}, false
		}
		value = inner
	case colons == 1:
		before, _, _ := bytes.Cut(value, []byte(":"))
		if !isIPv4(before) || !isPort(value[len(before):]) {
			return netip.Addr{}, false
		}
		value = before
	case colons == 0 && !isIPv4(value):
		return netip.Addr{}, false
	case colons > 1:
		if last := bytes.LastIndexByte(value, ':'); len(value)-last == len(":65535") && isPort(value[last:]) || colons == 8 && value[last-1] != ':' {
			value = value[:last] // a port behind an address without brackets: no part of one has five digits
		}
		if !isIPv6(value) {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(text(value))
	return a.Unmap().WithZone(""), err == nil
}

// isPort reports whether b is a colon and a number, or a colon alone.
func isPort(b []byte) bool {
	if b[0] != ':' || len(b) > len(":65535") {
		return false
	}
	for _, c := range b[1:] {
		if !digit(c) {
			return false
		}
	}
	return true
}

// isIPv6 reports whether b may be an IPv6 address; a clock such as 08:00:00 is none.
func isIPv6(b []byte) bool {
	b, _, _ = bytes.Cut(b, []byte("%"))
	for _, c := range b {
		if !digit(c) && c != ':' && c != '.' && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return bytes.Contains(b, []byte("::")) || bytes.Count(b, []byte(":")) == 7 || bytes.IndexByte(b, '.') > 0
}

// isHostName reports whether b is the name of a host. One without a dot has a digit, as
// ws-017 does: unknown and proxy are words that stand for no host.
func isHostName(b []byte) bool {
	if len(b) == 0 || len(b) > 253 {
		return false
	}
	letters, sure := 0, false
	for i, c := range b {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letters++
		case digit(c):
			sure = true
		case c == '.':
			if i == 0 || b[i-1] == '.' {
				return false
			}
			sure = sure || i < len(b)-1
		case c != '-' && c != '_' || i == 0:
			return false
		}
	}
	return letters > 0 && sure
}
