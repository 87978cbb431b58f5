package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// size is a number of bytes, in the environment with or without KiB, MiB or GiB, which
// Kubernetes calls Ki, Mi and Gi.
type size int

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *size) UnmarshalText(text []byte) error {
	for unit, shift := range map[string]uint{"": 0, "KiB": 10, "MiB": 20, "GiB": 30, "Ki": 10, "Mi": 20, "Gi": 30} {
		digits, ok := strings.CutSuffix(string(text), unit)
		n, err := strconv.ParseInt(digits, 10, 0)
		if ok && err == nil && n > 0 && n <= math.MaxInt>>shift {
			*s = size(n << shift)
			return nil
		}
	}
	return errors.New("must be a number of bytes such as 65536, 512KiB, 64MiB or 1GiB")
}
