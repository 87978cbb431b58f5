package accesslog

import (
	"bytes"
	"fmt"
	"strings"
)

// doubts are what lines behind the first ones say of the choice of the client and the
// time, in which they had no part.
type doubts struct {
	looked  int // such lines
	clients differing
	times   differing
	notes   []string // what is to be told of the choice of some of them
	noted   int      // the number of the first of these; 0: there are none
}

// differing are lines in which another field would have been taken.
type differing struct {
	lines int
	first int    // the number of one of the first
	field string // that would have been taken there
}

// add adds lines of a block that so many come before.
func (d *differing) add(other differing, before int) {
	if d.lines == 0 && other.lines > 0 {
		d.first, d.field = before+other.first, other.field
	}
	d.lines += other.lines
}

// add adds what was found in a block that so many lines come before.
func (l *doubts) add(other *doubts, before int) {
	l.looked += other.looked
	l.clients.add(other.clients, before)
	l.times.add(other.times, before)
	if l.noted == 0 && other.noted > 0 {
		l.notes, l.noted = other.notes, before+other.noted
	}
}

// tell returns what is to be told. Notes of the first lines stand for those of others.
func (l *doubts) tell(noted bool) (notes []string) {
	for _, d := range []struct {
		differing
		what, flag string
	}{{l.clients, "client", "--key"}, {l.times, "time", "--time"}} {
		if d.lines > 0 {
			notes = append(notes, fmt.Sprintf("it changes: in %d of %d lines behind the first %d that were looked at, as in those from line %d on, "+
				"another %s would be taken (%s): %s names one for all lines", d.lines, l.looked, firstLines, d.first, d.what, d.field, d.flag))
		}
	}
	if len(notes) == 0 && !noted {
		for _, note := range l.notes {
			notes = append(notes, fmt.Sprintf("from line %d on %s", l.noted, strings.ReplaceAll(note, "in the first ", "in ")))
		}
	}
	return notes
}

const (
	mostLooks = 8  // into the first block of a file
	lookEach  = 16 // blocks of others, into one
)

// looks returns how often to look into a block of a file, by its number from 0 on.
func looks(number int) int {
	switch {
	case number == 0:
		return mostLooks
	case number%lookEach == 0 || number&(number-1) == 0: // of the first few, too
		return 1
	}
	return 0
}

// look lets lines of the block at hand choose, and compares what they give with what
// the first lines have chosen.
func (p *parser) look(f *File) {
	n := looks(p.b.number)
	if n == 0 {
		return
	}
	next := 0 // the last line to pass over
	if p.b.number == 0 {
		next = firstLines
	}
	var lines [][]byte
	first, number, head := 0, p.b.tooLong, p.b.head
	compare := func() {
		if len(lines) >= fewest {
			p.compare(f, lines, first, head)
		}
		lines = lines[:0]
	}
	for line := range bytes.Lines(p.b.text) {
		number++
		line = trimmed(line)
		if p.w3c != nil && fieldsOf(line) != nil {
			compare()
			head = line
		}
		if number <= next || passedOver(line) {
			continue
		}
		if len(lines) == 0 {
			first = number
		}
		if lines = append(lines, line); len(lines) == firstLines {
			compare()
			next = first + p.b.lines/n
		}
	}
	compare()
}

// compare compares the plan with that of some lines, the first of which has this
// number. head is a #Fields: line before them.
func (p *parser) compare(f *File, lines [][]byte, number int, head []byte) {
	own, layout, sample := File{}, f.layout.of(lines, head), lines
	if layout.header {
		sample = append([][]byte{nil}, lines...)
	}
	if own.take(layout, sample, f.options) != nil {
		return // so few lines do not tell
	}
	l := &p.b.doubts
	l.looked += len(lines)
	if l.noted == 0 && len(own.Notes) > 0 {
		l.notes, l.noted = own.Notes, number
	}
	here, there := newParser(p.plan), newParser(own.plan)
	here.b, there.b = &block{}, &block{}
	if p.w3c != nil && head != nil {
		here.w3c.head(head)
	}
	clients, times := differing{first: number, field: own.Key}, differing{first: number, field: own.Time}
	for _, line := range lines {
		a, reason := here.request(line)
		b, other := there.request(line)
		if reason != "" || other != "" { // which is counted
			continue
		}
		if !bytes.Equal(a.Key, b.Key) {
			clients.lines++
		}
		if a.At != b.At {
			times.lines++
		}
	}
	l.clients.add(clients, 0)
	l.times.add(times, 0)
}

// of is a layout of the same format for other lines of the log. head is a #Fields: line
// before them.
func (l layout) of(lines [][]byte, head []byte) layout {
	switch {
	case l.format == W3C && head != nil:
		return w3cLayout(head)
	case l.format == W3C || l.header:
		return l
	}
	lines = l.grep.cutAll(lines)
	own := layoutOf(l.format, lines)
	if l.wrapper != "" {
		own, _ = detect(lines, Options{})
	}
	return own.behind(l.grep)
}
