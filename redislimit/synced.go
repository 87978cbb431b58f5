package redislimit

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	crand "crypto/rand"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
)

//go:embed exchange.lua
var exchangeSource string

var exchangeScript = redis.NewScript(exchangeSource)

// Synced is a limiter that shares its limit with those of other machines, its nodes. Each
// decides by itself, in nanoseconds, by what it has admitted and what it knows of the
// others; every interval it tells Redis which of its cells have risen, and reads which of
// the others' have. In Redis there are, for each generation, a string of cells as large as
// the node's own, a log of about twice that at most, and a number for each node, which
// expire two windows after they were last written.
//
// Every unit is known everywhere two intervals later at the latest, while Redis answers. So what all
// nodes together admit of a key, in a window, is at most
//
//	Limit + (nodes − 1) × min(Limit, rate × (2 × interval + round trip))
//
// where rate is the units of the key that are offered to one node a second. Nodes number
// their generations by their own clocks: SyncedStats.ClockSkew tells how far these are off.
//
// A node that ends with [Synced.Close] tells what it has admitted; one that crashes takes
// up to an interval of it along. One that comes reads what the others have admitted in the
// windows that count. While Redis is away nodes decide as their [Failure] says, keep what
// they have to tell, and tell it when Redis is back. If it comes back with nothing, they
// tell all that they have admitted; what nodes that are gone have admitted is known then
// only where it was before.
//
// The limiter may be used by itself as well: its decisions are the same, but for FailOpen
// and FailClosed. A Synced is safe for concurrent use.
type Synced struct {
	limiter  *sketchlimit.Limiter
	share    *sketchlimit.Share
	client   redis.UniversalClient
	interval time.Duration
	options  options
	limit    int
	node     string
	layout   string // of the share, in 32 characters
	breaker  *breaker
	blind    atomic.Bool // Redis is away, and that is not to be decided locally

	mu       sync.Mutex // guards what follows; held while an exchange goes on
	channels map[channelID]*channel

	statsMu sync.Mutex
	stats   SyncedStats

	stop    context.CancelFunc
	stopped chan struct{}
}

type channelID struct {
	generation int64
	stretch    int
}

// mostStretches is the number of strings that a generation is spread over, so that a cluster
// shares the work and no script takes long.
const mostStretches = 8

type options struct {
	prefix  string
	timeout time.Duration
	failure Failure
	log     *slog.Logger
}

// Option changes what a [Synced] does.
type Option func(*options) error

// Prefix begins the names of the Redis keys, "sketchlimit" otherwise. Nodes that share a limit
// have the same. It must not hold a brace.
func Prefix(prefix string) Option {
	return func(o *options) error {
		o.prefix = prefix
		if prefix == "" || strings.ContainsAny(prefix, "{}") {
			return fmt.Errorf("redislimit: Prefix %q, must be without braces, and not empty", prefix)
		}
		return nil
	}
}

// Timeout is how long Redis may take to answer, a second otherwise. Requests do not wait for it.
func Timeout(timeout time.Duration) Option {
	return func(o *options) error {
		o.timeout = timeout
		if timeout <= 0 {
			return fmt.Errorf("redislimit: Timeout %v, must be above 0", timeout)
		}
		return nil
	}
}

// OnFailure is how requests are decided while Redis is away, [FailLocal] otherwise.
func OnFailure(failure Failure) Option {
	return func(o *options) error {
		o.failure = failure
		if failure < FailLocal || failure > FailClosed {
			return fmt.Errorf("redislimit: Failure %d, must be FailLocal, FailOpen or FailClosed", int(failure))
		}
		return nil
	}
}

// Log is told when Redis goes away and comes back, slog.Default() otherwise.
func Log(log *slog.Logger) Option {
	return func(o *options) error {
		o.log = log
		if log == nil {
			return errors.New("redislimit: Log nil, must be a logger")
		}
		return nil
	}
}

const minInterval = time.Millisecond

