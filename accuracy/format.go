package accuracy

import (
	"bytes"
	"math"
	"time"
)

// parsedLine is what is read of a line. The key is part of the line.
type parsedLine struct {
	time int64 // ns since the Unix epoch
	key  []byte
	cost uint32
}

var tab = []byte("\t")

func parseTSV(line []byte) (l parsedLine, reason string) {
	at, rest, ok := bytes.Cut(line, tab)
	if !ok {
		return l, "no tab"
	}
	if l.time, ok = parseUnixTime(at); !ok {
		return l, "time is not unix_time[.fraction] up to the year 2262"
	}
	key, cost, hasCost := bytes.Cut(rest, tab)
	if len(key) == 0 {
		return l, "empty key"
	}
	l.key, l.cost = key, 1
	if hasCost {
		if c, ok := parseDigits(cost); ok && c >= 1 && c <= math.MaxInt32 {
			l.cost = uint32(c)
		} else {
			return l, "cost is not a whole number 1 … 1<<31-1"
		}
	}
	return l, ""
}

// timeUnits are the units of a Unix time, each with the least number of digits that only it can have: seconds up to the
// year 2262 have ten, milliseconds since 1973 have twelve or thirteen.
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
