package sharing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// Hub lets all nodes of a process exchange through one [Engine]: one call appends what
// several have to tell, and one reads the logs of all. While nothing happens it makes
// one call in two seconds, which waits at the server. It is safe for concurrent use.
type Hub struct {
	engine Engine
	calls  chan struct{} // one for each call of the engine that has not returned

	mu      sync.Mutex
	nodes   map[*Node]struct{}
	changed chan struct{} // closed when nodes change
	latest  time.Time     // change
	base    time.Time     // nodes of one interval exchange at once: at multiples of it since base
	stop    context.CancelFunc
}

const (
	// idleWait is how long a call waits at the server for something to read.
	idleWait = 2 * time.Second
	// backOff is the least between calls that fail.
	backOff = 250 * time.Millisecond
	// batchCount and batchBytes bound what is appended by one call.
	batchCount = 64
	batchBytes = 128 << 10
	// maxCalls bounds the calls of the engine that go on at once. One waits for news and
	// one appends. The others are of nodes that join, or were given up and have not
	// returned.
	maxCalls = 8
)

// NewHub returns a Hub without nodes. It makes calls while it has some.
func NewHub(engine Engine) *Hub {
	return &Hub{engine: engine, calls: make(chan struct{}, maxCalls), nodes: map[*Node]struct{}{}, changed: make(chan struct{}), base: time.Now()}
}

// Join makes the share a node of the log, and exchanges once. An engine that does not
// answer until ctx ends is no error; the node joins when it does. Join returns
// [ErrLayout], wrapped, where other nodes of the log have another layout.
func (h *Hub) Join(ctx context.Context, share *Share, c Config) (*Node, error) {
	n := newNode(h, share, c)
	if err := n.Exchange(ctx); errors.Is(err, ErrLayout) {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n.next = h.after(time.Now(), c.Interval)
	h.nodes[n] = struct{}{}
	if len(h.nodes) == 1 {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background())
		go h.write(ctx)
		go h.read(ctx)
	}
	h.change()
	return n, nil
}

// Leave ends the exchanges of the node by itself.
func (n *Node) Leave() {
	h := n.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.nodes[n]; !ok {
		return
	}
	delete(h.nodes, n)
	if len(h.nodes) == 0 {
		h.stop()
	}
	h.change()
}

// Close ends the exchanges of the node with a last one, which tells the others all that
// was admitted here, and returns its error. It goes on as long as each of its calls is
// answered, and waits for an answer for twice the Timeout.
func (n *Node) Close() error {
	n.Leave()
	last := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*n.config.Timeout)
		defer cancel()
		return n.Exchange(ctx)
	}
	for {
		before := n.Stats().Exchanges
		err := last()
		if err == nil {
			n.mu.Lock()
			n.say(message{kind: bye})
			n.mu.Unlock()
			last() // others find out by themselves otherwise
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || n.Stats().Exchanges == before {
			return err
		}
	}
}

// after returns when the exchange after a time begins.
func (h *Hub) after(now time.Time, interval time.Duration) time.Time {
	return h.base.Add((now.Sub(h.base)/interval + 1) * interval)
}

// change wakes whoever waits. The caller holds h.mu.
func (h *Hub) change() {
	close(h.changed)
	h.latest = time.Now()
	h.changed = make(chan struct{})
}

// members returns the nodes and their shortest interval, what is closed when these
// change, and when they last did.
func (h *Hub) members() (nodes []*Node, interval time.Duration, changed <-chan struct{}, latest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.nodes {
		nodes = append(nodes, n)
		if interval == 0 || n.config.Interval < interval {
			interval = n.config.Interval
		}
	}
	return nodes, interval, h.changed, h.latest
}

// write appends what nodes have to tell, each at its interval, until the context ends.
func (h *Hub) write(ctx context.Context) {
	for ctx.Err() == nil {
		nodes, _, changed, _ := h.members()
		now := time.Now()
		wait := time.Hour
		var due []*Node
		for _, n := range nodes {
			n.mu.Lock()
			if !n.next.After(now) {
				due = append(due, n)
				n.next = h.after(now, n.config.Interval)
			}
			wait = min(wait, n.next.Sub(now))
			n.mu.Unlock()
		}
		if len(due) > 0 {
			h.exchangeDue(ctx, due)
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(wait):
		}
	}
}

