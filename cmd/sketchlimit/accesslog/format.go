package accesslog

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// Format is how the lines of a log are written.
type Format string

const (
	Auto     Format = "auto"     // the one that reads most of the first lines
	JSON     Format = "json"     // an object a line
	Envoy    Format = "envoy"    // Envoy's default format string
	Combined Format = "combined" // common, then "referrer" "user agent": the default of nginx
	Common   Format = "common"   // host ident user [02/Jan/2006:15:04:05 -0700] "request" status bytes
	TSV      Format = "tsv"      // unix_seconds TAB key [TAB cost]
	CSV      Format = "csv"      // columns that a header names, separated by commas, semicolons or tabs
	W3C      Format = "w3c"      // columns that a #Fields: line names: IIS, CloudFront; Zeek
	Words    Format = "words"    // words or columns without names: the time and the addresses tell which are which
)

// Formats are all but Auto and patterns. Of two that read as many lines of a log the
// first one is taken.
var Formats = []Format{JSON, Envoy, Combined, Common, TSV, CSV, W3C, Words}

// ParseFormat turns the name of a format into it, or a pattern as nginx and Apache have
// it in their configurations.
func ParseFormat(name string) (Format, error) {
	for _, f := range append([]Format{Auto}, Formats...) {
		if name == string(f) {
			return f, nil
		}
	}
	if Format(name).isPattern() {
		_, err := patternLayout(name)
		return Format(name), err
	}
	return "", fmt.Errorf("must be %s, %s, or a pattern such as '$remote_addr [$time_local]'", Auto, formatNames(" or "))
}

func formatNames(or string) string {
	var names []string
	for _, f := range Formats[:len(Formats)-1] {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ") + or + string(Formats[len(Formats)-1])
}

// splitter finds the fields of a line, which it does not change. They are part of the
// line, or last until the next call. A reason that is not empty tells why it could not.
type splitter func(line []byte, fields [][]byte) (reason string)

// layout is a format as a log has it.
type layout struct {
	format      Format
	fields      []string        // the names of all fields
	header      bool            // the first line of a file has them
	fixedTime   bool            // the field called time is one
	open        func() splitter // one for each goroutine
	copied      bool            // fields may be no part of the line
	afterTime   int             // of words: the field behind the time; 0 if there is none
	note        string          // what to tell of the client that is chosen
	client      string          // the field of the client's address; "" if it is not known
	wrapper     string          // the field of JSON objects in which the lines are
	grep        grepped         // what stands before the lines
	head        []byte          // of W3C: the first #Fields: line
	clockLayout string          // of the time in a pattern; "": as parseTime reads it

	narrowed func(names []string) func() splitter // looks for some fields only; nil: that takes no less
	surveyed func(lines [][]byte) survey          // nil: what split finds
}

// layoutOf returns the layout of a log in a format that begins with these lines.
func layoutOf(f Format, lines [][]byte) layout {
	switch f {
	case JSON:
		return jsonLayout(lines)
	case Envoy:
		return fixed(f, envoyFields, splitEnvoy)
	case Combined:
		return clfLayout(f, combinedFields, clf.combined, lines)
	case Common:
		return clfLayout(f, commonFields, clf.common, lines)
	case TSV:
		return fixed(f, tsvFields, splitTSV)
	case CSV:
		return csvLayout(lines)
	case Words:
		l, _ := wordsLayout(lines)
		return l
	case W3C: // without a line that names the fields
		return layout{format: W3C}
	}
	l, _ := patternLayout(string(f)) // an error has been told when it was parsed
	return l
}

func fixed(f Format, fields []string, split splitter) layout {
	return layout{format: f, fields: fields, fixedTime: true, open: func() splitter { return split }}
}

// clfLayout takes the last of the addresses before the time for the client if the first
// is that of a few servers.
func clfLayout(f Format, fields []string, split func(clf, []byte, [][]byte) string, lines [][]byte) layout {
	of := func(c clf) layout {
		return fixed(f, fields, func(line []byte, fields [][]byte) string { return split(c, line, fields) })
	}
	first, last := of(clf{}), of(clf{lastAddress: true})
	a, b := first.survey(lines).stats[clfHost], last.survey(lines).stats[clfHost]
	few := len(a.distinct) == 1 || a.inside == a.addresses && b.inside < b.addresses && len(a.distinct) <= mostProxies
	if a.addresses > 1 && few && len(b.distinct) > len(a.distinct) {
		return last
	}
	if len(b.distinct) > len(a.distinct) {
		first.note = fmt.Sprintf("of several addresses before the time the first is taken, which has %d in the first %d lines; the last has %d",
			len(a.distinct), len(lines), len(b.distinct))
	}
	return first
}

func csvLayout(lines [][]byte) layout {
	by := separator(lines[0])
	names := splitHeader(lines[0], by)
	return layout{format: CSV, fields: names, header: true, copied: true, open: func() splitter { return splitCSV(by, len(names)) }}
}

// narrow lets a layout look for some of its fields only, where that takes less.
func (l layout) narrow(names []string) layout {
	if l.narrowed != nil {
		l.open, l.fields = l.narrowed(names), names
	}
	return l
}

// what is the format for people.
func (l layout) what() string {
	text := string(l.format)
	switch l.format {
	case JSON, CSV, TSV, W3C:
		text = strings.ToUpper(text)
	case Words:
		text = "lines of words"
	default:
		if l.format.isPattern() {
			text = "the pattern fits"
		}
	}
	if l.wrapper != "" {
		text += " in `" + printed(l.wrapper) + "` of JSON"
	}
	return text
}

// firstLines are as many as tell what a log is like.
const firstLines = 200

// samples are the lines that say something, firstLines at a time. All begin with the
// first line, which may be a header.
func samples(text []byte) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		var lines [][]byte
		for line := range bytes.Lines(text) {
			if line = trimmed(line); passedOver(line) {
				continue
			}
			if len(lines) == firstLines {
				if !yield(lines) {
					return
				}
				lines = lines[:1]
			}
			lines = append(lines, line)
		}
		if len(lines) > 0 {
			yield(lines)
		}
	}
}

