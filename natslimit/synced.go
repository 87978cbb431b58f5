package natslimit

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

// Failure is how requests are decided while NATS is away: gone, or too slow.
type Failure = synced.Failure

const (
	// FailShare goes on with this machine's share of the limit.
	FailShare = synced.FailShare
	// FailLocal goes on with what this machine knows, and with the whole limit.
	FailLocal = synced.FailLocal
	// FailOpen admits every request.
	FailOpen = synced.FailOpen
	// FailClosed denies every request.
	FailClosed = synced.FailClosed
)

// SyncedStats is a picture of a [Synced].
type SyncedStats = synced.Stats

// Option changes what a [Synced] does.
type Option func(*options) error

type options struct {
	shared   []synced.Option
	replicas int
}

func shared(o synced.Option) Option {
	return func(all *options) error {
		all.shared = append(all.shared, o)
		return nil
	}
}

// Prefix names the limit, "sketchlimit" otherwise. Nodes that share a limit have the
// same. It must not hold a brace.
func Prefix(prefix string) Option { return shared(synced.Prefix(prefix)) }

// Timeout is how long NATS may take to answer, a second otherwise. Requests do not wait
// for it.
func Timeout(timeout time.Duration) Option { return shared(synced.Timeout(timeout)) }

// OnFailure is how requests are decided while NATS is away, [FailShare] otherwise.
func OnFailure(failure Failure) Option { return shared(synced.OnFailure(failure)) }

// Log is told what all nodes together may admit: at construction, and again when that
// first exceeds twice the limit. It is also told when NATS goes away and comes back.
// Without Log, slog.Default() is told that alone.
func Log(log *slog.Logger) Option { return shared(synced.Log(log)) }

// Nodes is how many machines share the limit, for SyncedStats.Bound and [FailShare];
// otherwise those that have been met.
func Nodes(n int) Option { return shared(synced.Nodes(n)) }

// KeyRate is the most units of one key that are offered to one machine in a second, for
// SyncedStats.Bound. If the traffic exceeds it, so may what is admitted exceed the
// bound.
func KeyRate(perSecond float64) Option { return shared(synced.KeyRate(perSecond)) }

// Replicas is how many servers of a cluster keep the stream, if it is made: 1
// otherwise. With 3, a server that dies loses nothing and stops nobody.
func Replicas(n int) Option {
	return func(o *options) error {
		o.replicas = n
		if n < 1 || n > 5 {
			return fmt.Errorf("Replicas %d, must be 1 … 5", n)
		}
		return nil
	}
}

// Synced is a limiter that shares its limit with those of other machines, its nodes.
// Each decides by itself, in nanoseconds, by what it has admitted and what it knows of
// the others. Every interval it publishes what it has admitted to a subject of the
// stream "sketchlimit", and reads what the others have. While nobody admits anything,
// all Synceds of a process that have one connection make one request in two seconds
// together.
//
// Every unit is known everywhere two intervals later at the latest, while NATS answers.
// So what all nodes together admit of a key, in a window, is at most
//
//	Limit + (nodes − 1) × min(Limit, rate × (2 × interval + round trip))
//
// where rate is the units of the key that are offered to one node a second: nodes ×
// Limit, if nobody knows the rate. Failures and pauses take longer than that time:
// SyncedStats.Delay says how long. SyncedStats.Bound says how many units that are. Nodes
// number their generations by their own clocks.
//
// A node that ends with [Synced.Close] tells what it has admitted; one that crashes
// takes up to an interval of it along. One that comes reads what the others have
// admitted in the windows that count. While NATS is away nodes decide as their
// [Failure] says, keep what they have to tell, and tell it when NATS is back. If it
// comes back without the stream, they tell all that they have admitted. Beyond its plan
// a Synced only denies: limiters with Overload DenyProven are refused.
//
// Messages of a subject expire two windows after they were published, a minute at
// least, and are removed when they are longer than twice the limiter's own cells: the
// node that made them so publishes the cells of all nodes.
//
// The limiter may be used by itself as well: its decisions are the same, but for
// FailOpen and FailClosed. A Synced is safe for concurrent use.
type Synced struct {
	base    *synced.Limiter
	release func()
}

