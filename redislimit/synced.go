package redislimit

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	crand "crypto/rand"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
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
// only where it was before. Beyond its plan a Synced only denies: limiters that grow or spare are refused.
//
// The limiter may be used by itself as well: its decisions are the same, but for FailOpen
// and FailClosed. A Synced is safe for concurrent use.
type Synced struct {
	limiter   *sketchlimit.Limiter
	share     *sharing.Share
	client    redis.UniversalClient
	interval  time.Duration
	options   options
	limit     int
	lowest    int // limit that a request may come with
	node      string
	layout    string // of the share and its stretches, in 32 characters
	stretches int
	progress  atomic.Uint64 // replies
	breaker   *breaker
	eviction  *evictionWatch
	seed      uint64
	keeper    *keeper     // of the seed
	blind     atomic.Bool // Redis is away, and that is not to be decided locally

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

const (
	// stretches is the least number of strings that a generation is spread over, so that a cluster shares the
	// work, and stretchBytes the most that the cells of one may take, so that no script takes long.
	stretches    = 8
	stretchBytes = 32 << 10
	// batch is how many scripts are sent at once: Redis serves nobody else before it has run them. Together
	// they are told no more than batchBytes.
	batch      = 16
	batchBytes = 2 << 10
)

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
	case isNil(client):
		return nil, errNoClient
	case limiter == nil:
		return nil, errors.New("redislimit: limiter nil, must be one")
	case interval < minInterval || interval > limiter.Window():
		return nil, fmt.Errorf("redislimit: interval %v, must be %v … the Window, %v", interval, minInterval, limiter.Window())
	}
	o := options{"sketchlimit", time.Second, FailLocal, slog.Default()}
	for i, option := range opts {
		if option == nil {
			return nil, fmt.Errorf("redislimit: option %d nil, must be one", i)
		}
		if err := option(&o); err != nil {
			return nil, err
		}
	}
	plan := limiter.Plan()
	share, err := limiter.Share()
	if err != nil {
		return nil, fmt.Errorf("redislimit: %w", err)
	}
	var id [8]byte
	crand.Read(id[:]) // never fails
	s := &Synced{limiter: limiter, share: share, client: client, interval: interval, options: o,
		limit: plan.Limit, lowest: cmp.Or(plan.LowestLimit, plan.Limit), node: hex.EncodeToString(id[:]), stretches: min(share.Parts(), max(stretches, 8*share.Parts()*share.PartWords()/stretchBytes)),
		breaker: newBreaker(o.log.With(slog.String("name", o.prefix)), o.timeout), channels: make(map[channelID]*channel), stopped: make(chan struct{})}
	s.layout = digest(fmt.Sprint(share.Layout(), " in stretches ", s.stretches))
	s.eviction = watchEviction(client, o.log.With(slog.String("name", o.prefix)), o.timeout)
	s.seed = drawn.of(share)
	s.keeper = drawn.keeper(client, s.seed)
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
	go func() { done <- s.exchange(ctx) }()
	progress := s.progress.Load()
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
			if now := s.progress.Load(); now != progress {
				progress = now
				continue
			}
			s.note(fmt.Errorf("redislimit: no answer within %v: %w", s.options.timeout, context.DeadlineExceeded))
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
// admitted, and returns its error. It waits as long as that goes on, and twice the Timeout if Redis does not
// answer. The client stays open, and the limiter goes on with what it knows.
func (s *Synced) Close() error {
	s.stop()
	<-s.stopped
	last := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*s.options.timeout)
		defer cancel()
		return s.attempt(ctx)
	}
	for {
		before := s.progress.Load()
		if err := last(); !errors.Is(err, context.DeadlineExceeded) || s.progress.Load() == before {
			return err
		}
	}
}

// exchange tells Redis what is new here and learns what is new elsewhere. Where an exchange
// before this one had failed, or Redis has lost something, that is told again first and what
// is new after it, at once: this may be the last exchange. It goes on as long as each round tells more, each
// within the timeout.
func (s *Synced) exchange(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	const stalls = 3 // what was on its way; all of it, if Redis has lost that; what is new
	lost := s.lost()
	for stalled, left := 0, math.MaxInt; stalled < stalls; {
		if err := ctx.Err(); err != nil {
			return err // while others exchanged: nothing may stay on its way for this
		}
		behind, more, err := s.round(ctx)
		if err == nil && !behind {
			s.keepSeed(ctx, s.lost() > lost)
		}
		if !behind {
			return err
		}
		if more == 0 || more >= left {
			stalled++
		}
		left = more
	}
	return errors.New("redislimit: not all is told, Redis loses it again and again")
}