// NewSynced shares the limiter's limit with all nodes that have the same Prefix, whose
// limiters must be built from the same Config with the same Seed: [Seed] has one for all.
// It exchanges once, and then every interval (1ms … a window). A Redis that does not answer is no
// error, and is waited for twice the Timeout at most. The client's timeouts should not be
// longer than the interval by much. Limiters with other Windows do not share: their windows
// have other numbers.
//
// A limiter that was restored from a snapshot shares, too, but what this machine had told
// Redis before the snapshot counts twice for it until that has left the window.
func NewSynced(client redis.UniversalClient, limiter *sketchlimit.Limiter, interval time.Duration, opts ...Option) (*Synced, error) {
	switch {
	case client == nil:
		return nil, errors.New("redislimit: client nil, must be one")
	case limiter == nil:
		return nil, errors.New("redislimit: limiter nil, must be one")
	case interval < minInterval || interval > limiter.Window():
		return nil, fmt.Errorf("redislimit: interval %v, must be %v … the Window, %v", interval, minInterval, limiter.Window())
	}
	o := options{"sketchlimit", time.Second, FailLocal, slog.Default()}
	for _, option := range opts {
		if err := option(&o); err != nil {
			return nil, err
		}
	}
	share, err := limiter.Share()
	if err != nil {
		return nil, fmt.Errorf("redislimit: %w", err)
	}
	var id [8]byte
	crand.Read(id[:]) // never fails
	s := &Synced{limiter: limiter, share: share, client: client, interval: interval, options: o,
		limit: limiter.Peek("").Limit, node: hex.EncodeToString(id[:]), layout: digest(share.Layout()),
		breaker: newBreaker(o.log.With(slog.String("name", o.prefix)), o.timeout), channels: make(map[channelID]*channel), stopped: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), 2*o.timeout)
	defer cancel()
	if err := s.attempt(ctx); errors.Is(err, errLayout) {
		return nil, err
	}
	ctx, s.stop = context.WithCancel(context.Background())
	go s.run(ctx)
	return s, nil
}

// digest returns 32 characters that stand for a text.
func digest(text string) string {
	return fmt.Sprintf("%016x%016x", xxhash.Sum64String(text), xxhash.Sum64String(text+"\x00"))
}

// Seed returns the seed that all limiters of a prefix have in common, and makes one if
// there is none yet. It stays in Redis for ever.
func Seed(ctx context.Context, client redis.UniversalClient, prefix string) (uint64, error) {
	var b [8]byte
	crand.Read(b[:])
	b[0] |= 1 // not 0
	if err := client.SetNX(ctx, prefix+":seed", hex.EncodeToString(b[:]), 0).Err(); err != nil {
		return 0, fmt.Errorf("redislimit: %w", err)
	}
	text, err := client.Get(ctx, prefix+":seed").Result()
	if err != nil {
		return 0, fmt.Errorf("redislimit: %w", err)
	}
	seed, err := strconv.ParseUint(text, 16, 64)
	if err != nil || seed == 0 {
		return 0, fmt.Errorf("redislimit: seed %q at %s:seed, must be a hexadecimal number above 0", text, prefix)
	}
	return seed, nil
}

// run exchanges every interval until the context ends.
func (s *Synced) run(ctx context.Context) {
	defer close(s.stopped)
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if s.breaker.allow(now) {
				s.attempt(ctx)
			}
			s.share.Weigh()
		}
	}
}

