package accesslog

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// parseTime reads a time in any of the forms that logs have: a Unix time, RFC 3339 and
// its like, that of the common log format, RFC 1123, and those of otherLayouts.
func parseTime(b []byte) (ns int64, ok bool) {
	switch {
	case len(b) == len(clfTime) && b[2] == '/' && b[11] == ':' && b[20] == ' ':
		return parseCLF(b)
	case len(b) >= 19 && b[4] == b[7] && (b[4] == '-' || b[4] == '/'):
		return parseRFC3339(b)
	}
	if ns, ok = parseUnix(b); ok {
		return ns, true
	}
	return parseOther(b)
}

// parseClock reads a time that a log has in two fields, a date and a clock. It appends
// to buf.
func parseClock(date, clock, buf []byte) (ns int64, ok bool) {
	buf = append(append(append(buf, date...), ' '), clock...)
	return parseTime(buf)
}

// isDate and isClock tell the two apart from a whole time.
func isDate(b []byte) bool {
	_, ok := parseClock(b, []byte("00:00:00"), make([]byte, 0, 32))
	return ok && (len(b) == len("2006-01-02") || len(b) == len("02/Jan/2006"))
}

func isClock(b []byte) bool {
	_, ok := parseClock([]byte("2006-01-02"), b, make([]byte, 0, 64))
	return ok && len(b) >= len("15:04:05") && b[2] == ':'
}

// isHalf reports whether b is what a clock of twelve hours has behind it.
func isHalf(b []byte) bool {
	if len(b) == 4 && b[1] == '.' && b[3] == '.' {
		b = []byte{b[0], b[2]}
	}
	return len(b) == 2 && (b[0]|0x20 == 'a' || b[0]|0x20 == 'p') && b[1]|0x20 == 'm'
}

// zone is one that stands alone: its letters, hours east of UTC, or a city.
var zone = regexp.MustCompile(`^\(?(?:UTC|GMT|[ECMP][SD]T|AK[SD]T|[AHN]ST|[AN]DT|[BIJK]ST|[CEMW]E(?:ST|T)|EEST|MSK|SAST|[CEW]AT|PKT|NPT|ICT|WIB|SGT|HKT|PHT|` +
	`A[CE][SD]T|AWST|NZ[SD]T|BRT|ART|CLT|COT|PET|(?:UTC|GMT)[+-]\d{1,2}(?::?\d\d)?|[+-]\d\d(?::?\d\d)?|` +
	`(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc)/[\w/+-]+)\)?$`)

func isZone(b []byte) bool {
	return len(b) <= len("America/Argentina/ComodRivadavia") && zone.Match(b)
}

// isUTC reports whether a zone is that of times without one.
func isUTC(zone []byte) bool {
	z := strings.Trim(string(zone), "()")
	return z == "Z" || z == "UTC" || z == "GMT" || z == "Etc/UTC" ||
		strings.Trim(strings.TrimPrefix(strings.TrimPrefix(z, "GMT"), "UTC"), "+-0:") == ""
}

// hasZone reports whether a time that reads as one ends in its zone.
func hasZone(at []byte) bool {
	n := len(at)
	if last := at[n-1]; last|0x20 == 'z' || last == 'C' || last == 'T' || last == ']' {
		return true
	}
	return n > 19 && bytes.ContainsAny(at[n-6:], "+-")
}

// The years that a log is from. What reads as a time of another one, such as a
// duration, is taken for a time only if Options say so.
var (
	earliest = time.Date(1995, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
)

// isTime reports whether b reads as a time of those years.
func isTime(b []byte) bool {
	ns, ok := parseTime(b)
	return ok && ns >= earliest && ns < latest
}

// otherLayouts are times that package time reads. Days before months in numbers are
// none of them: nobody can tell 10/11/2026.
var otherLayouts = []string{
	"02/Jan/2006:15:04:05", "02/Jan/2006:15:04:05 -0700", "02/Jan/2006 15:04:05", "02/Jan/2006 15:04:05 -0700", "02/Jan/2006:15:04:05 MST",
	time.RFC1123, time.RFC1123Z, "Mon, _2 Jan 2006 15:04:05 MST", time.ANSIC, time.UnixDate, time.RubyDate, time.RFC850,
	"Jan _2 15:04:05 2006", "Jan _2 2006 15:04:05", "Jan _2, 2006 15:04:05", "2 Jan 2006 15:04:05", "02-Jan-2006 15:04:05",
	"20060102T150405Z", "2006-01-02T15:04Z07:00", "2006-01-02T15:04",
}

// parseOther reads one of otherLayouts. A zone must be UTC or a number: the letters of
// others mean several.
func parseOther(b []byte) (ns int64, ok bool) {
	const most = len("Wednesday, 02-Jan-06 15:04:05.000000000 +0000")
	if len(b) < len("2006-01-02T15:04") || len(b) > most || bytes.IndexByte(b, ':') < 0 && b[len(b)-1] != 'Z' {
		return 0, false
	}
	for _, layout := range otherLayouts {
		t, err := time.Parse(layout, text(b))
		if err != nil {
			continue
		}
		if name, east := t.Zone(); east == 0 && name != "UTC" && name != "GMT" && name != "" || t.Year() < 1970 || t.Year() > 2261 {
			return 0, false
		}
		return t.UnixNano(), true
	}
	return 0, false
}

// Unix times below the first are seconds, then milliseconds, microseconds and
// nanoseconds: in seconds the first would be the year 5138, in milliseconds it is 1973.
const (
	leastMilli = 100_000_000_000
	leastMicro = 1000 * leastMilli
	leastNano  = 1000 * leastMicro
)

// parseUnix reads a decimal number without the rounding that 64-bit floats would bring.
// Digits beyond a nanosecond are dropped.
func parseUnix(b []byte) (ns int64, ok bool) {
	whole, fraction, _ := bytes.Cut(b, []byte("."))
	v, ok := parseDigits(whole)
	if !ok {
		return parseExponent(b)
	}
	unit := int64(time.Second)
	switch {
	case v >= leastNano:
		unit = 1
	case v >= leastMicro:
		unit = int64(time.Microsecond)
	case v >= leastMilli:
		unit = int64(time.Millisecond)
	}
	if v >= math.MaxInt64/unit {
		return 0, false
	}
	ns = v * unit
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return parseExponent(b)
		}
		unit /= 10
		ns += unit * int64(c-'0')
	}
	return ns, true
}