func trimmed(line []byte) []byte { return bytes.TrimRight(line, "\r\n") }

// passedOver reports which lines are neither requests nor bad: empty ones, comments,
// the separator of columns that Excel reads, and the beginning and end of an array.
func passedOver(line []byte) bool {
	return len(line) == 0 || line[0] == '#' || len(line) == 5 && bytes.HasPrefix(line, []byte("sep=")) || len(line) < 8 && len(elementOf(line)) == 0 || len(bytes.TrimSpace(line)) == 0
}

// detect returns the layout that reads most of the lines. Columns by tabs would also be
// read as tsv, the wrong ones of them, so a header that names the time decides. Lines
// are words if no format reads half of them.
func detect(lines [][]byte, o Options) (best layout, ok bool) {
	columns := csvLayout(lines)
	headed := columns.headed(lines[0], o)
	most := 0
	for _, f := range Formats {
		if f == W3C || f == Words || f == TSV && headed && separator(lines[0]) == '\t' {
			continue
		}
		l := layoutOf(f, lines)
		if n := l.reads(lines, o); n > most {
			best, most = l, n
		}
	}
	if most == 0 && headed {
		return columns, true
	}
	if 2*most < len(lines) {
		if l, n := wordsLayout(lines); n > most {
			best, most = l, n
		}
	}
	if best.format == JSON && best.wrapper == "" && best.choose(lines).client == "" {
		if inner, ok := best.unwrapped(lines, o); ok {
			return inner, true
		}
	}
	return best, most > 0
}

// headed reports whether the first line is a header with a name for the time.
func (l layout) headed(first []byte, o Options) bool {
	if !l.isHeader(first) || o.Time != "" && l.find(o.Time) < 0 || o.Time == "" && len(l.ranked("time")) == 0 {
		return false
	}
	_, isTime := parseTime([]byte(l.fields[0]))
	return !isTime
}

// isHeader reports whether a line may name columns: it does not if it has a time or an
// address.
func (l layout) isHeader(first []byte) bool {
	return printable(first) && len(l.fields) >= 2 && !slices.ContainsFunc(l.fields, func(name string) bool {
		return isTime([]byte(name)) || isAddress([]byte(name))
	})
}

// reads counts the lines that have all fields, and a time.
func (l layout) reads(lines [][]byte, o Options) (n int) {
	at := ""
	switch {
	case l.header && !l.isHeader(lines[0]):
		return 0
	case l.fixedTime:
		at = "time"
	case l.format.isPattern():
	case l.format == JSON: // which is told without a time
		return l.survey(lines).lines
	case o.Time != "":
		at = o.Time
	default:
		return l.choose(lines).timed
	}
	clock := l.find(at)
	if l.header {
		lines = lines[1:]
	}
	fields := make([][]byte, len(l.fields))
	split := l.open()
	for _, line := range lines {
		if split(line, fields) != "" {
			continue
		}
		if clock < 0 {
			n++
		} else if _, ok := parseTime(fields[clock]); ok {
			n++
		}
	}
	return n
}

func printable(line []byte) bool {
	return utf8.Valid(line) && !bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' })
}