// attempt exchanges, and tells the breaker how that went: also each time that the timeout
// passes while the client still tries. It returns when the context ends, at the latest.
func (s *Synced) attempt(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, s.options.timeout)
		defer cancel()
		done <- s.exchange(ctx)
	}()
	late := time.NewTicker(s.options.timeout + s.options.timeout/8) // after the context has had its say
	defer late.Stop()
	for {
		select {
		case err := <-done:
			if ctx.Err() == nil { // or else Close has cut it short
				s.note(err)
			}
			return err
		case <-late.C:
			s.note(fmt.Errorf("redislimit: no answer within %v", s.options.timeout))
			s.share.Weigh()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// note tells the breaker how an exchange went. Where a part of Redis has answered it is not away.
func (s *Synced) note(err error) {
	now := time.Now()
	if errors.As(err, new(partlyError)) {
		s.breaker.partly(now, err)
	} else {
		s.breaker.done(now, now, err)
	}
	s.blind.Store(s.options.failure != FailLocal && s.breaker.state().Away)
}

// Close ends the exchanges with a last one, which tells the others what this node has
// admitted, and returns its error. The client stays open, and the limiter goes on with
// what it knows.
func (s *Synced) Close() error {
	s.stop()
	<-s.stopped
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.options.timeout)
	defer cancel()
	return s.attempt(ctx)
}

// exchange tells Redis what is new here and learns what is new elsewhere. Where an exchange
// before this one had failed, or Redis has lost something, that is told again first and what
// is new after it, at once: this may be the last exchange.
func (s *Synced) exchange(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	const rounds = 3 // what was on its way; all of it, if Redis has lost that; what is new
	for range rounds {
		if err := ctx.Err(); err != nil {
			return err // while others exchanged: nothing may stay on its way for this
		}
		if behind, err := s.round(ctx); !behind {
			return err
		}
	}
	return fmt.Errorf("redislimit: not all is told after %d round trips", rounds)
}

// round is one round trip of an exchange, of all stretches at once. What fails of one does not
// concern the others. It tells whether some of those that have not failed have more to tell.
func (s *Synced) round(ctx context.Context) (behind bool, err error) {
	var told SyncedStats // by this round
	var calls []call
	for _, c := range s.current() {
		again := c.last() != c.acked
		if records, ok := c.offer(); ok {
			calls = append(calls, call{channel: c, args: s.arguments(c, records), again: again})
		}
	}
	now := s.send(ctx, calls)
	var failed error
	answered := false
	for _, call := range calls {
		told.SentBytes += wireBytes("evalsha", exchangeScript.Hash(), "3") + wireBytes(call.channel.keys...) + wireBytes(call.args...)
		r, err := call.reply()
		if err == nil {
			told.ReceivedBytes += r.bytes()
			var lost bool
			if lost, err = call.channel.accept(r); lost {
				told.Lost++
			}
			behind = behind || lost || call.again
			answered = true
		}
		if failed == nil {
			failed = err
		}
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok && failed != nil {
		cluster.ReloadState(ctx) // a master may have been replaced; left alone, it looks once a minute
	}
	if failed != nil && answered {
		failed = partlyError{failed}
	}
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	s.stats.add(told, failed, now)
	return behind, failed
}

// partlyError is why a part of an exchange has failed, of which another was answered.
type partlyError struct{ error }

func (e partlyError) Unwrap() error { return e.error }

// current returns the channels of the generations that count, the oldest first.
func (s *Synced) current() (channels []*channel) {
	latest, kept := s.share.Generations()
	oldest := latest - int64(kept) + 1
	for id := range s.channels {
		if id.generation < oldest {
			delete(s.channels, id)
		}
	}
	stretches := min(mostStretches, s.share.Parts())
	for generation := oldest; generation <= latest; generation++ {
		for i := range stretches {
			id := channelID{generation, i}
			if s.channels[id] == nil {
				first, next := i*s.share.Parts()/stretches, (i+1)*s.share.Parts()/stretches
				s.channels[id] = newChannel(s.share, first, next-first, generation, s.names(id))
			}
			channels = append(channels, s.channels[id])
		}
	}
	return channels
}

// names returns the names of a channel's keys, which a cluster has in one slot.
func (s *Synced) names(id channelID) []string {
	base := fmt.Sprintf("{%s:%d}:%d:", s.options.prefix, id.stretch, id.generation)
	return []string{base + "cells", base + "log", base + s.node}
}

// arguments returns those of the script.
func (s *Synced) arguments(c *channel, records []byte) []string {
	longestLog := max(4096, 16*len(c.told)) // twice the cells
	return []string{
		strconv.FormatUint(c.acked, 10), strconv.FormatUint(c.last(), 10), string(records),
		strconv.FormatInt(c.known, 10), s.layout, strconv.Itoa(s.share.CellBits()),
		strconv.FormatInt(max(1, (2*s.limiter.Window()).Milliseconds()), 10), strconv.Itoa(longestLog),
	}
}

// call is one script call.
type call struct {
	channel *channel
	args    []string
	again   bool // only what was on its way before
	cmd     *redis.Cmd
}

func (c *call) reply() (reply, error) {
	v, err := c.cmd.Result()
	switch {
	case redis.HasErrorPrefix(err, "LAYOUT"):
		return reply{}, errLayout
	case err != nil:
		return reply{}, fmt.Errorf("redislimit: %w", err)
	}
	return parseReply(v)
}

// send makes the calls in one pipeline, and returns how far this machine's clock is ahead
// of Redis', nil if that is not known. A server that does not know the script, because it
// is new or has been flushed, is told.
func (s *Synced) send(ctx context.Context, calls []call) (ahead *time.Duration) {
	pipe := s.client.Pipeline()
	start, clock := time.Now(), pipe.Time(ctx)
	for i, c := range calls {
		calls[i].cmd = pipe.EvalSha(ctx, exchangeScript.Hash(), c.channel.keys, anys(c.args)...)
	}
	_, failed := pipe.Exec(ctx) // each command has its error, unless no connection came about
	if t, err := clock.Result(); err == nil {
		d := start.Add(time.Since(start) / 2).Sub(t)
		ahead = &d
	}
	for i, c := range calls {
		if c.cmd.Err() == nil && c.cmd.Val() == nil {
			c.cmd.SetErr(cmp.Or(failed, errNoAnswer))
		}
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			calls[i].cmd = exchangeScript.Run(ctx, s.client, c.channel.keys, anys(c.args)...)
		}
	}
	return ahead
}

var errNoAnswer = errors.New("no answer")

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}

