package accesslog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// defaultKey is the client's address, IPv6 by its network, as package httplimit counts
// clients.
const defaultKey = "ip/64"

const mostParts = 8 // of a key

// Part is a field of a key.
type Part struct {
	Name    string // as the log has it
	Address bool
	V4, V6  int // bits of an address that are kept
}

// keyPart is a Part whose Name is as asked for until the log is known.
type keyPart struct {
	Part
	index     int
	missing   string // the reason for leaving a line out
	first     bool   // of a list of addresses the first one is taken
	client    bool   // only addresses and names of hosts are taken
	noAddress string // the reason for leaving out another value
}

// ParseKey returns a key as it is given, if it can be one.
func ParseKey(text string) (string, error) {
	_, err := parseKey(text)
	return text, err
}

// parseKey reads FIELD, FIELD/BITS or FIELD/BITS/BITS, several of them separated by
// commas.
func parseKey(text string) ([]keyPart, error) {
	var parts []keyPart
	for one := range strings.SplitSeq(text, ",") {
		name, bits, prefix := strings.Cut(strings.TrimSpace(one), "/")
		if name == "" {
			return nil, errors.New("must be FIELD, FIELD/BITS or FIELD/BITS/BITS, separated by commas")
		}
		p := keyPart{Part: Part{Name: name, V4: 32, V6: 128}}
		p.Address = prefix || name == "ip" || name == "client" || name == "remote_address"
		if prefix && !p.setBits(bits) {
			return nil, fmt.Errorf("the bits of %s must be 1 … 128, as in ip/64, or 1 … 32 and 1 … 128, as in ip/24/48", name)
		}
		parts = append(parts, p)
	}
	if len(parts) > mostParts {
		return nil, fmt.Errorf("must be at most %d fields", mostParts)
	}
	return parts, nil
}

// setBits reads the bits for IPv4 and those for IPv6. A single number of up to 32 is
// for IPv4, a higher one for IPv6. None is 0, which files of rules do not allow either.
func (p *Part) setBits(text string) bool {
	first, second, both := strings.Cut(text, "/")
	n, err := strconv.ParseUint(first, 10, 8)
	switch {
	case err != nil || n < 1 || n > 128 || both && n > 32:
		return false
	case n <= 32:
		p.V4 = int(n)
	default:
		p.V6 = int(n)
	}
	if both {
		n, err = strconv.ParseUint(second, 10, 8)
		p.V6 = int(n)
	}
	return err == nil && p.V6 >= 1 && p.V6 <= 128
}

func (p *Part) String() string {
	name := printed(p.Name)
	switch {
	case p.V4 < 32 && p.V6 < 128:
		return fmt.Sprintf("%s, IPv4 by /%d and IPv6 by /%d", name, p.V4, p.V6)
	case p.V4 < 32:
		return fmt.Sprintf("%s, IPv4 by /%d", name, p.V4)
	case p.V6 < 128:
		return fmt.Sprintf("%s, IPv6 by /%d", name, p.V6)
	}
	return name
}

// text returns the key's part of a value, appending to keys where it is not part of the
// value; nil if it has none. It tells whether an address was read, of a part that is
// one.
func (p *keyPart) text(value, keys []byte) (text, after []byte, address bool) {
	if p.Address {
		if p.V4 == 32 && isIPv4(value) { // as most are
			return value, keys, true
		}
		value = lastAddress(value)
	} else if p.first {
		value, _, _ = bytes.Cut(value, []byte(","))
	}
	switch {
	case len(value) == 0 || len(value) == 1 && value[0] == '-':
		return nil, keys, false
	case !p.Address:
		return value, keys, false
	case p.V4 == 32 && isIPv4(value):
		return value, keys, true
	}
	a, ok := parseAddress(value)
	if !ok {
		return value, keys, false
	}
	n, bits := len(keys), p.V6
	if a.Is4() {
		bits = p.V4
	}
	if bits == a.BitLen() {
		keys = a.AppendTo(keys)
	} else {
		prefix, _ := a.Prefix(bits)
		keys = prefix.AppendTo(keys)
	}
	return keys[n:len(keys):len(keys)], keys, true
}

// countsFirst reports whether a part of a key is a list of addresses that is named by
// hand, without a prefix: then the client that it begins with is counted, not the way
// that each request took.
func (c *chosen) countsFirst(p *keyPart) bool {
	return !p.Address && slices.Contains(c.lists, p.Name)
}

// lastAddress is the last one of a list, as X-Forwarded-For is: the only one that a
// client cannot write itself.
func lastAddress(value []byte) []byte {
	value = value[bytes.LastIndexByte(value, ',')+1:]
	return bytes.Trim(bytes.TrimPrefix(value, []byte("%20")), ` "+`) // logs of columns write a space as + or %20
}

// appendPart appends a part of a key of several to it. Where its end could not be told
// otherwise it is in quotes, as in CSV: different parts are different keys.
func appendPart(key, part []byte) []byte {
	if part[0] != '"' && bytes.IndexByte(part, ',') < 0 {
		return append(key, part...)
	}
	key = append(key, '"')
	for _, c := range part {
		if c == '"' {
			key = append(key, '"')
		}
		key = append(key, c)
	}
	return append(key, '"')
}

// longestKey is as much of a key as package whatif keeps.
const longestKey = 256

// AppendShort appends a key of at most so many bytes to to: of a longer one the
// beginning, and so much of a hash that keys with the same beginning are told apart.
func AppendShort(to, key []byte, most int) []byte {
	if len(key) <= most {
		return append(to, key...)
	}
	const mark, hashed = "…", 8
	sum := sha256.Sum256(key) // nobody can choose keys that look the same
	to = append(to, beginning(key, most-len(mark)-2*hashed)...)
	return hex.AppendEncode(append(to, mark...), sum[:hashed])
}
