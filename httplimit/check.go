package httplimit

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
)

// checkPolicy returns an error for a string that cannot name a policy.
func checkPolicy(name string) error {
	for _, c := range []byte(name) {
		if !printable(c) {
			return fmt.Errorf("Name %q, must be ASCII without control characters", name)
		}
	}
	if name == "" {
		return fmt.Errorf("Name %q, must not be empty", name)
	}
	return nil
}

// checkLowest returns an error for a limiter that is known to have no LowestLimit: it
// would deny every request with a limit below its own.
func checkLowest(limiter any) error {
	if l, ok := limiter.(interface{ LowestLimit() int }); ok && l.LowestLimit() == 0 {
		return errors.New("Limit with a limiter that has no LowestLimit, must have one: the lowest limit above 0 that the function returns")
	}
	return nil
}

// isNil reports whether v is nil, or an interface around a nil pointer or function.
func isNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func:
		return r.IsNil()
	}
	return false
}

func given(option string, ok bool) error {
	if !ok {
		return fmt.Errorf("%s nil, must be a function", option)
	}
	return nil
}

// checkName returns an error for a string that cannot name a header field (RFC 9110,
// section 5.1).
func checkName(what, name string) error {
	const special = "!#$%&'*+-.^_`|~"
	for _, c := range []byte(name) {
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && strings.IndexByte(special, c) < 0 {
			return fmt.Errorf("%s %q, must be letters, digits and %s", what, name, special)
		}
	}
	if name == "" {
		return fmt.Errorf("%s %q, must not be empty", what, name)
	}
	return nil
}

// checkNetworks returns an error for prefixes that contain no address. IPv4-mapped ones
// are among them, because clients' addresses are unmapped to IPv4.
func checkNetworks(networks []netip.Prefix) error {
	for i, n := range networks {
		if !n.IsValid() || n.Addr().Is4In6() {
			return fmt.Errorf("[%d] %v, must be a prefix such as 10.0.0.0/8 or 2001:db8::/32", i, n)
		}
	}
	return nil
}

// printable reports whether a structured field string can hold the byte.
func printable(c byte) bool { return ' ' <= c && c <= '~' }
