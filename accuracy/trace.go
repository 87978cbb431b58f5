package accuracy

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy/internal/tsv"
	"github.com/sketchlimit/sketchlimit/internal/recorded"
	"github.com/sketchlimit/sketchlimit/tune"
)

// Trace is a recorded stream of requests, held in memory: 16 bytes a request and
// one copy of every key. It is a [Source].
type Trace struct {
	Info TraceInfo

	keys    []string
	records []recorded.Request
}

// TraceInfo counts the lines of a trace, read and malformed.
type TraceInfo struct {
	Name      string    `json:"name"`
	Format    string    `json:"format"`              // tsv, or that of the log that [CollectTrace] was given
	Lines     int       `json:"lines"`               // all of them, empty lines and comments included
	Requests  int       `json:"requests"`            // usable lines
	Keys      int       `json:"keys"`                // distinct
	Start     time.Time `json:"start"`               // of the first request, as recorded
	End       time.Time `json:"end"`                 // of the last, as recorded
	Speed     float64   `json:"speed"`               // 1: as recorded
	Unsorted  int       `json:"unsorted"`            // requests earlier than the one before them; they were sorted in
	Malformed int       `json:"malformed"`           // lines that could not be read
	FirstBad  *BadLine  `json:"first_bad,omitempty"` // the first of them
}

// BadLine is a line that could not be read.
type BadLine struct {
	Line   int    `json:"line"` // counted from 1
	Text   string `json:"text"` // its beginning, unprintable bytes escaped
	Reason string `json:"reason"`
}

func (b *BadLine) String() string {
	return fmt.Sprintf("line %d: %s: %s", b.Line, b.Reason, b.Text)
}

// ErrNoUsableLine is wrapped by the error for a trace in which nothing could be read.
var ErrNoUsableLine = errors.New("no usable line")

// OpenTrace reads the trace in the file at path, or from standard input if path
// is "-". See [ReadTrace].
func OpenTrace(path string) (*Trace, error) {
	if path == "-" {
		return ReadTrace(os.Stdin, "standard input")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("accuracy: trace: %w", err)
	}
	defer file.Close()
	return ReadTrace(file, path)
}

// ReadTrace reads a trace, plain or gzip, which it tells by the first bytes. Its lines
// are unix_time[.fraction] TAB key [TAB cost], the time in seconds, or by its size in
// ms, µs or ns. The name is for errors and headings. Logs of other formats are read by
// the command sketchlimit, see [CollectTrace].
//
// Empty lines and those that begin with # are passed over. Malformed lines are counted
// and left out, as are lines longer than 64 KiB. Requests need not be in the order of
// their times: they are sorted, equal times staying in the order of the lines. A trace
// without one usable line is an error that wraps [ErrNoUsableLine] and names the trace
// and the first line.
func ReadTrace(r io.Reader, name string) (*Trace, error) {
	in, err := tsv.Open(r)
	if err != nil {
		return nil, fmt.Errorf("accuracy: trace %s: %w", name, err)
	}
	t := &Trace{Info: TraceInfo{Name: name, Format: "tsv", Speed: 1}}
	p := traceParser{trace: t, ids: make(map[string]uint32)}
	if err := p.readAll(in); err != nil {
		return nil, fmt.Errorf("accuracy: trace %s, line %d: %w", name, t.Info.Lines+1, err)
	}
	if len(t.records) == 0 {
		return nil, t.nothing()
	}
	t.finish()
	return t, nil
}

// CollectTrace returns a trace of the requests that read hands to add: at a Unix time
// in nanoseconds up to the year 2262, of units 1 … 1<<31-1. They need not be in order.
// add copies a key that it has not seen. An error of read is returned; a trace without
// requests is an error that wraps [ErrNoUsableLine].
func CollectTrace(name string, read func(add func(ns int64, key []byte, units uint32)) error) (*Trace, error) {
	t := &Trace{Info: TraceInfo{Name: name, Speed: 1}}
	p := traceParser{trace: t, ids: make(map[string]uint32)}
	if err := read(p.add); err != nil {
		return nil, err
	}
	if len(t.records) == 0 {
		return nil, fmt.Errorf("accuracy: trace %s: %w", name, ErrNoUsableLine)
	}
	t.finish()
	return t, nil
}