// lost returns how often Redis had lost what it was told.
func (s *Synced) lost() uint64 {
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	return s.stats.Lost
}

// keepSeed looks after the seed in Redis. Whose exchanges are accepted has the right one.
func (s *Synced) keepSeed(ctx context.Context, atOnce bool) {
	if !s.keeper.due(time.Now(), atOnce) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.timeout)
	defer cancel()
	if found, err := s.keeper.keep(ctx, s.seed); err == nil && found != s.seed {
		err := s.keeper.insist(ctx, s.seed)
		s.options.log.LogAttrs(ctx, slog.LevelWarn, "redislimit: Redis had lost the seed, another node has drawn a new one and must start again",
			slog.String("name", s.options.prefix), slog.Any("error", err))
	}
}

// round goes once through all stretches, a few of them in each round trip. What fails of one does not
// concern the others. It tells whether some of those that have not failed have more to tell, and how many records.
func (s *Synced) round(ctx context.Context) (behind bool, more int, err error) {
	var told SyncedStats // by this round
	var failed error
	answered := false
	var ahead *time.Duration
	var calls []call
	bytes := 0
	cluster, several := s.client.(*redis.ClusterClient)
	send := func() {
		if len(calls) == 0 || failed != nil && !answered && !several { // nobody is there
			return
		}
		ctx, cancel := context.WithTimeout(ctx, s.options.timeout)
		defer cancel()
		ahead = cmp.Or(s.send(ctx, calls), ahead)
		for _, call := range calls {
			told.SentBytes += wireBytes("evalsha", exchangeScript.Hash(), "3") + wireBytes(call.channel.keys...) + wireBytes(call.args...)
			r, err := call.reply()
			if err == nil {
				told.ReceivedBytes += r.bytes()
				var lost bool
				if lost, err = call.channel.accept(r); lost {
					told.Lost++
				}
				more += int(call.channel.last() - call.channel.acked)
				behind = behind || lost || call.again || call.channel.more()
				answered = true
				s.progress.Add(1)
			}
			if failed == nil {
				failed = err
			}
		}
		calls, bytes = calls[:0], 0
	}
	for _, c := range s.current() {
		again := c.more()
		records, ok := c.offer()
		if !ok {
			continue
		}
		if bytes += len(records); bytes > batchBytes || len(calls) == batch {
			send()
			bytes = len(records)
		}
		calls = append(calls, call{channel: c, args: s.arguments(c, records), again: again})
	}
	send()
	if several && failed != nil {
		cluster.ReloadState(ctx) // a master may have been replaced; left alone, it looks once a minute
	}
	if failed != nil && answered {
		failed = partlyError{failed}
	}
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	s.stats.add(told, failed, ahead)
	return behind, more, failed
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
	for generation := oldest; generation <= latest; generation++ {
		for i := range s.stretches {
			id := channelID{generation, i}
			if s.channels[id] == nil {
				first, next := i*s.share.Parts()/s.stretches, (i+1)*s.share.Parts()/s.stretches
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
		strconv.FormatUint(c.acked, 10), strconv.FormatUint(c.sent, 10), string(records),
		strconv.FormatInt(c.ask(), 10), s.layout, strconv.Itoa(s.share.CellBits()),
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
	start, now, clock := time.Now(), sketchlimit.Now(), pipe.Time(ctx)
	for i, c := range calls {
		calls[i].cmd = pipe.EvalSha(ctx, exchangeScript.Hash(), c.channel.keys, anys(c.args)...)
	}
	_, failed := pipe.Exec(ctx) // each command has its error, unless no connection came about
	if t, err := clock.Result(); err == nil {
		d := now.Add(time.Since(start) / 2).Sub(t)
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
	// Eviction is whether Redis may lose counts because its memory is full, as it was at construction.
	Eviction Eviction
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
	stats.Health, stats.Eviction = s.breaker.state(), s.eviction.state()
	return stats
}

// MemoryBytes returns the memory that sharing takes here, beside the limiter's.
func (s *Synced) MemoryBytes() int {
	_, kept := s.share.Generations()
	return s.share.MemoryBytes() + 2*kept*s.share.Parts()*s.share.PartWords()*8
}
