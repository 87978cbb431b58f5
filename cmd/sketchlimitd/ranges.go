package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// These check one setting each, and say what it must be.

func within[T cmp.Ordered](name string, value, least, most T) error {
	if value >= least && value <= most {
		return nil
	}
	return fmt.Errorf("%s %v, must be %v … %v", name, value, least, most)
}

func above0(name string, value time.Duration) error {
	if value > 0 {
		return nil
	}
	return fmt.Errorf("%s %v, must be above 0", name, value)
}

func share(name string, value float64) error {
	if value > 0 && value <= 1 {
		return nil
	}
	return fmt.Errorf("%s %v, must be above 0 and at most 1", name, value)
}

func oneOf(name, value string, all ...string) error {
	if slices.Contains(all, value) {
		return nil
	}
	return fmt.Errorf("%s %q, must be %s", name, value, strings.Join(all, " or "))
}

func atMost[T cmp.Ordered](name string, value T, of string, most T) error {
	if value <= most {
		return nil
	}
	return fmt.Errorf("%s %v, must be at most %s, %v", name, value, of, most)
}

func together(name, value, other, otherValue string) error {
	if (value == "") == (otherValue == "") {
		return nil
	}
	return fmt.Errorf("%s %q with %s %q, must both be set or none", name, value, other, otherValue)
}
