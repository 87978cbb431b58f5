package accesslog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
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
	// KeepTimes leaves times as they are in the log. Otherwise one that is earlier than
	// the newest so far is moved to that.
	KeepTimes bool
}

// Batch is some requests in the order of the log. All of it is valid until the next one.
type Batch struct {
	Requests []whatif.Request
	Others   [][]byte // of Options.Others, so many for each request; nil where a line has none
}

// File is what was read of one file. Names with characters that cannot be seen are in
// quotes.
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
	Far        int            `json:"far,omitempty"`            // of these, requests earlier by more than a minute
	Sorted     bool           `json:"-"`                        // their times are kept, see Options.KeepTimes
	Doubts     []string       `json:"doubts,omitempty"`         // of what makes the figures doubtful: beside the counts here
	CutOff     string         `json:"cut_off,omitempty"`        // the error in which the file ended; what came before was read
	HostNames  int            `json:"host_names,omitempty"`     // requests whose client is the name of a host
	NoAddress  int            `json:"no_address,omitempty"`     // lines that were skipped because their client is neither that nor an address
	MostOften  string         `json:"most_often,omitempty"`     // what most of these have
	Notes      []string       `json:"notes,omitempty"`          // what to tell of the fields that were chosen
	OneClient  string         `json:"one_client,omitempty"`     // the client of all requests

	path    string
	first   int64 // ns, of the first usable line
	options Options
	layout  layout // all of it
	plan    plan
	held    *held

	doubts doubts
	clients
	several bool // clients

	gap      int64 // ns, the longest time without a request
	gapAfter int64 // when it begins

	before      int64 // the time of the last request as the log has it
	later, back int   // requests later or earlier than the one before them
}

// BadLine is a line that could not be read.
type BadLine struct {
	Line   int    `json:"line"` // counted from 1
	Text   string `json:"text"` // its beginning
	Reason string `json:"reason"`
}

// Unreadable is the error of a log that can be opened but not understood. Another
// format or other fields may read it.
type Unreadable struct{ error }

func (u Unreadable) Unwrap() error { return u.error }

// held is a log that is being looked at. If it can be opened only once, what has been
// read of it is kept.
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
	oldest int64
	newest int64
	begun  bool

	keepTimes bool
}

// Open looks at the beginning of each file, finds its format and fields, and puts the
// files into the order of their first times. "-" is stdin. Empty files are passed over.
// An error names the file and what is wrong.
//
// Key names the fields of a key, separated by commas. A field of addresses may be
// followed by the bits of a prefix: ip/64 counts IPv6 addresses by network, ip/24/48
// both kinds. ip stands for the client's address whatever the format calls it; of a
// list of addresses it is the last one, and a port is left out. "" is a field named key
// or else ip/64. An error about what is in a file is an [Unreadable].
func Open(paths []string, stdin io.Reader, o Options) (*Log, error) {
	l := &Log{stdin: stdin, keepTimes: o.KeepTimes}
	for _, path := range paths {
		f, err := l.look(path, o)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("%s: %w", nameOf(path), err)
		}
		if f == nil {
			l.Empty = append(l.Empty, nameOf(path))
			continue
		}
		l.Files = append(l.Files, f)
	}
	if len(l.Files) == 0 {
		return nil, Unreadable{fmt.Errorf("%s: is empty", strings.Join(l.Empty, ", "))}
	}
	slices.SortStableFunc(l.Files, func(a, b *File) int { return cmp.Compare(a.first, b.first) })
	l.read.Store(0)
	return l, nil
}

// close closes what is still open.
func (l *Log) close() {
	for _, f := range l.Files {
		if f.held != nil {
			f.held.in.close()
		}
	}
}