// parseExponent reads a number such as 1.7e9, as some JSON has it: it is the one
// without an exponent whose point has moved.
func parseExponent(b []byte) (ns int64, ok bool) {
	e := bytes.IndexAny(b, "eE")
	if e < 0 {
		return 0, false
	}
	move, err := strconv.ParseInt(text(b[e+1:]), 10, 8)
	whole, fraction, _ := bytes.Cut(b[:e], []byte("."))
	point := len(whole) + int(move)
	const most = 64 // more than any time has, and enough for a fraction that a float prints
	var moved [2 * most]byte
	if err != nil || len(whole) == 0 || e > most || point < 1 || point > most {
		return 0, false
	}
	n := copy(moved[:], whole)
	n += copy(moved[n:], fraction)
	for ; n < point; n++ {
		moved[n] = '0'
	}
	copy(moved[point+1:], moved[point:n])
	moved[point] = '.'
	return parseUnix(moved[:n+1])
}

// parseDigits reads 1 … 19 decimal digits and nothing else.
func parseDigits(b []byte) (v int64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		d := int64(c - '0')
		if c < '0' || c > '9' || v > (math.MaxInt64-d)/10 {
			return 0, false
		}
		v = 10*v + d
	}
	return v, true
}

const clfTime = "02/Jan/2006:15:04:05 -0700"

const clfMonths = "JanFebMarAprMayJunJulAugSepOctNovDec"

// parseCLF reads len(clfTime) bytes. By hand, because time.Parse would take most of the
// time that a line takes.
func parseCLF(b []byte) (ns int64, ok bool) {
	if b[2] != '/' || b[6] != '/' || b[11] != ':' || b[20] != ' ' {
		return 0, false
	}
	month := bytes.Index([]byte(clfMonths), b[3:6])
	day, dayOK := parseDigits(b[:2])
	year, yearOK := parseDigits(b[7:11])
	zone, zoneOK := parseZone(b[21:])
	if month%3 != 0 || !dayOK || !yearOK || !zoneOK { // -1 % 3 is -1
		return 0, false
	}
	return unix(int(year), month/3+1, int(day), b[12:20], zone)
}

// parseRFC3339 reads 2006-01-02T15:04:05, with a fraction and a zone or without: then
// it is UTC. Slashes may divide the date, a space or a tab may stand before the clock,
// and UTC behind it, as Go and Java write it.
func parseRFC3339(b []byte) (ns int64, ok bool) {
	year, yearOK := parseDigits(b[:4])
	month, monthOK := parseDigits(b[5:7])
	day, dayOK := parseDigits(b[8:10])
	if !yearOK || !monthOK || !dayOK || b[10] != 'T' && b[10] != ' ' && b[10] != 't' && b[10] != '\t' {
		return 0, false
	}
	rest, fraction := b[19:], int64(0)
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		rest = rest[1:]
		for unit := int64(time.Second); len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9'; rest = rest[1:] {
			unit /= 10
			fraction += unit * int64(rest[0]-'0')
		}
	}
	for _, name := range []string{"UTC", "GMT", "[UTC]"} {
		rest = bytes.TrimSuffix(rest, []byte(name))
	}
	zone, ok := parseZone(bytes.Trim(rest, " "))
	if !ok {
		return 0, false
	}
	ns, ok = unix(int(year), int(month), int(day), b[11:19], zone)
	return ns + fraction, ok
}

// parseZone reads Z, +01, +0100 or +01:00, or nothing, as seconds east of UTC.
func parseZone(b []byte) (seconds int64, ok bool) {
	if len(b) == 0 || len(b) == 1 && (b[0] == 'Z' || b[0] == 'z') {
		return 0, true
	}
	if len(b) != 3 && len(b) != 5 && (len(b) != 6 || b[3] != ':') {
		return 0, false
	}
	hours, hoursOK := parseDigits(b[1:3])
	minutes, minutesOK := int64(0), true
	if len(b) > 3 {
		minutes, minutesOK = parseDigits(b[len(b)-2:])
	}
	seconds = hours*3600 + minutes*60
	if b[0] == '-' {
		seconds = -seconds
	}
	return seconds, hoursOK && minutesOK && (b[0] == '+' || b[0] == '-')
}

// unix puts a date, a clock such as 15:04:05 and a zone together. A leap second is the
// first one of the next minute.
func unix(year, month, day int, clock []byte, zone int64) (ns int64, ok bool) {
	hour, hourOK := parseDigits(clock[:2])
	minute, minuteOK := parseDigits(clock[3:5])
	second, secondOK := parseDigits(clock[6:8])
	if !hourOK || !minuteOK || !secondOK || clock[2] != ':' || clock[5] != ':' || hour > 23 || minute > 59 || second > 60 ||
		year < 1970 || year > 2261 || month < 1 || month > 12 {
		return 0, false
	}
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if date.Day() != day { // 31 June
		return 0, false
	}
	return (date.Unix() + hour*3600 + minute*60 + second - zone) * int64(time.Second), true
}

// text is b as a string, for callees that do not keep it: a copy would be an allocation
// a line.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
