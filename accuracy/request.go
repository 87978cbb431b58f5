package accuracy

import (
	"fmt"
	"iter"
	"time"
)

// Request is one line of a trace: who, when, how many units.
type Request struct {
	Time time.Time
	Key  string
	Cost int // units, 1 or more
}

// Source is a named stream of requests that can be walked any number of times:
// every call of Requests starts at the beginning and yields the same requests,
// in the order of their times. [Workload] and [Trace] make them. A Source may be
// walked from several goroutines at once.
type Source interface {
	// Name says in one line what the stream is, for headings.
	Name() string
	// Len is the number of requests of one walk.
	Len() int
	Requests() iter.Seq[Request]
}

// firstTime is the time of the first request of src.
func firstTime(src Source) (time.Time, error) {
	for r := range src.Requests() {
		return r.Time, nil
	}
	return time.Time{}, fmt.Errorf("accuracy: %s: no requests", src.Name())
}
