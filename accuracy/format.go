package accuracy

import (
	"bytes"
	"fmt"
	"math"
	"time"
)

// Format is how the lines of a trace are written.
type Format string

// The formats that [ReadTrace] knows. The logs are those of the Apache HTTP server
// (mod_log_config) and of many others; their key is the client host.
const (
	Auto     Format = "auto"     // whichever reads the first usable line: TSV, Combined or Common
	TSV      Format = "tsv"      // unix_time[.fraction] TAB key [TAB cost], in seconds; or by its size in ms, µs or ns
	Common   Format = "common"   // host ident user [02/Jan/2006:15:04:05 -0700] "request" status bytes
	Combined Format = "combined" // the same, then "referrer" "user agent"
)

// ParseFormat turns the name of a format into it; "" is [Auto].
func ParseFormat(name string) (Format, error) {
	f := Format(name)
	if f == "" || f == Auto {
		return Auto, nil
	}
	if parsers[f] == nil {
		return "", fmt.Errorf("accuracy: trace format %q: unknown, must be auto, tsv, common or combined", name)
	}
	return f, nil
}

// parsedLine is what a parser gets out of a line. The key is part of the line.
type parsedLine struct {
	time int64 // ns since the Unix epoch
	key  []byte
	cost uint32
}

// A parser reads a line that is not empty and has no line end. A reason that is not
// empty tells why it could not.
type parser func(line []byte) (l parsedLine, reason string)

var parsers = map[Format]parser{
	TSV:      parseTSV,
	Common:   parseCommon,
	Combined: parseCombined,
}

// detect finds the format of a line; the parser is nil if it has none. Common
// comes last because it reads Combined as well.
func detect(line []byte) (Format, parser) {
	for _, f := range []Format{TSV, Combined, Common} {
		if _, reason := parsers[f](line); reason == "" {
			return f, parsers[f]
		}
	}
	return Auto, nil
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

// parseCommon leaves alone what follows the bytes sent: servers append to it.
func parseCommon(line []byte) (parsedLine, string) {
	l, _, reason := parseLog(line)
	return l, reason
}

func parseCombined(line []byte) (parsedLine, string) {
	l, rest, reason := parseLog(line)
	if reason != "" {
		return l, reason
	}
	// Only the quotes are looked for: a user agent may hold anything, further
	// quotes included, and nothing behind it is needed.
	rest, ok := bytes.CutPrefix(rest, []byte(` "`))
	if !ok {
		return l, "no referrer"
	}
	if _, rest, ok = bytes.Cut(rest, []byte(`" "`)); !ok || !bytes.Contains(rest, []byte(`"`)) {
		return l, "no user agent"
	}
	return l, ""
}

// parseLog reads host, time, request, status and bytes, and answers what is left.
func parseLog(line []byte) (l parsedLine, rest []byte, reason string) {
	host, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(host) == 0 {
		return l, nil, "no client host"
	}
	// Ident and user may hold spaces.
	_, rest, ok = bytes.Cut(rest, []byte(" ["))
	if !ok || len(rest) < len(clfTime)+1 || rest[len(clfTime)] != ']' {
		return l, nil, "no time in brackets"
	}
	at, ok := parseCLFTime(rest[:len(clfTime)])
	if !ok {
		return l, nil, "time is not " + clfTime
	}
	rest, ok = bytes.CutPrefix(rest[len(clfTime)+1:], []byte(` "`))
	if !ok {
		return l, nil, "no request"
	}
	rest, ok = afterStatus(rest)
	if !ok {
		return l, nil, "no status and bytes"
	}
	return parsedLine{at, host, 1}, rest, ""
}

// afterStatus skips the request, whose quotes old servers did not escape: its end
// is the first quote that a status and a size follow.
func afterStatus(b []byte) (rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return nil, false
		}
		b = b[i+1:]
		if len(b) < 6 || b[0] != ' ' || b[4] != ' ' {
			continue
		}
		if _, ok := parseDigits(b[1:4]); !ok {
			continue
		}
		size := b[5:]
		if end := bytes.IndexByte(size, ' '); end >= 0 {
			size = size[:end]
		}
		if _, ok := parseDigits(size); ok || string(size) == "-" {
			return b[5+len(size):], true
		}
	}
}

const clfTime = "02/Jan/2006:15:04:05 -0700"

var clfMonths = []byte("JanFebMarAprMayJunJulAugSepOctNovDec")

// parseCLFTime reads len(clfTime) bytes. By hand, because time.Parse would take most
// of the time that a line takes. A leap second is the first one of the next minute.
func parseCLFTime(b []byte) (ns int64, ok bool) {
	ok = b[2] == '/' && b[6] == '/' && b[11] == ':' && b[14] == ':' && b[17] == ':' && b[20] == ' ' &&
		(b[21] == '+' || b[21] == '-')
	number := func(from, to int) int {
		v, digits := parseDigits(b[from:to])
		ok = ok && digits
		return int(v)
	}
	month := bytes.Index(clfMonths, b[3:6])
	day, year := number(0, 2), number(7, 11)
	hour, minute, second := number(12, 14), number(15, 17), number(18, 20)
	zone := number(22, 24)*3600 + number(24, 26)*60
	if !ok || month < 0 || month%3 != 0 || hour > 23 || minute > 59 || second > 60 || year < 1970 || year > 2261 {
		return 0, false
	}
	if b[21] == '-' {
		zone = -zone
	}
	date := time.Date(year, time.Month(month/3+1), day, 0, 0, 0, 0, time.UTC)
	if date.Day() != day { // 31 June
		return 0, false
	}
	seconds := hour*3600 + minute*60 + second - zone
	return date.Add(time.Duration(seconds) * time.Second).UnixNano(), true
}
