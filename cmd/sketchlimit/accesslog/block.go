package accesslog

import (
	"bytes"
	"io"
)

// maxLine is the length of a block, and so the longest line that can be read.
const maxLine = 1 << 20

// block is a stretch of whole lines, and what a parser has made of it.
type block struct {
	buf     []byte // of maxLine bytes
	text    []byte // the lines, in buf
	tooLong int    // lines beyond maxLine that came before them
	first   bool   // of its file
	number  int    // in its file, from 0 on
	head    []byte // of W3C: the #Fields: line before it; nil: none since the first one

	result
	parsed chan struct{} // of one: the result is there
}

func newBlock() *block {
	return &block{buf: make([]byte, maxLine), parsed: make(chan struct{}, 1)}
}

// lines cuts a stream into blocks.
type lines struct {
	in   io.Reader
	rest []byte // the beginning of a line whose end is not read yet
	any  bool   // a block has been read
}

// fill reads the next block. Where the stream ends in an error, the beginning of the
// line that was cut off is left out.
func (l *lines) fill(b *block) error {
	b.tooLong, b.first = 0, !l.any
	l.any = true
	n := copy(b.buf, l.rest)
	l.rest = l.rest[:0]
	skipping := false
	for {
		m, err := l.in.Read(b.buf[n:])
		n += m
		if skipping {
			if n, skipping = afterLine(b.buf[:n]); skipping && err == nil {
				continue
			}
		}
		switch {
		case err == io.EOF:
			b.text = b.buf[:n]
			return err
		case err != nil:
			b.text = b.buf[:bytes.LastIndexByte(b.buf[:n], '\n')+1]
			return err
		case n < len(b.buf):
			continue
		}
		if end := bytes.LastIndexByte(b.buf, '\n') + 1; end > 0 {
			b.text = b.buf[:end]
			l.rest = append(l.rest, b.buf[end:]...)
			return nil
		}
		b.tooLong++
		n, skipping = 0, true
	}
}

// afterLine drops the end of a line that is too long, and moves what follows to the
// front.
func afterLine(b []byte) (n int, more bool) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0, true
	}
	return copy(b, b[end+1:]), false
}