// finish puts the requests in order and tells what there is.
func (t *Trace) finish() {
	if t.Info.Unsorted > 0 {
		slices.SortStableFunc(t.records, func(a, b recorded.Request) int { return cmp.Compare(a.NS, b.NS) })
	}
	t.records = slices.Clip(t.records)
	t.Info.Requests, t.Info.Keys = len(t.records), len(t.keys)
	t.Info.Start = time.Unix(0, t.records[0].NS).UTC()
	t.Info.End = time.Unix(0, t.records[len(t.records)-1].NS).UTC()
}

func (t *Trace) nothing() error {
	err := fmt.Errorf("accuracy: trace %s: %w among %d", t.Info.Name, ErrNoUsableLine, t.Info.Lines)
	if t.Info.FirstBad != nil {
		err = fmt.Errorf("%w; %v", err, t.Info.FirstBad)
	}
	return err
}

// traceParser fills a trace line by line.
type traceParser struct {
	trace *Trace
	ids   map[string]uint32
	last  int64 // time of the request before
}

func (p *traceParser) readAll(in *bufio.Reader) error {
	info := &p.trace.Info
	for {
		line, tooLong, err := tsv.ReadLine(in)
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		info.Lines++
		p.line(line, tooLong)
		if err == io.EOF {
			return nil
		}
	}
}

func (p *traceParser) line(line []byte, tooLong bool) {
	switch {
	case tooLong:
		p.bad(line, "longer than 64 KiB")
		return
	case len(bytes.TrimSpace(line)) == 0:
		return
	case line[0] == '#':
		return
	}
	l, reason := tsv.Parse(line)
	if reason != "" {
		p.bad(line, reason)
		return
	}
	p.add(l.Time, l.Key, l.Cost)
}

func (p *traceParser) add(ns int64, key []byte, units uint32) {
	t := p.trace
	id, known := p.ids[string(key)]
	if !known {
		id = uint32(len(t.keys))
		text := string(key)
		t.keys = append(t.keys, text)
		p.ids[text] = id
	}
	if len(t.records) > 0 && ns < p.last {
		t.Info.Unsorted++
	}
	p.last = ns
	t.records = append(t.records, recorded.Request{NS: ns, Key: id, Units: units})
}

func (p *traceParser) bad(line []byte, reason string) {
	info := &p.trace.Info
	if info.Malformed++; info.Malformed > 1 {
		return
	}
	text, more := line, ""
	if len(text) > tsv.ShownBytes {
		text, more = text[:tsv.ShownBytes], "…"
	}
	info.FirstBad = &BadLine{info.Lines, strconv.Quote(string(text)) + more, reason}
}

// Speed is the same trace replayed factor times as fast: the first request keeps
// its time, every distance from it is divided by factor, 1e-6 … 1e9. The two share
// their requests.
func (t *Trace) Speed(factor float64) (*Trace, error) {
	const lo, hi = 1e-6, 1e9
	if !(factor >= lo && factor <= hi) {
		return nil, fmt.Errorf("accuracy: trace %s: speed %g, must be %g … %g", t.Info.Name, factor, lo, hi)
	}
	span := float64(t.Info.End.Sub(t.Info.Start)) / factor / t.Info.Speed
	if span > math.MaxInt64-float64(t.Info.Start.UnixNano()) {
		return nil, fmt.Errorf("accuracy: trace %s: speed %g, it would end after the year 2262", t.Info.Name, factor)
	}
	faster := *t
	faster.Info.Speed *= factor
	return &faster, nil
}

// Name is the name that the trace was read under, and the speed if it is not 1.
func (t *Trace) Name() string {
	if t.Info.Speed == 1 {
		return t.Info.Name
	}
	return fmt.Sprintf("%s ×%g", t.Info.Name, t.Info.Speed)
}

// Len is the number of requests.
func (t *Trace) Len() int { return len(t.records) }

// Requests are the requests in the order of their times.
func (t *Trace) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for _, r := range t.records {
			at := r.NS
			if t.Info.Speed != 1 {
				first := t.records[0].NS
				at = first + int64(float64(at-first)/t.Info.Speed)
			}
			if !yield(Request{time.Unix(0, at).UTC(), t.keys[r.Key], int(r.Units)}) {
				return
			}
		}
	}
}

// Traffic is the trace as [tune.Plan] plans for it, for limits in a window (above 0).
// At the speed it was recorded at the two share their requests, 16 bytes each.
func (t *Trace) Traffic(window time.Duration) *tune.Trace {
	if t.Info.Speed == 1 {
		return tune.TraceOf(window, t.keys, t.records)
	}
	traffic := tune.NewTrace(window)
	for r := range t.Requests() {
		traffic.Add(r.Time, r.Key, r.Cost)
	}
	return traffic
}
