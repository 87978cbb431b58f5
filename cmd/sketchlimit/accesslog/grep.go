package accesslog

import (
	"bytes"
	"slices"
)

// grepped is what grep has put before the lines: the name of a file, the number of the
// line, or both.
type grepped struct{ name, number bool }

// split cuts a line into what grep has put before it and what the file had. If it does
// not begin so, rest is nil.
func (g grepped) split(line []byte) (name []byte, number int64, rest []byte) {
	rest = line
	if g.name {
		end := bytes.IndexByte(rest, ':')
		if end < 1 || slices.ContainsFunc(rest[:end], isNoFile) {
			return nil, 0, nil
		}
		if _, digits := parseDigits(rest[:end]); digits {
			return nil, 0, nil
		}
		name, rest = rest[:end], rest[end+1:]
	}
	if g.number {
		end, ok := bytes.IndexByte(rest, ':'), false
		if end < 1 {
			return nil, 0, nil
		}
		if number, ok = parseDigits(rest[:end]); !ok {
			return nil, 0, nil
		}
		rest = rest[end+1:]
	}
	return name, number, rest
}

// isNoFile reports whether a byte is in no name of a log.
func isNoFile(c byte) bool {
	return !digit(c) && (c|0x20 < 'a' || c|0x20 > 'z') && bytes.IndexByte([]byte("._-/~+@%"), c) < 0 && c < 0x80
}

// cut returns a line without what grep has put before it.
func (g grepped) cut(line []byte) []byte {
	if g == (grepped{}) {
		return line
	}
	if _, _, rest := g.split(line); rest != nil {
		return rest
	}
	return line
}

// cutAll returns lines without it.
func (g grepped) cutAll(lines [][]byte) [][]byte {
	if g == (grepped{}) {
		return lines
	}
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i] = g.cut(lines[i])
	}
	return lines
}

// grepIn returns what grep has put before nine in ten lines or more.
func grepIn(lines [][]byte) grepped {
	for _, g := range []grepped{{true, true}, {false, true}, {true, false}} {
		if n := g.fits(lines); n > 1 && 10*n >= 9*len(lines) {
			return g
		}
	}
	return grepped{}
}

// fits returns how many lines grep may have written: an address, a time or an object
// follows, and numbers rise within a file.
func (g grepped) fits(lines [][]byte) (n int) {
	var file []byte
	before := int64(-1)
	for _, line := range lines {
		name, number, rest := g.split(line)
		switch {
		case rest == nil || !beginsRecord(rest):
			continue
		case !g.number && isAddress(line[:wordEnd(line, 0)]):
			continue
		case g.number && bytes.Equal(name, file) && number <= before:
			continue
		}
		file, before = name, number
		n++
	}
	return n
}

// beginsRecord reports whether a line begins with an address, a time, an object or
// something in brackets.
func beginsRecord(line []byte) bool {
	if len(line) == 0 || line[0] == '{' || line[0] == '[' {
		return len(line) > 0
	}
	end := wordEnd(line, 0)
	if isAddress(line[:end]) || mayBeTime(line[:end]) && isTime(line[:end]) {
		return true
	}
	both := line[:wordEnd(line, min(end+1, len(line)))]
	return mayBeTime(both) && isTime(both)
}

// behind is a layout for lines behind what grep has put before them.
func (l layout) behind(g grepped) layout {
	if g == (grepped{}) {
		return l
	}
	l.grep = g
	wrap := func(open func() splitter) func() splitter {
		return func() splitter {
			split := open()
			return func(line []byte, fields [][]byte) string { return split(g.cut(line), fields) }
		}
	}
	if narrowed := l.narrowed; narrowed != nil {
		l.narrowed = func(names []string) func() splitter { return wrap(narrowed(names)) }
	}
	l.open = wrap(l.open)
	return l
}
