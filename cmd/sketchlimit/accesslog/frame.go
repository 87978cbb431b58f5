package accesslog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

// frameHead is as much of a log as tells how its objects are laid out.
const frameHead = 64 << 10

// framed puts each object of JSON on a line of its own, where it is not: in an array,
// in objects over several lines, or in the first array of objects within an object, as
// clouds write them.
func framed(in *bufio.Reader) io.Reader {
	head, _ := in.Peek(frameHead)
	text := bytes.TrimLeft(head, " \t\r\n")
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return in
	}
	line, rest, more := bytes.Cut(bytes.TrimLeft(text, "[ \t\r\n"), []byte("\n"))
	if text[0] == '[' && (len(line) == 0 || line[0] != '{') {
		return in // a time in brackets
	}
	alone := len(bytes.TrimSpace(rest)) == 0 && len(head) < frameHead
	whole := json.Valid(elementOf(line))
	end, array := firstObject(text)
	switch {
	case text[0] == '{' && isEnvelope(text[:end]): // of one, or of many
		return &framer{in: in, array: true}
	case whole && more && !alone, whole && text[0] == '[':
		return in // as many lines as objects
	case text[0] == '[':
		return &framer{in: in, array: true}
	}
	if end > 0 && (bytes.HasPrefix(bytes.TrimLeft(text[end:], " \t\r\n,"), []byte("{")) || !array) {
		if whole {
			return in
		}
		return &framer{in: in}
	}
	if array {
		return &framer{in: in, array: true}
	}
	return in
}

// isEnvelope reports whether text is an object that has an array of objects and nothing
// else, as Azure exports them.
func isEnvelope(text []byte) bool {
	var fields map[string][]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || len(fields) != 1 {
		return false
	}
	for _, records := range fields {
		return len(records) > 0 && records[0][0] == '{'
	}
	return false
}

// elementOf is an object without what stands around it in an array.
func elementOf(line []byte) []byte { return bytes.Trim(line, " \t\r[],") }

// firstObject returns where the object that text begins with ends, 0 if it does not,
// and whether it has an array of objects.
func firstObject(text []byte) (end int, array bool) {
	var s scanner
	for i, c := range text {
		before := s.depth
		s.next(c)
		if s.quoted {
			continue
		}
		if c == '[' && bytes.HasPrefix(bytes.TrimLeft(text[i+1:], " \t\r\n"), []byte("{")) {
			array = true
		}
		if s.depth == 0 && before > 0 {
			return i + 1, array
		}
	}
	return 0, array
}

// scanner follows how deep it is in JSON.
type scanner struct {
	depth           int
	quoted, escaped bool
}

func (s *scanner) next(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.quoted && c == '\\':
		s.escaped = true
	case c == '"':
		s.quoted = !s.quoted
	case s.quoted:
	case c == '{' || c == '[':
		s.depth++
	case c == '}' || c == ']':
		s.depth = max(s.depth-1, 0)
	}
}

// framer writes a line for each object: those that are in no other one, or those in
// arrays of objects.
type framer struct {
	in    *bufio.Reader
	array bool

	scan     scanner
	elements int  // how deep the objects begin that are written; below 0: in no array yet
	opened   bool // a bracket is the last that came
	within   bool // an object
	ended    bool // it has ended, but its line has not
	begun    bool

	column int // spaces since the line began; below 0: something else came
	indent int // the column where objects begin, + 1; 0: not known
}

func (f *framer) Read(b []byte) (n int, err error) {
	if !f.begun {
		f.begun = true
		if f.array {
			f.elements = -1
		}
	}
	for n < len(b) {
		if f.ended {
			f.ended = false
			b[n] = '\n'
			n++
			continue
		}
		c, err := f.in.ReadByte()
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		if f.next(c) {
			b[n] = c
			if c == '\n' || c == '\r' {
				b[n] = ' '
			}
			n++
		}
	}
	return n, nil
}

// next reports whether a byte belongs to an object that is written.
func (f *framer) next(c byte) bool {
	if f.within && f.scan.quoted && c == '\n' { // no string has an end of line: the object was cut off
		f.scan = scanner{depth: f.elements}
		f.within, f.ended = false, true
		return false
	}
	if f.within && c == '{' && f.array && f.column >= 0 && f.column+1 == f.indent { // the next one: this has no end
		_ = f.in.UnreadByte()
		f.scan = scanner{depth: f.elements}
		f.within, f.ended = false, true
		return false
	}
	column := f.column
	switch {
	case c == '\n':
		f.column = 0
	case c != ' ' && c != '\t' && c != '\r':
		f.column = -1
	case column >= 0:
		f.column++
	}
	before := f.scan.depth
	f.scan.next(c)
	switch {
	case f.within:
		if !f.scan.quoted && f.scan.depth == f.elements {
			f.within, f.ended = false, true
		}
		return true
	case f.scan.quoted || c == ' ' || c == '\t' || c == '\n' || c == '\r':
		return false
	case c == '{' && f.elements < 0 && f.opened:
		f.elements = before
	case f.elements >= 0 && f.array && f.scan.depth < f.elements:
		f.elements = -1
	}
	f.opened = c == '['
	if f.within = c == '{' && before == f.elements; f.within && column >= 0 && f.indent == 0 {
		f.indent = column + 1
	}
	return f.within
}
