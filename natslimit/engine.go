package natslimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sketchlimit/sketchlimit/sharing"
)

// StreamName is the name of the stream, and the first token of all its subjects.
const StreamName = "sketchlimit"

// engine keeps logs in the subjects of one stream. The place of a message is when the
// stream was made, and its number in it.
type engine struct {
	js       jetstream.JetStream
	replicas int

	mu     sync.Mutex
	stream jetstream.Stream // nil: not known
	made   uint64           // when, ns since 1970
	last   uint64           // number of the latest message that was met

	waiting, direct reader // for calls that wait and those that do not
}

// reader is a consumer of some subjects, which goes on where it was.
type reader struct {
	mu       sync.Mutex
	consumer jetstream.Consumer // nil: none
	made     uint64             // the stream
	next     map[string]uint64  // by subject: the number from which on messages are still to come
	taken    uint64             // messages, by this consumer
}

func newEngine(js jetstream.JetStream, replicas int) *engine {
	return &engine{js: js, replicas: replicas}
}

const (
	// readCount is how many messages are read at once.
	readCount = 256
	// unused is how long the server keeps a consumer that nobody uses.
	unused = 30 * time.Second
)

// subject returns that of a log: what a subject cannot hold is escaped.
func subject(log string) string {
	var b strings.Builder
	b.WriteString(StreamName + ".")
	for _, c := range []byte(log) {
		if c <= ' ' || c > '~' || strings.IndexByte(".*>%", c) >= 0 {
			fmt.Fprintf(&b, "%%%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// find returns the stream, nil if it is not there, and makes it if it should. The
// stream that was found before is looked for again after forget.
func (e *engine) find(ctx context.Context, create bool) (jetstream.Stream, uint64, error) {
	e.mu.Lock()
	stream, made := e.stream, e.made
	e.mu.Unlock()
	if stream != nil {
		return stream, made, nil
	}
	stream, err := e.js.Stream(ctx, StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if !create {
			return nil, 0, nil
		}
		stream, err = e.js.CreateStream(ctx, jetstream.StreamConfig{Name: StreamName, Subjects: []string{StreamName + ".>"},
			Description: "counts that sketchlimit's limiters share", Replicas: e.replicas, AllowMsgTTL: true})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // by another node, just now
			stream, err = e.js.Stream(ctx, StreamName)
		}
	}
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
		err = fmt.Errorf("JetStream does not answer, is it enabled? %w", err)
	}
	if err != nil {
		return nil, 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	made = uint64(stream.CachedInfo().Created.UnixNano())
	if made != e.made {
		e.last = 0
	}
	e.stream, e.made = stream, made
	return stream, made, nil
}

// forget lets the stream be looked for again.
func (e *engine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stream = nil
}

// anew reports whether a message may be in another stream than those before, because
// numbers rise, and forgets the stream then.
func (e *engine) anew(ack *jetstream.PubAck) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ack.Sequence > e.last || ack.Duplicate {
		e.last = max(e.last, ack.Sequence)
		return false
	}
	e.stream = nil
	return true
}

// Append implements [sharing.Engine].
func (e *engine) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	results := make([]sharing.Result, len(entries))
	create := slices.ContainsFunc(entries, func(e sharing.Entry) bool { return e.Begin })
	stream, made, err := e.find(ctx, create)
	if err != nil || stream == nil {
		for i := range results {
			results[i].Err = cmp.Or(err, sharing.ErrNoLog)
		}
		return results
	}
	futures := make([]jetstream.PubAckFuture, len(entries))
	for i, entry := range entries {
		m := &nats.Msg{Subject: subject(entry.Log), Data: entry.Data}
		keep := max(time.Second, entry.Keep.Round(time.Second))
		futures[i], results[i].Err = e.js.PublishMsgAsync(m, jetstream.WithMsgID(entry.ID), jetstream.WithMsgTTL(keep),
			jetstream.WithExpectStream(StreamName), jetstream.WithRetryAttempts(0))
	}
	for i, future := range futures {
		if future == nil {
			continue
		}
		select {
		case ack := <-future.Ok():
			if e.anew(ack) {
				if _, made, err = e.find(ctx, true); err != nil {
					results[i].Err = fmt.Errorf("natslimit: %w", err)
					continue
				}
			}
			results[i].Place = sharing.Place{Major: made, Minor: ack.Sequence}
		case err := <-future.Err():
			results[i].Err = e.noStream(ctx, err)
		case <-ctx.Done():
			results[i].Err = fmt.Errorf("natslimit: no answer: %w", ctx.Err())
		}
	}
	return results
}

// noStream returns ErrNoLog for an error of a stream that is not there any more, and
// others as they are.
func (e *engine) noStream(ctx context.Context, err error) error {
	e.forget()
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		if stream, _, e := e.find(ctx, false); stream == nil && e == nil {
			return sharing.ErrNoLog
		}
	}
	return fmt.Errorf("natslimit: %w", err)
}

