package accesslog

import (
	"bytes"
	"strconv"
)

// word is one of a line. Its value is without quotes and brackets.
type word struct {
	name       []byte // of name=value
	value      []byte
	start, end int // in the line
}

// Words that are looked for.
const (
	mostWords = 64
	mostNamed = 256
)

// wordLine reads lines of words, of which a format that has no name here consists.
type wordLine struct {
	separator byte // ' ' is any number of spaces and tabs; others stand between columns, as in CSV
	words     []word
	plain     []byte // columns with quotes in them
}

// read returns the words of a line.
func (w *wordLine) read(line []byte) []word {
	w.words, w.plain = w.words[:0], w.plain[:0]
	if w.separator != ' ' {
		w.columns(line)
		return w.words
	}
	for i := 0; i < len(line) && len(w.words) < mostWords+mostNamed; {
		if line[i] == ' ' || line[i] == '\t' {
			i++
			continue
		}
		i = w.add(line, i)
	}
	return w.words
}

// add adds the word that begins at from, and answers where it ends.
func (w *wordLine) add(line []byte, from int) (end int) {
	start, name := from, nameBefore(line[from:])
	if name != nil {
		from += len(name) + 1
	}
	value, end := wordAt(line, from)
	w.words = append(w.words, word{name, value, start, end})
	return end
}

// wordAt reads a value in quotes, in brackets or up to the next space.
func wordAt(line []byte, from int) (value []byte, end int) {
	b := line[from:]
	if len(b) > 0 && (b[0] == '"' || b[0] == '[') {
		n := closing(b)
		if next := from + n + 1; n > 0 && (next == len(line) || line[next] == ' ' || line[next] == '\t' || line[next] == ',') {
			return b[1:n], next
		}
	}
	n := bytes.IndexAny(b, " \t")
	if n < 0 {
		n = len(b)
	}
	return bytes.TrimRight(b[:n], ",;"), from + n
}

// closing returns where the quote or bracket that b begins with is closed; 0 if it is
// not.
func closing(b []byte) int {
	end := byte(']')
	if b[0] == '"' {
		end = '"'
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case end:
			return i
		}
	}
	return 0
}

// nameBefore returns the name of name=value; nil if b does not begin so.
func nameBefore(b []byte) []byte {
	for i, c := range b {
		switch letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '@'; {
		case c == '=' && i > 0:
			return b[:i]
		case !letter && (i == 0 || !digit(c) && c != '.' && c != '-'):
			return nil
		}
	}
	return nil
}

// columns reads words between separators.
func (w *wordLine) columns(line []byte) {
	for rest := line; len(w.words) < mostWords; {
		start := len(line) - len(rest)
		value, after, plain, ok := columnOf(rest, w.separator, w.plain)
		w.plain = plain
		if !ok || len(after) > 0 && after[0] != w.separator { // a quote within a column
			end := bytes.IndexByte(rest, w.separator)
			if end < 0 {
				end = len(rest)
			}
			value, after = rest[:end], rest[end:]
		}
		w.words = append(w.words, word{value: bytes.Trim(value, " []"), start: start, end: len(line) - len(after)})
		if len(after) == 0 {
			return
		}
		rest = after[1:]
	}
}

// timeSpan is the words that a time consists of.
type timeSpan struct{ first, words int }

// of returns the time of a line.
func (s timeSpan) of(line []byte, words []word) []byte {
	if s.words == 1 {
		return words[s.first].value
	}
	return bytes.Trim(line[words[s.first].start:words[s.first+s.words-1].end], `[]",`)
}

// wordsLayout returns the layout of lines of words that has most times, and how many
// lines that are.
func wordsLayout(lines [][]byte) (best layout, most int) {
	withClient := false
	if bytes.HasPrefix(bytes.TrimLeft(lines[0], "[ "), []byte("{")) { // JSON that is cut off
		return layout{}, 0
	}
	for _, by := range []byte(" ,;|\t") {
		l, c := wordsBy(by, lines)
		if c.timed > most || c.timed == most && most > 0 && c.client != "" && !withClient {
			best, most, withClient = l, c.timed, c.client != ""
		}
	}
	return best, most
}

