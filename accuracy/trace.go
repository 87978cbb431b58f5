package accuracy

import (
	"io"
	"iter"
	"time"
)

// Format is how the lines of a trace are written.
type Format string

const (
	Auto     Format = "auto"     // what the first usable line is
	TSV      Format = "tsv"      // unix_seconds[.fraction] TAB key [TAB cost]
	Common   Format = "common"   // Common Log Format; the key is the client host
	Combined Format = "combined" // Common with referrer and user agent
)

// ParseFormat turns the name of a format into it; "" is [Auto].
func ParseFormat(name string) (Format, error) { panic("todo") }

// Trace is a recorded stream of requests, held in memory in 16 bytes a request
// and one copy of every key. It is a [Source].
type Trace struct {
	Info TraceInfo
}

// TraceInfo tells what was read and what could not be.
type TraceInfo struct {
	Name      string    `json:"name"`
	Format    Format    `json:"format"`              // never Auto
	Lines     int       `json:"lines"`               // all of them, empty ones included
	Requests  int       `json:"requests"`            // usable ones
	Keys      int       `json:"keys"`                // distinct
	Start     time.Time `json:"start"`               // of the first request
	End       time.Time `json:"end"`                 // of the last
	Speed     float64   `json:"speed"`               // 1 = as recorded
	Unsorted  int       `json:"unsorted"`            // requests earlier than the line before them; they were sorted in
	Malformed int       `json:"malformed"`           // lines that could not be read
	FirstBad  *BadLine  `json:"first_bad,omitempty"` // the first of them
}

// BadLine is a line that could not be read.
type BadLine struct {
	Line   int    `json:"line"` // counted from 1
	Text   string `json:"text"` // its beginning, made printable
	Reason string `json:"reason"`
}

// OpenTrace reads the trace at path; "-" is standard input.
func OpenTrace(path string, f Format) (*Trace, error) { panic("todo") }

// ReadTrace reads a trace, plain or gzip (told by its first bytes). Malformed
// lines are counted and left out; lines of a log that are not in the order of
// their times are sorted, equal times staying in the order of the file. A trace
// without one usable line is an error that names it and the formats tried.
func ReadTrace(r io.Reader, name string, f Format) (*Trace, error) { panic("todo") }

// Speed is the same trace replayed factor times as fast: the first request keeps
// its time, all gaps are divided by factor. The requests are shared, not copied.
func (t *Trace) Speed(factor float64) (*Trace, error) { panic("todo") }

func (t *Trace) Name() string                { panic("todo") }
func (t *Trace) Len() int                    { panic("todo") }
func (t *Trace) Requests() iter.Seq[Request] { panic("todo") }
