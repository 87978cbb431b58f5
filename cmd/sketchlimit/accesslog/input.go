package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// input is an open log, decompressed.
type input struct {
	io.Reader
	close func()
	once  bool // what has been read of it cannot be read again
}

const maxZstdWindow = 64 << 20 // which compressors stay below unless told otherwise

// open opens the log at path, or takes stdin if that is "-", and counts the bytes that
// are read of it.
func open(path string, stdin io.Reader, count *atomic.Int64) (*input, error) {
	if path == "-" {
		in, err := decompressed(counted{stdin, count}, func() {})
		if err == nil {
			in.once = true
		}
		return in, err
	}
	f, err := os.Open(path)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a folder, must be a file")
	}
	var in *input
	if err == nil {
		in, err = decompressed(counted{f, count}, func() { _ = f.Close() })
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	in.once = !info.Mode().IsRegular()
	return in, nil
}

// unread are formats that are not read, by their first bytes, and what reads them.
var unread = []struct{ magic, name, tool string }{
	{"\xfd7zXZ\x00", "xz", "xzcat"}, {"BZh", "bzip2", "bzcat"}, {"PK\x03\x04", "zip", "unzip -p"},
}

func decompressed(r io.Reader, done func()) (*input, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	head, _ := in.Peek(6)
	for _, u := range unread {
		if bytes.HasPrefix(head, []byte(u.magic)) {
			return nil, Unreadable{fmt.Errorf("is %s, which is not read: use %s FILE | sketchlimit whatif -", u.name, u.tool)}
		}
	}
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, Unreadable{fmt.Errorf("cannot be read: %s", cutOff(err))}
		}
		return &input{Reader: asLines(z), close: done}, nil
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		return &input{Reader: asLines(z), close: func() { z.Close(); done() }}, nil
	}
	return &input{Reader: asLines(in), close: done}, nil
}

// asLines takes off a byte order mark, and makes UTF-8 of UTF-16 and a line of each
// object.
func asLines(r io.Reader) io.Reader {
	in := bufio.NewReaderSize(r, frameHead)
	switch mark, _ := in.Peek(3); {
	case string(mark) == "\xef\xbb\xbf":
		_, _ = in.Discard(3)
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")): // as PowerShell writes
		utf16 := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM)
		in = bufio.NewReaderSize(transform.NewReader(in, utf16.NewDecoder()), frameHead)
	}
	if head, _ := in.Peek(frameHead); bytes.IndexByte(head, '\n') < 0 && bytes.IndexByte(head, '\r') >= 0 {
		in = bufio.NewReaderSize(returns{in}, frameHead) // as old Macs wrote
	}
	return framed(in)
}

// returns makes ends of lines of carriage returns.
type returns struct{ io.Reader }

func (r returns) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	for i := range b[:n] {
		if b[i] == '\r' {
			b[i] = '\n'
		}
	}
	return n, err
}

// counted counts the bytes read.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}