// exchangeDue appends what some nodes have to tell. Those that others are busy with are
// left out.
func (h *Hub) exchangeDue(ctx context.Context, due []*Node) {
	var free []*Node
	for _, n := range due {
		if n.sending.TryLock() {
			defer n.sending.Unlock()
			free = append(free, n)
		}
	}
	var all sync.WaitGroup
	behind := make([]error, len(free))
	for i, n := range free {
		n.mu.Lock()
		joined, covered := n.joined, n.covered
		n.mu.Unlock()
		if !joined { // at once: a server that does not answer holds up each of them
			all.Go(func() { behind[i] = h.catchUp(ctx, n, patience(n.config.Timeout)) })
		} else if !covered {
			all.Go(func() { behind[i] = h.pull(ctx, n, patience(n.config.Timeout)) })
		}
	}
	all.Wait()
	var telling []*Node
	for i, n := range free {
		if behind[i] != nil {
			h.rest(n)
			continue
		}
		n.mu.Lock()
		n.collect(time.Now())
		n.mu.Unlock()
		telling = append(telling, n)
	}
	for n := range h.push(ctx, telling, false) {
		h.rest(n)
	}
}

// rest lets a node wait after a failure.
func (h *Hub) rest(n *Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next = time.Now().Add(max(n.config.Interval, backOff))
}

// read reads the logs of all nodes, until the context ends.
func (h *Hub) read(ctx context.Context) {
	var latest, verified time.Time
	verified = time.Now()
	failed := false
	for ctx.Err() == nil {
		nodes, interval, changed, change := h.members()
		if failed {
			interval = max(interval, backOff)
		}
		if wait := time.Until(latest.Add(interval)); wait > 0 && !latest.IsZero() || len(nodes) == 0 {
			if len(nodes) == 0 {
				wait = time.Hour
			}
			select {
			case <-ctx.Done():
			case <-changed:
			case <-time.After(wait):
			}
			continue
		}
		if latest.IsZero() { // a node that has joined has just read
			latest = time.Now()
			continue
		}
		latest = time.Now()
		look := latest.Sub(verified) > verifyEvery
		if look {
			verified = latest
		}
		wait := idleWait
		if latest.Sub(change) < idleWait {
			wait = backOff // more nodes may come, which this reading does not include
		}
		logs, timeout := map[string][]*Node{}, time.Duration(0)
		var from []Cursor
		for _, n := range nodes {
			n.mu.Lock()
			if n.covered = n.joined; n.joined {
				if n.suspect || look {
					n.verify(n.suspect)
				}
				c := n.cursor()
				if n.verifying != nil {
					wait = 0
				}
				if logs[c.Log] == nil {
					from = append(from, c)
				}
				for i := range from {
					if from[i].Log == c.Log && c.After.Compare(from[i].After) < 0 {
						from[i] = c
					}
				}
				logs[c.Log] = append(logs[c.Log], n)
				timeout = max(timeout, n.config.Timeout)
			}
			n.mu.Unlock()
		}
		if len(from) == 0 {
			continue
		}
		failed = h.readLogs(ctx, from, logs, wait, timeout) != nil
	}
}

// readLogs reads some logs by one call.
func (h *Hub) readLogs(ctx context.Context, from []Cursor, logs map[string][]*Node, wait, timeout time.Duration) error {
	start := time.Now()
	records, err := h.readWithin(ctx, from, wait, timeout, wait+patience(timeout))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	now, byLog := time.Now(), map[string][]Record{}
	for _, r := range records {
		byLog[r.Log] = append(byLog[r.Log], r)
	}
	errs := logErrors(err)
	for _, c := range from {
		err, failed := errs[c.Log]
		if !failed {
			err, failed = errs[""]
		}
		for _, n := range logs[c.Log] {
			own := err
			if !failed || len(byLog[c.Log]) > 0 {
				own = errors.Join(err, n.read(c.After, byLog[c.Log], reading{start, now, wait}))
			} else {
				n.missedReading()
			}
			n.exchanged(own, 0, now)
			if len(byLog[c.Log]) > 0 {
				n.share.Weigh()
			}
		}
	}
	return err
}