// NewSynced shares the limiter's limit with all nodes that have the same Prefix, whose
// limiters must be built from the same Config with the same Seed. It exchanges once,
// and then every interval (1ms … a window). A NATS that does not answer is no error,
// and is waited for twice the Timeout at most.
func NewSynced(js jetstream.JetStream, limiter *sketchlimit.Limiter, interval time.Duration, opts ...Option) (*Synced, error) {
	if v := reflect.ValueOf(js); js == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("natslimit: JetStream nil, must be one")
	}
	if err := synced.Check(limiter, interval); err != nil {
		return nil, fmt.Errorf("natslimit: %w", err)
	}
	all := options{replicas: 1}
	for i, option := range opts {
		if option == nil {
			return nil, fmt.Errorf("natslimit: option %d nil, must be one", i)
		}
		if err := option(&all); err != nil {
			return nil, fmt.Errorf("natslimit: %w", err)
		}
	}
	o, err := synced.Apply(all.shared)
	if err != nil {
		return nil, fmt.Errorf("natslimit: %w", err)
	}
	hub, release := useHub(js, all.replicas)
	s := &Synced{release: release}
	s.base, err = synced.New(hub, limiter, interval, o.Prefix, o, synced.NewGuard(o.Log, "NATS"))
	if err != nil {
		release()
		return nil, fmt.Errorf("natslimit: %w", err)
	}
	return s, nil
}

// hubs are those of this process, one for each connection.
var hubs = struct {
	sync.Mutex
	all map[*nats.Conn]*hub
}{all: map[*nats.Conn]*hub{}}

type hub struct {
	*sharing.Hub
	users int
}

// useHub returns the hub of a connection, until it is released as often.
func useHub(js jetstream.JetStream, replicas int) (*sharing.Hub, func()) {
	hubs.Lock()
	defer hubs.Unlock()
	h := hubs.all[js.Conn()]
	if h == nil {
		h = &hub{Hub: sharing.NewHub(newEngine(js, replicas))}
		hubs.all[js.Conn()] = h
	}
	h.users++
	return h.Hub, sync.OnceFunc(func() {
		hubs.Lock()
		defer hubs.Unlock()
		if h.users--; h.users == 0 {
			delete(hubs.all, js.Conn())
		}
	})
}

// Close ends the exchanges with a last one, which tells the others what this node has
// admitted, and returns its error. It waits as long as that goes on, and twice the
// Timeout if NATS does not answer. The connection stays open, and the limiter goes on
// with what it knows.
func (s *Synced) Close() error {
	defer s.release()
	return s.base.Close()
}

// Stats returns a picture of the exchanges. That of the decisions is the limiter's.
func (s *Synced) Stats() SyncedStats { return s.base.Stats() }

// Allow consumes one unit of the key, now, and reports whether it was admitted. It and
// the other forms are those of [sketchlimit.Limiter].
func (s *Synced) Allow(key string) bool { return s.base.Allow(key) }

// AllowN consumes n units of the key, now, and reports whether they were admitted.
func (s *Synced) AllowN(key string, n int) bool { return s.base.AllowN(key, n) }

// Take consumes n units of the key, now, if they are admitted.
func (s *Synced) Take(key string, n int) sketchlimit.Decision { return s.base.Take(key, n) }

// Do decides on r. Use it when the key is bytes or an address, when the request has its
// own limit, or to pass the time.
func (s *Synced) Do(r sketchlimit.Request) sketchlimit.Decision { return s.base.Do(r) }

// Peek returns what Take(key, 1) would, and consumes nothing.
func (s *Synced) Peek(key string) sketchlimit.Decision { return s.base.Peek(key) }

// Window returns the span that the limit is meant for.
func (s *Synced) Window() time.Duration { return s.base.Window() }

// LowestLimit returns that of the limiter, see [sketchlimit.Limiter.LowestLimit].
func (s *Synced) LowestLimit() int { return s.base.LowestLimit() }

// MemoryBytes returns the memory that sharing takes here, beside the limiter's.
func (s *Synced) MemoryBytes() int { return s.base.MemoryBytes() }
