package sharing

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Engine keeps logs that all machines append to and read in one order, such as a Redis
// stream or a NATS subject. It is all that a [Hub] needs of a server. Package
// sharingtest tests one.
//
// An Engine is safe for concurrent use. Names of logs are any text without braces.
type Engine interface {
	// Append appends each entry to the end of its log, entries of one log in the order
	// given, and returns a result for each. A result without an error promises that the
	// entry is kept, as safely as the server keeps anything. After an error the entry
	// may or may not have been appended. An entry that comes again may be appended
	// again, or dropped by its ID.
	//
	// Append returns [ErrNoLog] for an entry without Begin whose log is not there.
	Append(ctx context.Context, entries []Entry) []Result

	// Read returns what follows each cursor in its log, in order, possibly not all of
	// it. If nothing does, it waits for an entry at most for wait. A cursor behind an
	// entry that has been removed goes on after it.
	//
	// An error concerns all cursors, unless it is a [LogError], or some of them joined.
	Read(ctx context.Context, from []Cursor, wait time.Duration) ([]Record, error)

	// Trim removes the entries of a log up to a place, which included.
	Trim(ctx context.Context, log string, upTo Place) error
}

// Entry is what is appended to a log.
type Entry struct {
	Log   string
	ID    string // the same if the entry comes again
	Data  []byte // 1 … 64 KiB
	Keep  time.Duration
	Begin bool // the log is made if it is not there
}

// Result says where an entry was appended.
type Result struct {
	Place Place
	Err   error
}

// Record is an entry that was read.
type Record struct {
	Log   string
	Place Place
	Data  []byte
}

// Cursor is where reading goes on: after a place, from the beginning if that is zero.
type Cursor struct {
	Log   string
	After Place
}

// Place orders the entries of a log. Places rise from entry to entry, and mean nothing
// else.
type Place struct{ Major, Minor uint64 }

// Compare returns -1 if p comes before q, 1 if it comes after it, and 0 if they are the
// same.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Major, q.Major), cmp.Compare(p.Minor, q.Minor))
}

// before returns the place before p.
func (p Place) before() Place {
	switch {
	case p.Minor > 0:
		return Place{p.Major, p.Minor - 1}
	case p.Major > 0:
		return Place{p.Major - 1, 1<<64 - 1}
	}
	return p
}

// ErrNoLog is what Append returns where the log is not there: it was never begun, has
// expired or was lost.
var ErrNoLog = errors.New("sharing: no such log")

// LogError is an error that concerns one log.
type LogError struct {
	Log string
	Err error
}

func (e *LogError) Error() string { return e.Err.Error() }
func (e *LogError) Unwrap() error { return e.Err }
