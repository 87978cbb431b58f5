package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

func integer[T int | uint64](n T) string { return humanize.Comma(int64(n)) }

// bytesText is 64 KiB, 6.4 MiB.
func bytesText(n int) string {
	return strings.Replace(humanize.IBytes(uint64(max(n, 0))), ".0 ", " ", 1)
}

// measured is what was seen of a heap, which other things move as well.
func measured(n int) string {
	if n <= 0 {
		return "too little to measure"
	}
	return bytesText(n)
}

// shareText is a share in two digits: 7.4 %, 6.6e-4.
func shareText(v float64) string {
	if math.Abs(v) >= 0.001 {
		return decimal(100*v) + " %"
	}
	return scientific(v)
}

// decimal is a number to two digits or to the unit.
func decimal(v float64) string {
	digits := 0
	if v != 0 {
		digits = max(0, 1-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	return strings.Replace(strconv.FormatFloat(v, 'f', digits, 64), "-", "−", 1)
}

// scientific is 6.6e-4, without the 0 that strconv puts into small exponents.
func scientific(v float64) string {
	if v == 0 {
		return "0"
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 1, 64), "e")
	mantissa = strings.TrimSuffix(mantissa, ".0")
	n, _ := strconv.Atoi(exponent)
	return strings.Replace(fmt.Sprintf("%se%d", mantissa, n), "-", "−", min(1, strings.Count(mantissa, "-")))
}

// resolved is a share of n, or if it is 0 the smallest that would have shown.
func resolved(v float64, n uint64) string {
	if v == 0 && n > 0 {
		return "< " + scientific(1/float64(n))
	}
	return shareText(v)
}

func outOf(k, n uint64) string { return integer(k) + " of " + integer(n) }

// span is a duration to about three digits: 59m, 188d 3h.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%dd %dh", d/day, d%day/time.Hour)
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func plural[T int | uint64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return integer(n) + " " + many
}