// Read implements [sharing.Engine].
func (e *engine) Read(ctx context.Context, from []sharing.Cursor, wait time.Duration) ([]sharing.Record, error) {
	deadline := time.Now().Add(wait)
	stream, made, err := e.find(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("natslimit: %w", err)
	}
	if stream == nil {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return nil, nil
	}
	r := &e.direct
	if wait > 0 {
		r = &e.waiting
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		records, err := r.read(ctx, stream, made, from, time.Until(deadline))
		if err != nil {
			r.consumer = nil
			e.forget()
			if wait == 0 && errors.Is(err, errGap) {
				continue
			}
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil, nil // the next entry finds out
			}
			return nil, fmt.Errorf("natslimit: %w", err)
		}
		if len(records) > 0 {
			e.mu.Lock()
			e.last = max(e.last, records[len(records)-1].Place.Minor)
			e.mu.Unlock()
			return records, nil
		}
		if wait > 0 && time.Until(deadline) <= 0 {
			return nil, nil
		}
		if wait == 0 {
			end, err := r.atEnd(ctx, stream)
			if err != nil {
				r.consumer = nil
				e.forget()
				return nil, fmt.Errorf("natslimit: %w", err)
			}
			if end {
				return nil, nil
			}
		}
	}
}

// after returns the number of the first message that a cursor has not passed.
func after(c sharing.Cursor, made uint64) uint64 {
	switch {
	case c.After.Major < made:
		return 1
	case c.After.Major > made:
		return 1 << 62
	}
	return c.After.Minor + 1
}

// read returns the next messages after the cursors, none if there are none within wait.
func (r *reader) read(ctx context.Context, stream jetstream.Stream, made uint64, from []sharing.Cursor, wait time.Duration) ([]sharing.Record, error) {
	cursors := map[string]sharing.Cursor{}
	for _, c := range from {
		cursors[subject(c.Log)] = c
	}
	if err := r.reach(ctx, stream, made, cursors); err != nil {
		return nil, err
	}
	var records []sharing.Record
	take := func(batch jetstream.MessageBatch, err error) error {
		if err != nil {
			return err
		}
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			if r.taken++; meta.Sequence.Consumer != r.taken {
				return errGap
			}
			c, seq := cursors[m.Subject()], meta.Sequence.Stream
			r.next[m.Subject()] = seq + 1
			if seq >= after(c, made) {
				records = append(records, sharing.Record{Log: c.Log, Place: sharing.Place{Major: made, Minor: seq}, Data: m.Data()})
			}
		}
		return batch.Error()
	}
	if wait > 0 {
		err := take(r.consumer.Fetch(1, jetstream.FetchMaxWait(max(wait, 10*time.Millisecond))))
		if err != nil && !errors.Is(err, nats.ErrTimeout) {
			return nil, err
		}
		if len(records) == 0 {
			return nil, nil
		}
	}
	err := take(r.consumer.FetchNoWait(readCount))
	if err != nil && len(records) > 0 {
		r.consumer = nil // what it has taken and not given comes again
		err = nil
	}
	return records, err
}

// errGap is where a message did not come that the server had sent.
var errGap = errors.New("natslimit: a message was lost on its way")

// reach makes a consumer, unless there is one that goes on at the cursors or before.
func (r *reader) reach(ctx context.Context, stream jetstream.Stream, made uint64, cursors map[string]sharing.Cursor) error {
	first, same := uint64(1<<63), r.consumer != nil && r.made == made && len(cursors) == len(r.next)
	for subject, c := range cursors {
		first = min(first, after(c, made))
		next, ok := r.next[subject]
		same = same && ok && after(c, made) >= next
	}
	if same {
		return nil
	}
	subjects := slices.Sorted(maps.Keys(cursors))
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{FilterSubjects: subjects, OptStartSeq: first,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: unused,
		MemoryStorage: true, Replicas: 1})
	if err != nil {
		return err
	}
	r.consumer, r.made, r.taken, r.next = consumer, made, 0, map[string]uint64{}
	for subject := range cursors {
		r.next[subject] = first
	}
	return nil
}

// atEnd reports whether all has been read that the stream's leader has: a consumer may
// be at a server that lags behind.
func (r *reader) atEnd(ctx context.Context, stream jetstream.Stream) (bool, error) {
	for subject, next := range r.next {
		m, err := stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return false, err
		case m.Sequence >= next:
			return false, nil
		}
	}
	return true, nil
}

// Trim implements [sharing.Engine].
func (e *engine) Trim(ctx context.Context, log string, upTo sharing.Place) error {
	stream, made, err := e.find(ctx, false)
	if err == nil && stream != nil && upTo.Major == made {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject(log)), jetstream.WithPurgeSequence(upTo.Minor+1))
	}
	if err != nil {
		return fmt.Errorf("natslimit: %w", err)
	}
	return nil
}
