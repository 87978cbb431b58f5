package caddylimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Seed is a number that is not 0. In JSON it is a text, or a number below 2^53: Caddy
// keeps a config's numbers as floating point.
type Seed uint64

const exact = 1 << 53 // from here on, two numbers may have one floating point

func seed(s string) (Seed, error) {
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil || n == 0 {
		return 0, errors.New("must be a whole number of 1 … 2^64-1, and from 2^53 on a text in JSON")
	}
	return Seed(n), nil
}

// MarshalJSON implements [json.Marshaler].
func (s Seed) MarshalJSON() ([]byte, error) {
	text := strconv.FormatUint(uint64(s), 10)
	if s < exact {
		return []byte(text), nil
	}
	return json.Marshal(text)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Seed) UnmarshalJSON(b []byte) (err error) {
	text := strings.Trim(string(b), `"`)
	if *s, err = seed(text); err != nil {
		return fmt.Errorf("redis: seed %s: %w", text, err)
	}
	if *s >= exact && len(text) == len(b) {
		return fmt.Errorf("redis: seed %s, must be the text %q: numbers of JSON are not exact from 2^53 on", text, text)
	}
	return nil
}
