package accesslog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
)

// Options say what is read of a log. The zero value is the default.
type Options struct {
	Format Format
	Key    string   // see [Open]
	Time   string   // the field of the time; "" finds it
	Cost   string   // the field of the units; "": a field named cost, or else one unit a request
	Others []string // fields to hand out with each request
}

// Batch is some requests in the order of the log. All of it is valid until the next one.
type Batch struct {
	Requests []whatif.Request
	Others   [][]byte // of Options.Others, so many for each request; nil where a line has none
}

// File is what was read of one file. Names with characters that cannot be seen are in quotes.
type File struct {
	Name       string         `json:"name"`
	Format     Format         `json:"format"`
	Time       string         `json:"time"`           // the field that was taken
	Key        string         `json:"key"`            // the fields
	Cost       string         `json:"cost,omitempty"` // the field; "": one unit a request
	Parts      []Part         `json:"-"`              // of the key
	Lines      int            `json:"lines"`          // empty ones and comments included
	Requests   int            `json:"requests"`
	Skipped    map[string]int `json:"skipped,omitempty"` // lines that could not be read, by the reason
	FirstBad   *BadLine       `json:"first_bad,omitempty"`
	Backward   int            `json:"backward,omitempty"`       // requests earlier than one before them, in this file or a former one
	BackwardBy time.Duration  `json:"backward_by_ns,omitempty"` // the most that one was
	CutOff     string         `json:"cut_off,omitempty"`        // the error in which the file ended; what came before was read

	path   string
	first  int64  // ns, of the first usable line
	layout layout // all of it
	plan   plan
	held   *held
}

// BadLine is a line that could not be read.
type BadLine struct {
	Line   int    `json:"line"` // counted from 1
	Text   string `json:"text"` // its beginning
	Reason string `json:"reason"`
}

// held is standard input, which can be opened only once, and what has been read of it.
type held struct {
	in    *input
	lines *lines
	block *block
	err   error
}

// Log is one log in one or several files. It is read once.
type Log struct {
	Files []*File // in the order of their first times
	Empty []string

	stdin  io.Reader
	read   atomic.Int64
	newest int64
}

// Open looks at the beginning of each file, finds its format and fields, and puts the files into the order of their first
// times. "-" is stdin. Empty files are passed over. An error names the file and what is wrong.
//
// Key names the fields of a key, separated by commas. A field of addresses may be followed by the bits of a prefix: ip/64
// counts IPv6 addresses by network, ip/24/48 both kinds. ip stands for the client's address whatever the format calls it; of
// a list of addresses it is the last one, and a port is left out. "" is a field named key or else ip/64.
func Open(paths []string, stdin io.Reader, o Options) (*Log, error) {
	if o.Time == "" {
		o.Time = "time"
	}
	l := &Log{stdin: stdin}
	for _, path := range paths {
		f, err := l.look(path, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", nameOf(path), err)
		}
		if f == nil {
			l.Empty = append(l.Empty, nameOf(path))
			continue
		}
		l.Files = append(l.Files, f)
	}
	if len(l.Files) == 0 {
		return nil, fmt.Errorf("%s: is empty", strings.Join(l.Empty, ", "))
	}
	slices.SortStableFunc(l.Files, func(a, b *File) int { return cmp.Compare(a.first, b.first) })
	l.read.Store(0)
	return l, nil
}

func nameOf(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// Size returns the bytes of all files as they are stored; 0 if that is not known.
func (l *Log) Size() (bytes int64) {
	for _, f := range l.Files {
		info, err := os.Stat(f.path)
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		bytes += info.Size()
	}
	return bytes
}

// BytesRead returns how many of them have been read. It may be asked at any time.
func (l *Log) BytesRead() int64 { return l.read.Load() }

// Lacking looks for a field in all files; not ok if one has none that is called so, and which that is.
func (l *Log) Lacking(field string) (file string, ok bool) {
	for _, f := range l.Files {
		if f.layout.find(field) < 0 {
			return f.Name, false
		}
	}
	return "", true
}

// look reads the beginning of a file; nil if it is empty.
func (l *Log) look(path string, o Options) (*File, error) {
	in, err := open(path, l.stdin, &l.read)
	if err != nil {
		return nil, err
	}
	h := &held{in: in, lines: &lines{in: in}, block: newBlock()}
	h.err = h.lines.fill(h.block)
	f := &File{Name: nameOf(path), path: path}
	if path == "-" {
		f.held = h
	} else {
		defer in.close()
	}
	if len(h.block.text) == 0 && h.block.tooLong == 0 && h.err == io.EOF {
		return nil, nil
	}
	return f, f.find(h, o)
}

// find finds the format and the fields.
func (f *File) find(h *held, o Options) error {
	first := sample(h.block.text)
	var l layout
	ok := len(first) > 0
	switch {
	case !ok:
	case o.Format == Auto || o.Format == "":
		l, ok = detect(first, o.Time)
	default:
		l = layoutOf(o.Format, first)
		ok = l.reads(first, o.Time) > 0
	}
	if !ok {
		return f.nothing(h, first, o.Format)
	}
	var err error
	f.layout = l
	if f.plan, err = newPlan(l, o); err != nil {
		return err
	}
	f.describe()
	b := block{text: h.block.text, first: true}
	newParser(f.plan).parse(&b)
	if len(b.batch.Requests) == 0 {
		return noUsable(&b.result, string(l.format))
	}
	f.first = b.batch.Requests[0].At
	return nil
}

// describe says which fields are taken.
func (f *File) describe() {
	p := &f.plan
	f.Format, f.Time = p.layout.format, printed(p.layout.fields[p.time])
	for i := range p.key {
		f.Key += ", " + p.key[i].String()
		f.Parts = append(f.Parts, p.key[i].Part)
	}
	f.Key = strings.TrimPrefix(f.Key, ", ")
	if p.cost >= 0 {
		f.Cost = printed(p.layout.fields[p.cost])
	}
}

// nothing is the error of a file whose first lines are in no format.
func (f *File) nothing(h *held, first [][]byte, asked Format) error {
	if h.err != nil && h.err != io.EOF {
		return fmt.Errorf("cannot be read: %s", cutOff(h.err))
	}
	if slices.Contains(h.block.text, 0) {
		return errors.New("is binary, must be text, gzip or zstd")
	}
	expected := formatNames(" or ")
	if asked != Auto && asked != "" {
		expected = string(asked)
	}
	r := result{skipped: map[string]int{}}
	switch {
	case len(first) > 0:
		r.firstBad = &BadLine{Line: 1, Text: shown(first[0]), Reason: "in another format"}
	case h.block.tooLong > 0:
		r.firstBad = &BadLine{Line: 1, Text: `""`, Reason: tooLong}
	default:
		return fmt.Errorf("no usable line, must be %s: it has empty lines and comments only", expected)
	}
	return noUsable(&r, expected)
}

func noUsable(r *result, expected string) error {
	return fmt.Errorf("no usable line among the first, must be %s; line %d: %s: %s", expected, r.firstBad.Line, r.firstBad.Reason,
		r.firstBad.Text)
}

// cutOff is the error in which a file ended, in words.
func cutOff(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends in the midst of compressed data"
	}
	return err.Error()
}

// Read hands the requests of all files to add, from one goroutine. A request that is earlier than one before it has the time of
// that. It returns the error of add or of the context; a file that ends in an error is told by its CutOff.
func (l *Log) Read(ctx context.Context, add func(Batch) error) error {
	for _, f := range l.Files {
		if err := l.readFile(ctx, f, add); err != nil {
			return err
		}
	}
	return nil
}
