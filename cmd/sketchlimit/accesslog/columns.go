package accesslog

import "bytes"

// tsvFields are those of lines without a header: unix_seconds TAB key [TAB cost].
var tsvFields = []string{"time", "key", "cost"}

var oneUnit = []byte("1")

// quoteOpen is the reason for leaving out a line that ends within quotes.
const quoteOpen = "a quote is not closed"

func splitTSV(line []byte, fields [][]byte) (reason string) {
	at, rest, ok := bytes.Cut(line, []byte("\t"))
	if !ok {
		return "no tab"
	}
	var more bool
	fields[0] = at
	fields[1], fields[2], more = bytes.Cut(rest, []byte("\t"))
	if !more {
		fields[2] = oneUnit
	}
	if bytes.IndexByte(fields[2], '\t') >= 0 {
		return "more than three columns"
	}
	return ""
}

// separator is what the columns of a header are separated by; 0 if it has one column
// only.
func separator(header []byte) byte {
	most, by := 0, byte(0)
	for _, c := range []byte(",;\t") {
		if n := bytes.Count(header, []byte{c}); n > most {
			most, by = n, c
		}
	}
	return by
}

// splitCSV returns a splitter of lines with so many columns. A field in quotes may hold
// the separator, and two quotes for one, but no end of line.
func splitCSV(separator byte, columns int) splitter {
	var plain []byte // fields with quotes in them: the line itself may be shown yet
	return func(line []byte, fields [][]byte) (reason string) {
		plain = plain[:0]
		for i := range columns {
			var ok bool
			if fields[i], line, plain, ok = columnOf(line, separator, plain); !ok {
				return quoteOpen
			}
			switch last := i == columns-1; {
			case last && len(line) > 0:
				return "more columns than the header"
			case !last && (len(line) == 0 || line[0] != separator):
				return "fewer columns than the header"
			case !last:
				line = line[1:]
			}
		}
		return ""
	}
}

// columnOf reads a field and answers what is left of the line.
func columnOf(line []byte, separator byte, plain []byte) (value, rest, after []byte, ok bool) {
	if len(line) > 0 && line[0] == '"' {
		return unquoteCSV(line, plain)
	}
	end := bytes.IndexByte(line, separator)
	if end < 0 {
		end = len(line)
	}
	return line[:end], line[end:], plain, true
}

// unquoteCSV reads a field in quotes. One with quotes in it is appended to plain.
func unquoteCSV(line, plain []byte) (value, rest, after []byte, ok bool) {
	from := len(plain)
	for line = line[1:]; ; {
		end := bytes.IndexByte(line, '"')
		if end < 0 {
			return nil, nil, plain, false
		}
		value, rest = line[:end], line[end+1:]
		twice := len(rest) > 0 && rest[0] == '"'
		if !twice && len(plain) == from {
			return value, rest, plain, true
		}
		plain = append(plain, value...)
		if !twice {
			return plain[from:len(plain):len(plain)], rest, plain, true
		}
		plain, line = append(plain, '"'), rest[1:]
	}
}

// splitHeader returns the names in a header; none if a quote in it is not closed.
func splitHeader(header []byte, separator byte) (names []string) {
	for {
		name, rest, _, ok := columnOf(header, separator, nil)
		if !ok || len(rest) > 0 && rest[0] != separator {
			return nil
		}
		names = append(names, string(bytes.TrimSpace(name)))
		if len(rest) == 0 {
			return names
		}
		header = rest[1:]
	}
}
