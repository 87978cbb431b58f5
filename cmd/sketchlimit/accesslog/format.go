package accesslog

import (
	"bytes"
	"fmt"
	"iter"
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
)

// Formats are all but Auto. Of two that read as many lines of a log the first one is taken.
var Formats = []Format{JSON, Envoy, Combined, Common, TSV, CSV}

// ParseFormat turns the name of a format into it.
func ParseFormat(name string) (Format, error) {
	for _, f := range append([]Format{Auto}, Formats...) {
		if name == string(f) {
			return f, nil
		}
	}
	return "", fmt.Errorf("must be %s, %s", Auto, formatNames(" or "))
}

func formatNames(or string) string {
	var names []string
	for _, f := range Formats[:len(Formats)-1] {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ") + or + string(Formats[len(Formats)-1])
}

// splitter finds the fields of a line, which it does not change. They are part of the line, or last until the next call. A reason that is not empty tells why it could not.
type splitter func(line []byte, fields [][]byte) (reason string)

// layout is a format as a log has it.
type layout struct {
	format Format
	fields []string        // the names of all fields
	header bool            // the first line of a file has them
	open   func() splitter // one for each goroutine
	copied bool            // fields may be no part of the line
}

// layoutOf returns the layout of a log in a format that begins with these lines.
func layoutOf(f Format, lines [][]byte) layout {
	switch f {
	case JSON:
		return jsonLayout(jsonNames(lines))
	case Envoy:
		return fixed(f, envoyFields, splitEnvoy)
	case Combined:
		return fixed(f, combinedFields, splitCombined)
	case Common:
		return fixed(f, commonFields, splitCommon)
	case TSV:
		return fixed(f, tsvFields, splitTSV)
	}
	by := separator(lines[0])
	names := splitHeader(lines[0], by)
	return layout{format: CSV, fields: names, header: true, copied: true, open: func() splitter { return splitCSV(by, len(names)) }}
}

func fixed(f Format, fields []string, split splitter) layout {
	return layout{format: f, fields: fields, open: func() splitter { return split }}
}

func jsonLayout(names []string) layout {
	return layout{format: JSON, fields: names, copied: true, open: func() splitter { return splitJSON(names) }}
}

// narrow lets a layout look for some of its fields only, where that takes less.
func (l layout) narrow(names []string) layout {
	if l.format == JSON {
		return jsonLayout(names)
	}
	return l
}

// firstLines are as many as tell what a log is like.
const firstLines = 200

// samples are the lines that say something, firstLines at a time. All begin with the first line, which may be a header.
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

// passedOver tells which lines are neither requests nor bad: empty ones and comments.
func passedOver(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 || line[0] == '#' }

// detect returns the layout that reads most of the lines. Columns by tabs would also be read as tsv, the wrong ones of them,
// so a header that names the time decides.
func detect(lines [][]byte, at string) (best layout, ok bool) {
	columns := layoutOf(CSV, lines)
	headed := columns.headed(lines[0], at)
	most := 0
	for _, f := range Formats {
		if f == TSV && headed && separator(lines[0]) == '\t' {
			continue
		}
		l := layoutOf(f, lines)
		if n := l.reads(lines, at); n > most {
			best, most = l, n
		}
	}
	if most == 0 && headed {
		return columns, true
	}
	return best, most > 0
}

// headed tells whether the first line is a header with a name for the time.
func (l layout) headed(first []byte, at string) bool {
	if !printable(first) || len(l.fields) < 2 || l.find(at) < 0 {
		return false
	}
	_, isTime := parseTime([]byte(l.fields[0]))
	return !isTime
}

// reads counts the lines that have all fields, and a time if that is known to be one of them.
func (l layout) reads(lines [][]byte, at string) (n int) {
	if l.header {
		if !printable(lines[0]) || len(l.fields) < 2 {
			return 0
		}
		lines = lines[1:]
	}
	var names []string
	if i := l.find(at); i >= 0 {
		names = l.fields[i : i+1]
	}
	l = l.narrow(names) // to look for all of them in all of them would take too long
	clock := l.find(at)
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