// readWithin reads some logs. An engine that does not heed its context is waited for
// until ctx ends or patience does.
func (h *Hub) readWithin(ctx context.Context, from []Cursor, wait, timeout, patience time.Duration) ([]Record, error) {
	type answer struct {
		records []Record
		err     error
	}
	a, err := call(h, ctx, timeout, patience, func() answer {
		within, cancel := context.WithTimeout(ctx, wait+timeout)
		defer cancel()
		records, err := h.engine.Read(within, from, wait)
		return answer{records, err}
	})
	return a.records, cmp.Or(err, a.err)
}

// call makes a call of the engine, and waits for it until ctx ends or patience does.
// Then the call goes on by itself, and its answer is dropped.
func call[T any](h *Hub, ctx context.Context, timeout, patience time.Duration, f func() T) (answer T, err error) {
	giveUp := time.NewTimer(patience)
	defer giveUp.Stop()
	select {
	case h.calls <- struct{}{}:
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-giveUp.C: // of too many calls that were given up none has returned
		return answer, late(timeout)
	}
	done := make(chan T, 1)
	go func() {
		defer func() { <-h.calls }()
		done <- f()
	}()
	select {
	case answer = <-done:
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-giveUp.C:
		return answer, late(timeout)
	}
}

// patience is how long the hub waits for an answer that may take so long: whatever it
// waits for holds up others.
func patience(timeout time.Duration) time.Duration { return timeout + timeout/8 }

// untilEnd is the patience of a caller who waits until the context ends.
const untilEnd = time.Duration(math.MaxInt64)

// logErrors returns errors by the log that they concern, and the one that concerns all
// under "".
func logErrors(err error) map[string]error {
	all := map[string]error{}
	var split func(error)
	split = func(err error) {
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range several.Unwrap() {
				split(e)
			}
			return
		}
		var one *LogError
		if errors.As(err, &one) {
			all[one.Log] = one.Err
		} else if err != nil {
			all[""] = err
		}
	}
	split(err)
	return all
}

func late(timeout time.Duration) error {
	return fmt.Errorf("no answer within %v: %w", timeout, context.DeadlineExceeded)
}

// Exchange sends all that is new here, and reads all that is new elsewhere. A node that
// has joined does so by itself. While the engine does not answer, it reports that each
// time the timeout has passed. It returns when the context ends, at the latest.
func (n *Node) Exchange(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- n.exchange(ctx) }()
	before := n.Stats()
	tick := time.NewTicker(patience(n.config.Timeout)) // after the context has had its say
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			now := n.Stats()
			if now.Exchanges+now.Failures == before.Exchanges+before.Failures {
				n.exchanged(late(n.config.Timeout), n.config.Timeout, time.Now())
			}
			before = n.Stats()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (n *Node) exchange(ctx context.Context) error {
	n.sending.Lock()
	defer n.sending.Unlock()
	h := n.hub
	const rounds = 8 // what was on its way; what is new; what was lost, and then all of it; each of that is read again
	for range rounds {
		n.mu.Lock()
		joined := n.joined
		n.mu.Unlock()
		if !joined {
			if err := h.catchUp(ctx, n, untilEnd); err != nil {
				return err
			}
		}
		n.mu.Lock()
		n.verify(n.suspect)
		n.mu.Unlock()
		if err := h.pull(ctx, n, untilEnd); err != nil {
			return err
		}
		n.mu.Lock()
		all := n.collect(time.Now())
		n.mu.Unlock()
		if err := h.push(ctx, []*Node{n}, true)[n]; err != nil {
			return err
		}
		n.mu.Lock()
		done := all && n.joined && !n.suspect && len(n.queue) == 0
		n.mu.Unlock()
		if done {
			n.share.Weigh()
			return nil
		}
	}
	return errors.New("not all is published, the server loses it again and again")
}

