// Package tsv reads traces of lines of the form unix_time[.fraction] TAB key [TAB cost].
package tsv

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"time"
)

// Open returns a reader of the lines of r, without gzip and byte order mark if there
// are any.
func Open(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, MaxLine)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(unzipped, MaxLine)
	}
	if mark, _ := in.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = in.Discard(3)
	}
	return in, nil
}

const (
	// ShownBytes is how much of a line that is too long ReadLine returns at least.
	ShownBytes = 80

	// MaxLine is the longest line in bytes, its end included.
	MaxLine = 64 << 10
)

// ReadLine returns the next line without its end, until the next call. Of a line longer
// than 64 KiB it returns the beginning and skips the rest.
func ReadLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	line, err = in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		tooLong = true
		line = bytes.Clone(line[:2*ShownBytes])
		for err == bufio.ErrBufferFull {
			_, err = in.ReadSlice('\n')
		}
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), tooLong, err
}

// Line is a parsed line.
type Line struct {
	Time int64  // ns since the Unix epoch
	Key  []byte // part of the line that was parsed, not empty
	Cost uint32 // units, 1 … 1<<31-1
}

var tab = []byte("\t")

// Parse parses a line without its end. The reason, for users, is empty if it succeeds.
func Parse(line []byte) (l Line, reason string) {
	at, rest, ok := bytes.Cut(line, tab)
	if !ok {
		return l, "no tab"
	}
	if l.Time, ok = parseUnixTime(at); !ok {
		return l, "time is not unix_time[.fraction] up to the year 2262"
	}
	key, cost, hasCost := bytes.Cut(rest, tab)
	if len(key) == 0 {
		return l, "empty key"
	}
	l.Key, l.Cost = key, 1
	if hasCost {
		if c, ok := parseDigits(cost); ok && c >= 1 && c <= math.MaxInt32 {
			l.Cost = uint32(c)
		} else {
			return l, "cost is not a whole number 1 … 1<<31-1"
		}
	}
	return l, ""
}

// timeUnits are the units of a Unix time, each with the least number of digits that
// only it can have: seconds up to the year 2262 have ten, milliseconds since 1973 have
// twelve or thirteen.
var timeUnits = []struct {
	digits int
	unit   time.Duration
}{{18, time.Nanosecond}, {15, time.Microsecond}, {12, time.Millisecond}, {0, time.Second}}

// parseUnixTime reads a decimal time into nanoseconds, without the rounding that
// 64-bit floats would bring. Digits below a nanosecond are dropped.
func parseUnixTime(b []byte) (ns int64, ok bool) {
	whole, fraction, hasFraction := bytes.Cut(b, []byte("."))
	unit := int64(0)
	for _, u := range timeUnits {
		if len(bytes.TrimLeft(whole, "0")) >= u.digits {
			unit = int64(u.unit)
			break
		}
	}
	v, ok := parseDigits(whole)
	if !ok || v >= math.MaxInt64/unit {
		return 0, false
	}
	if hasFraction && len(fraction) == 0 {
		return 0, false
	}
	ns = v * unit
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return 0, false
		}
		unit /= 10
		ns += unit * int64(c-'0')
	}
	return ns, true
}

// parseDigits reads 1 … 19 decimal digits up to math.MaxInt64 and nothing else.
func parseDigits(b []byte) (v int64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = 10*v + int64(c-'0')
	}
	return v, v >= 0 // 19 digits may be too many: they wrap around to a negative number
}