func wordsBy(by byte, lines [][]byte) (l layout, c chosen) {
	w := &wordLine{separator: by}
	count := 0
	var names []string
	known := make(map[string]bool)
	for _, line := range lines {
		places := 0
		for _, word := range w.read(line) {
			switch {
			case word.name == nil:
				places++
			case !known[string(word.name)] && len(names) < mostNamed:
				known[string(word.name)] = true
				names = append(names, string(word.name))
			}
		}
		count = max(count, min(places, mostWords))
	}
	if count+len(names) < 2 {
		return layout{}, c
	}
	span, timed := w.timeIn(lines, count)
	var fields []string
	if timed > 0 && !known["time"] {
		fields = append(fields, "time")
	}
	for i := range count {
		fields = append(fields, strconv.Itoa(i+1))
	}
	l = layout{format: Words, fields: append(fields, names...), copied: by != ' '}
	l.narrowed = func(names []string) func() splitter {
		return func() splitter { return (&wordLine{separator: by}).splitter(names, span) }
	}
	l.open = l.narrowed(l.fields)
	if timed > 0 {
		l.afterTime = max(0, l.index(strconv.Itoa(span.first+span.words+1)))
	}
	return l, l.choose(lines)
}

// timeIn finds the first words that are a time in most lines: as many as belong to it,
// and words before a number.
func (w *wordLine) timeIn(lines [][]byte, count int) (best timeSpan, most int) {
	longest := 6 // Tue, 10 Nov 2026 07:00:00 GMT
	if w.separator != ' ' {
		longest = 1
	}
	counts := make(map[timeSpan][2]int) // in words, in numbers
	for _, line := range lines {
		words := positional(w.read(line))
		for first := range min(len(words), count) {
			for n := 1; n <= min(longest, len(words)-first); n++ {
				value := (timeSpan{first, n}).of(line, words)
				if !mayBeTime(value) || !isTime(value) {
					continue
				}
				c := counts[timeSpan{first, n}]
				if _, number := parseUnix(value); number {
					c[1]++
				} else {
					c[0]++
				}
				counts[timeSpan{first, n}] = c
			}
		}
	}
	for kind := range 2 {
		for first := range count {
			for n := longest; n >= 1; n-- {
				if c := counts[timeSpan{first, n}][kind]; 10*c >= 9*len(lines) {
					return timeSpan{first, n}, c
				} else if c > most {
					best, most = timeSpan{first, n}, c
				}
			}
		}
	}
	return best, most
}

// mayBeTime reports whether a word may be a time. It rules out most others at little
// cost.
func mayBeTime(b []byte) bool {
	return len(b) >= 9 && len(b) <= 48 && (digit(b[0]) || b[0] >= 'A' && b[0] <= 'Z') && (digit(b[len(b)-1]) || b[len(b)-1]|0x20 >= 'a')
}

// positional are the words without a name. It uses the same array.
func positional(words []word) []word {
	n := 0
	for _, w := range words {
		if w.name == nil {
			words[n] = w
			n++
		}
	}
	return words[:n]
}

// splitter finds fields by their names, the places of words and the time.
func (w *wordLine) splitter(names []string, span timeSpan) splitter {
	places := make([]int, len(names)) // of words; 0 is the time, -1 a name
	for i, name := range names {
		n, err := strconv.Atoi(name)
		switch {
		case err == nil:
			places[i] = n
		case name != "time" || span.words == 0:
			places[i] = -1
		}
	}
	return func(line []byte, fields [][]byte) (reason string) {
		clear(fields)
		words := w.read(line)
		for i, name := range names {
			if places[i] >= 0 {
				continue
			}
			for k := range words {
				if string(words[k].name) == name {
					fields[i] = words[k].value
					break
				}
			}
		}
		words = positional(words)
		for i, place := range places {
			switch {
			case place > 0 && place <= len(words):
				fields[i] = words[place-1].value
			case place == 0 && span.first+span.words <= len(words):
				fields[i] = span.of(line, words)
			}
		}
		return ""
	}
}