// push appends what nodes have in their queues, until these are empty, and returns the
// errors of those that fail. An engine that does not heed its context is waited for
// until ctx ends where the caller waits for that, and otherwise for the timeout. What is
// given up then may be appended yet, after what comes later: messages have numbers. The
// caller has locked the nodes' sending.
func (h *Hub) push(ctx context.Context, nodes []*Node, waits bool) map[*Node]error {
	errs := map[*Node]error{}
	for {
		var entries []Entry
		var batches [][]*own
		var before []position
		var telling []*Node
		timeout := time.Duration(0)
		bytes := 0
		for _, n := range nodes {
			if errs[n] != nil {
				continue
			}
			var batch []*own
			n.mu.Lock()
			for _, o := range n.queue {
				if len(entries) == batchCount || bytes > batchBytes || len(batch) > 0 && batch[0].kind == begin {
					break
				}
				bytes += len(o.data)
				batch = append(batch, o)
				entries = append(entries, n.entry(o))
			}
			at := position{n.place, n.lost}
			n.mu.Unlock()
			if len(batch) > 0 {
				batches, telling, before = append(batches, batch), append(telling, n), append(before, at)
				timeout = max(timeout, n.config.Timeout)
			}
		}
		if len(entries) == 0 {
			return errs
		}
		start, within := time.Now(), patience(timeout)
		if waits {
			within = untilEnd
		}
		results := h.append(ctx, entries, timeout, within)
		if ctx.Err() != nil {
			for _, n := range telling {
				errs[n] = ctx.Err()
			}
		}
		now := time.Now()
		for i, n := range telling {
			own := results[:len(batches[i])]
			results = results[len(batches[i]):]
			err := n.accept(batches[i], own, before[i], now)
			if ctx.Err() == nil || err == nil {
				n.exchanged(err, now.Sub(start), now)
			}
			if err != nil {
				errs[n] = err
				continue
			}
			n.mu.Lock()
			cut, ok := n.cutNow()
			n.mu.Unlock()
			if ok {
				if err := h.trim(ctx, n.config.Log, cut, timeout, within); err != nil {
					n.exchanged(err, 0, now) // the log is longer until the next time
				}
			}
		}
	}
}

// append appends entries.
func (h *Hub) append(ctx context.Context, entries []Entry, timeout, patience time.Duration) []Result {
	results, err := call(h, ctx, timeout, patience, func() []Result {
		within, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return h.engine.Append(within, entries)
	})
	if err != nil {
		results = make([]Result, len(entries))
		for i := range results {
			results[i].Err = err
		}
	}
	return results
}

// trim removes the entries of a log up to a place.
func (h *Hub) trim(ctx context.Context, log string, upTo Place, timeout, patience time.Duration) error {
	failed, err := call(h, ctx, timeout, patience, func() error {
		within, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return h.engine.Trim(within, log, upTo)
	})
	return cmp.Or(err, failed)
}

// pull reads a node's log up to its end, and waits so long for each answer.
func (h *Hub) pull(ctx context.Context, n *Node, within time.Duration) error {
	for {
		n.mu.Lock()
		c, joined := n.cursor(), n.joined
		n.mu.Unlock()
		if !joined {
			return nil // it has missed something, and reads all
		}
		start := time.Now()
		records, err := h.readWithin(ctx, []Cursor{c}, 0, n.config.Timeout, within)
		now := time.Now()
		if err == nil {
			err = n.read(c.After, records, reading{start: start, end: now})
		} else {
			n.missedReading()
		}
		if ctx.Err() == nil || err == nil {
			n.exchanged(err, 0, now)
		}
		if err != nil || len(records) == 0 {
			return err
		}
	}
}

// catchUp reads a node's log from its beginning, and waits so long for each answer.
func (h *Hub) catchUp(ctx context.Context, n *Node, within time.Duration) error {
	var all []Record
	c := Cursor{Log: n.config.Log}
	for {
		start := time.Now()
		records, err := h.readWithin(ctx, []Cursor{c}, 0, n.config.Timeout, within)
		if err == nil && len(records) == 0 {
			err = n.rebuild(all, reading{start: start, end: time.Now()})
		}
		if ctx.Err() == nil || err == nil {
			n.exchanged(err, 0, time.Now())
		}
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return nil
		}
		all = append(all, records...)
		c.After = records[len(records)-1].Place
	}
}
