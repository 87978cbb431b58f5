package natslimit

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing/leased"
)

// Leased is a limiter that shares its limit with those of other machines, decides locally
// nearly always, and never admits more than the limit, all machines together.
//
// Of every key each machine holds Limit / Machines units and admits them by itself. A
// machine that needs more claims them through a subject of a stream: it gets what nobody
// holds, and the others return what they do not need. A request that needs units of
// others waits for them, LeasedOptions.Wait at most. Package
// [github.com/sketchlimit/sketchlimit/sharing/lease] has the protocol.
//
// While NATS is away a machine goes on with what it holds until its lease ends, and then
// denies. A machine that starts denies until it has read the log. A stream that is new,
// or has lost what it had, grants no claims for a Lease and two windows: until then each
// machine has its share alone. A server that loses what it has acknowledged, and keeps
// the rest, may let units that were lost be admitted again.
//
// All requests of a key should have the same limit: where they differ, the units of the
// key stay within the highest of them. A Leased is safe for concurrent use.
type Leased struct {
	*leased.Limiter
	close func() error
}

// LeasedOptions are what a [Leased] may be told. Machines must be set: how many machines
// share the limit at once, at most, those included that start before others have ended.
type LeasedOptions = leased.Options

// LeasedStats is a picture of a [Leased].
type LeasedStats = leased.Stats

// NewLeased returns a limiter that shares the limit of the Config with all machines that
// have the same Prefix, Config and Seed. The stream is made on so many servers of a
// cluster as replicas says, unless it is there. NewLeased waits for NATS for twice the
// Timeout at most; a NATS that does not answer is no error. Algorithms are SlidingWindow
// and FixedWindow.
func NewLeased(js jetstream.JetStream, c sketchlimit.Config, o LeasedOptions, replicas int) (*Leased, error) {
	if v := reflect.ValueOf(js); js == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("natslimit: JetStream nil, must be one")
	}
	if replicas < 1 || replicas > 5 {
		return nil, fmt.Errorf("natslimit: replicas %d, must be 1 … 5", replicas)
	}
	l, err := leased.New(newEngine(js, replicas), c, o, "NATS")
	if err != nil {
		return nil, fmt.Errorf("natslimit: %w", err)
	}
	return &Leased{l, sync.OnceValue(l.Close)}, nil
}

// Close ends the machine's part: others may claim what it held, once that does not count
// any more. It denies all from then on. The connection stays open.
func (l *Leased) Close() error { return l.close() }