func nameOf(path string) string {
	switch path {
	case "-":
		return "standard input"
	case "":
		return `""`
	}
	return seen(path)
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

// Lacking looks for a field in all files; not ok if one has none that is called so, and
// which that is.
func (l *Log) Lacking(field string) (file string, ok bool) {
	for _, f := range l.Files {
		if f.layout.find(field) < 0 {
			return f.Name, false
		}
	}
	return "", true
}

// look reads a file up to its first usable line; nil if it is empty.
func (l *Log) look(path string, o Options) (*File, error) {
	if path == "" {
		return nil, errors.New("must be the name of a file, or - for standard input")
	}
	in, err := open(path, l.stdin, &l.read)
	if err != nil {
		return nil, err
	}
	h := &held{in: in, lines: &lines{in: in}, block: newBlock()}
	h.err = h.lines.fill(h.block)
	if len(h.block.text) == 0 && h.block.tooLong == 0 && h.err == io.EOF {
		in.close()
		return nil, nil
	}
	f := &File{Name: nameOf(path), path: path, options: o}
	err = l.find(f, h, o)
	switch {
	case err != nil:
		in.close()
		return nil, Unreadable{err}
	case in.once:
		f.held = h
		return f, nil
	}
	in.close()
	f.Lines, f.Skipped, f.FirstBad, f.clients = 0, nil, nil, clients{} // they will be counted from its beginning
	return f, nil
}

// find finds the format, the fields and the first usable line. If the format is named,
// that may be anywhere.
func (l *Log) find(f *File, h *held, o Options) error {
	binary := bytes.IndexByte(h.block.text, 0) >= 0
	p := newParser(foreign(o.Format))
	for {
		if f.layout.open == nil {
			if err := f.recognise(h.block.text, o); err != nil {
				return err
			}
			if f.layout.open != nil {
				p = newParser(f.plan)
			}
		}
		p.parse(h.block)
		if r := h.block.batch.Requests; len(r) > 0 {
			f.first = r[0].At
			return nil
		}
		l.count(f, h.block)
		if h.err != nil || f.layout.open == nil && o.auto() {
			return f.nothing(h.err, binary, o)
		}
		h.err = h.lines.fill(h.block)
	}
}

func (o *Options) auto() bool { return o.Format == Auto || o.Format == "" }

// foreign is for lines of which nothing is known.
func foreign(f Format) plan {
	if f.isPattern() { // which tells where it does not fit
		return plan{layout: layoutOf(f, nil)}
	}
	reason := "in another format"
	if f == JSON {
		reason = noObject
	}
	return plan{layout: layout{open: func() splitter { return func([]byte, [][]byte) string { return reason } }}}
}

// recognise finds the format and the fields in the first lines that have them. If no
// line is in the format it finds none.
func (f *File) recognise(text []byte, o Options) (first error) {
	if head := findFields(text, false); head != nil && (o.auto() || o.Format == W3C) {
		l := w3cLayout(head)
		for lines := range samples(text) {
			return f.take(l, lines, o)
		}
	}
	for lines := range samples(text) {
		var l layout
		ok := true
		var g grepped
		if !o.Format.isPattern() { // which has what it may be
			g = grepIn(lines)
		}
		own := g.cutAll(lines)
		if o.auto() {
			l, ok = detect(own, o)
		} else if l = layoutOf(o.Format, own); !l.fixedTime {
			ok = l.header || l.reads(own, o) > 0
		}
		l = l.behind(g)
		switch {
		case !ok:
			continue
		case l.header && !printable(lines[0]):
			return fmt.Errorf("the first line must name the columns of csv, is %s", shown(lines[0]))
		}
		err := f.take(l, lines, o)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// take takes a layout with the fields that lines of the log have.
func (f *File) take(l layout, lines [][]byte, o Options) error {
	c := l.choose(lines)
	l.client = c.client
	p, err := newPlan(l, o, &c)
	if err != nil {
		return err
	}
	f.layout, f.plan = l, p
	if o.Time == "" {
		f.Notes = c.timeNotes
	}
	if p.isClient() {
		f.Notes, f.Doubts = append(f.Notes, c.notes...), c.doubts
	}
	for i := range p.key {
		if k := &p.key[i]; k.first {
			f.Notes = append(f.Notes, printed(k.Name)+" has lists of addresses: the first of each is counted, which clients can write themselves")
		}
	}
	f.describe()
	return nil
}

// IsClient reports whether remote_address stands for a field in rules: that of the
// client's address, in a format where no other field is called so.
func (f *File) IsClient(field string) bool {
	return f.layout.client == field && f.Format != JSON && f.Format != CSV
}

// describe says which fields are taken.
func (f *File) describe() {
	p := &f.plan
	f.Format, f.Time = p.layout.format, printed(p.layout.fields[p.time])
	if p.clock >= 0 {
		f.Time += " and " + printed(p.layout.fields[p.clock])
	}
	for i := range p.key {
		f.Key += ", " + p.key[i].String()
		f.Parts = append(f.Parts, p.key[i].Part)
	}
	f.Key = strings.TrimPrefix(f.Key, ", ")
	if p.cost >= 0 {
		f.Cost = printed(p.layout.fields[p.cost])
	}
}

// nothing is the error of a file without a usable line, which ends in an error or is
// not read to its end.
func (f *File) nothing(end error, binary bool, o Options) error {
	switch {
	case end != nil && end != io.EOF:
		return fmt.Errorf("cannot be read: %s", cutOff(end))
	case binary:
		return errors.New("is binary, must be text, gzip or zstd")
	}
	text, expected := "no usable line", string(f.Format)
	if end == nil {
		text += " in the first 1 MiB"
	}
	if expected == "" {
		if expected = string(o.Format); o.auto() {
			expected = formatNames(" or ")
		}
	}
	text += ", must be " + expected
	switch b := f.FirstBad; {
	case b != nil:
		text = fmt.Sprintf("%s; line %d: %s: %s", text, b.Line, b.Reason, b.Text)
		if o.auto() && f.layout.open == nil {
			text += guessed(b.Text)
		}
		if b.Reason == quoteOpen && f.Format == CSV {
			text += "; fields of several lines are not read"
		}
		return errors.New(text)
	case f.layout.header:
		return errors.New(text + ": it has a header only")
	}
	return errors.New(text + ": it has empty lines and comments only")
}

// guesses are why a line may be in no format.
var guesses = []struct {
	line *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`^"\[?\s*\{`), "it looks like JSON that is cut off"},
	{regexp.MustCompile(`^"\s*<[!a-zA-Z]`), "it looks like HTML or XML"},
	{regexp.MustCompile(`\b\d{1,2}/\d{1,2}/\d{2,4}\b`), "nobody can tell day and month of its date: --format names them, as '%{%d/%m/%Y %H:%M:%S}t %h'"},
	{regexp.MustCompile(`\b[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d\b`), "its time has no year"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`), "it has an address, but no time that can be read"},
}

// columnName is what a column may be called.
var columnName = regexp.MustCompile(`^[\pL_][\pL\d_ .()-]{0,30}$`)

// guessed is the first guess that fits a line.
func guessed(line string) string {
	if plain, err := strconv.Unquote(line); err == nil {
		names := splitHeader([]byte(plain), separator([]byte(plain)))
		if len(names) > 2 && !slices.ContainsFunc(names, func(n string) bool { return !columnName.MatchString(n) }) {
			return "; it looks like the header of csv, but no column is called as a time usually is: --time names one"
		}
	}
	for _, g := range guesses {
		if g.line.MatchString(line) {
			return "; " + g.why
		}
	}
	return ""
}

// cutOff is the error in which a file ended, in words.
func cutOff(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends in the midst of compressed data"
	}
	return err.Error()
}

// Read hands the requests of all files to add, from one goroutine. A request that is
// earlier than one before it has the time of that. It returns the error of add or of
// the context; a file that ends in an error is told by its CutOff.
func (l *Log) Read(ctx context.Context, add func(Batch) error) error {
	for _, f := range l.Files {
		if err := l.readFile(ctx, f, add); err != nil {
			return err
		}
	}
	return l.end()
}

// end returns an error if most requests are far behind their turn: nobody knows when
// they came. It adds a doubt if nearly all of the log has no requests.
func (l *Log) end() error {
	const most = 9 // tenths of the log
	far, requests, worst := 0, 0, l.Files[0]
	for _, f := range l.Files {
		far, requests = far+f.Far, requests+f.Requests
		if f.Far > worst.Far {
			worst = f
		}
		if f.gap > int64(24*time.Hour) && f.gap/most > (l.newest-l.oldest)/(most+1) {
			day := func(at int64) string { return time.Unix(0, at).UTC().Format(time.DateTime) }
			f.Doubts = append(f.Doubts, fmt.Sprintf("no request is between %s and %s, so a date may be wrong", day(f.gapAfter), day(f.gapAfter+f.gap)))
		}
	}
	if 2*far > requests {
		return Unreadable{fmt.Errorf("%s: most requests, %d of %d, are more than a minute earlier than one before them, up to %s: "+
			"the lines must be put in order first, or those of a wrong date left out", worst.Name, far, requests,
			time.Unix(0, l.newest).UTC().Format(time.DateTime))}
	}
	return nil
}