// wireBytes returns what texts take in Redis' protocol.
func wireBytes(texts ...string) (n uint64) {
	for _, t := range texts {
		n += uint64(len("$\r\n\r\n") + len(strconv.Itoa(len(t))) + len(t))
	}
	return n
}

// SyncedStats is a picture of a [Synced].
type SyncedStats struct {
	Health
	Exchanges uint64    // that succeeded, each round trip counted
	Failures  uint64    // that did not, wholly or in part
	Latest    time.Time // of the last that succeeded
	// SentBytes and ReceivedBytes are all that was exchanged, in Redis' protocol;
	// LatestSentBytes and LatestReceivedBytes the latest exchange's.
	SentBytes, ReceivedBytes             uint64
	LatestSentBytes, LatestReceivedBytes uint64
	// Lost is how often Redis, or a part of it, had lost what it knew before, and
	// was told again.
	Lost uint64
	// ClockSkew is how far this machine's clock is ahead of that of Redis, to half a
	// round trip. Windows begin by the nodes' own clocks.
	ClockSkew time.Duration
}

// add takes in an exchange.
func (s *SyncedStats) add(told SyncedStats, failed error, ahead *time.Duration) {
	if failed == nil {
		s.Exchanges++
		s.Latest = time.Now()
	} else {
		s.Failures++
	}
	s.SentBytes += told.SentBytes
	s.ReceivedBytes += told.ReceivedBytes
	s.LatestSentBytes, s.LatestReceivedBytes = told.SentBytes, told.ReceivedBytes
	s.Lost += told.Lost
	if ahead != nil {
		s.ClockSkew = *ahead
	}
}

// Stats returns a picture of the exchanges. That of the decisions is the limiter's.
func (s *Synced) Stats() SyncedStats {
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	stats := s.stats
	stats.Health = s.breaker.state()
	return stats
}

// MemoryBytes returns the memory that sharing takes here, beside the limiter's.
func (s *Synced) MemoryBytes() int {
	_, kept := s.share.Generations()
	return s.share.MemoryBytes() + 2*kept*s.share.Parts()*s.share.PartWords()*8
}
