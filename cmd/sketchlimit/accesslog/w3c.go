package accesslog

import "bytes"

// fieldsOf returns the names in a #Fields: line of the W3C extended format, or a
// #fields line of Zeek; nil if it is none.
func fieldsOf(line []byte) [][]byte {
	const head = "#fields"
	if len(line) <= len(head) || !bytes.EqualFold(line[:len(head)], []byte(head)) {
		return nil
	}
	rest := line[len(head):]
	if rest[0] != ':' && rest[0] != '\t' {
		return nil
	}
	names := bytes.Fields(rest[1:])
	if len(names) == 1 {
		names = bytes.Split(names[0], []byte(","))
	}
	return names
}

// findFields returns the first or last line of a text that names fields; nil if it has
// none.
func findFields(text []byte, last bool) (line []byte) {
	for l := range bytes.Lines(text) {
		if l[0] == '#' && fieldsOf(l) != nil {
			if line = trimmed(l); !last {
				break
			}
		}
	}
	return line
}

// w3cLine splits lines of which the last #Fields: line before them names the columns.
type w3cLine struct {
	names   []string // of the fields that are asked for
	columns []int    // the field of each column, -1 if it is not asked for
	commas  bool
	plain   []byte
}

// head takes the columns from a #Fields: line.
func (w *w3cLine) head(line []byte) {
	w.columns, w.commas = w.columns[:0], bytes.IndexByte(line, ',') > 0
	for _, column := range fieldsOf(line) {
		field := -1
		for i, name := range w.names {
			if name == string(column) {
				field = i
			}
		}
		w.columns = append(w.columns, field)
	}
}

// split reads columns that tabs separate, or commas, or else spaces.
func (w *w3cLine) split(line []byte, fields [][]byte) (reason string) {
	clear(fields)
	w.plain = w.plain[:0]
	by := byte(' ')
	switch {
	case w.commas:
		by = ','
	case bytes.IndexByte(line, '\t') >= 0:
		by = '\t'
	}
	for i, field := range w.columns {
		value, rest, plain, ok := columnOf(line, by, w.plain)
		w.plain = plain
		if !ok || len(rest) > 0 && rest[0] != by {
			return quoteOpen
		}
		if field >= 0 {
			fields[field] = value
		}
		switch last := i == len(w.columns)-1; {
		case last && len(rest) > 0:
			return "more columns than #Fields names"
		case !last && len(rest) == 0:
			return "fewer columns than #Fields names"
		case !last:
			line = rest[1:]
		}
	}
	return ""
}

// w3cLayout is the layout that a #Fields: line gives.
func w3cLayout(head []byte) layout {
	l := layout{format: W3C, copied: true, head: bytes.Clone(head)}
	for _, name := range fieldsOf(head) {
		l.fields = append(l.fields, string(name))
	}
	l.open = func() splitter { return l.openW3C(l.fields).split }
	l.narrowed = func(names []string) func() splitter {
		return func() splitter { return l.openW3C(names).split }
	}
	return l
}

func (l layout) openW3C(names []string) *w3cLine {
	w := &w3cLine{names: names}
	w.head(l.head)
	return w
}
