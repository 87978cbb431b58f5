package leased

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/lease"
	"github.com/sketchlimit/sketchlimit/sharing/synced"
)

const (
	// recordOps is how many steps a record has at most: some 8 KiB.
	recordOps = 500
	// partBytes is how long a part of a State gets.
	partBytes = 16 << 10
	// idleWait is how long a call waits at the server for something to read.
	idleWait = 2 * time.Second
	// snapshotBytes is the least that the log grows by between two snapshots.
	snapshotBytes = 64 << 10
	// chains is how many Chains are remembered.
	chains = 4096
)

// node reads the log and writes to it.
type node struct {
	limiter *Limiter
	engine  sharing.Engine
	log     string
	layout  uint64
	closed  atomic.Int64 // before this time nothing is claimed
	stop    context.CancelFunc
	kick    chan struct{} // there is something to write
	done    sync.WaitGroup

	mu       sync.Mutex // guards what follows; a stripe's lock is taken after it
	ledger   *lease.Ledger
	place    sharing.Place
	caught   bool             // the log was read to its end
	early    []sharing.Record // read before that
	chain    lease.Chain
	chains   []lease.Chain  // by Count
	returns  map[uint64]int // queued
	wrote    int64          // time of the latest record, by the limiter's clock
	swept    int64
	lost     bool     // the log has lost records
	bytes    int      // of the log since the latest snapshot
	snapshot snapshot // the latest that began
	size     int      // bytes of the latest own snapshot
	before   sharing.Place
	stats    Stats

	wants struct { // claims that are queued
		sync.Mutex
		ops     []lease.Op
		refused uint64 // claims that found no place
	}
}

// snapshot is a State as it is written to the log, in parts.
type snapshot struct {
	node  uint64
	chain lease.Chain
	place sharing.Place // as of which it is
	next  int           // part
	data  []byte
}

// add adds a part, and reports whether that was the last.
func (s *snapshot) add(m *lease.Message) bool {
	if m.Part == 0 {
		*s = snapshot{node: m.Record.Node, chain: m.Chain, place: sharing.Place{Major: m.Major, Minor: m.Minor}}
	}
	if s.node != m.Record.Node || s.chain != m.Chain || s.next != m.Part {
		*s = snapshot{}
		return false
	}
	s.next++
	s.data = append(s.data, m.Data...)
	return s.next == m.Parts
}

func newNode(l *Limiter, engine sharing.Engine, log string) (*node, error) {
	n := &node{limiter: l, engine: engine, log: log, layout: l.layout(), kick: make(chan struct{}, 1)}
	if err := n.begin(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*l.options.Timeout)
	defer cancel()
	err := n.readAll(ctx)
	if errors.Is(err, sharing.ErrLayout) {
		return nil, err
	}
	if err == nil {
		for again := true; again && ctx.Err() == nil && err == nil; { // the first makes the log
			again, err = n.write(ctx)
		}
		n.readAll(ctx)
	}
	ctx, n.stop = context.WithCancel(context.Background())
	n.done.Go(func() { n.readLoop(ctx) })
	n.done.Go(func() { n.writeLoop(ctx) })
	return n, nil
}

// begin forgets all, and takes part as another node.
func (n *node) begin() (err error) {
	n.limiter.until.Store(math.MinInt64)
	n.ledger, err = lease.NewLedger(n.limiter.rules, newID())
	n.place, n.caught, n.chain, n.returns, n.snapshot, n.lost = sharing.Place{}, false, lease.Chain{}, map[uint64]int{}, snapshot{}, false
	n.chains, n.early, n.wrote = make([]lease.Chain, chains), nil, math.MinInt64
	return err
}

// want queues a claim, unless as many are queued as keys may have been claimed: keys
// claim again as long as nobody answers. The caller has locked the key's stripe.
func (n *node) want(key uint64, units, limit int) bool {
	n.wants.Lock()
	queued := len(n.wants.ops) < n.limiter.rules.Entries
	if queued {
		n.wants.ops = append(n.wants.ops, lease.Op{Kind: lease.Claim, Key: key, N: units, Limit: limit})
	} else {
		n.wants.refused++
	}
	n.wants.Unlock()
	n.wake()
	return queued
}

func (n *node) wake() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// readAll reads the log to its end.
func (n *node) readAll(ctx context.Context) error {
	for {
		records, err := n.read(ctx, 0)
		if err != nil || len(records) == 0 {
			return err
		}
	}
}

// read reads what follows, and waits for it.
func (n *node) read(ctx context.Context, wait time.Duration) ([]sharing.Record, error) {
	n.mu.Lock()
	cursor := sharing.Cursor{Log: n.log, After: n.place}
	n.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, wait+n.limiter.options.Timeout)
	defer cancel()
	records, err := n.engine.Read(within, []sharing.Cursor{cursor}, wait)
	if err == nil {
		err = n.take(cursor.After, records)
	}
	if ctx.Err() == nil {
		n.report(err)
	}
	return records, err
}

func (n *node) report(err error) {
	n.limiter.guard.Done(err)
	n.limiter.away.Store(n.limiter.guard.State().Away)
}

func (n *node) readLoop(ctx context.Context) {
	for ctx.Err() == nil {
		n.mu.Lock()
		wait := idleWait
		if !n.caught {
			wait = 0
		}
		n.mu.Unlock()
		if _, err := n.read(ctx, wait); err != nil {
			rest(ctx, synced.ProbeEvery)
		}
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (n *node) writeLoop(ctx context.Context) {
	tick := time.NewTicker(max(10*time.Millisecond, min(time.Second, n.limiter.options.Lease/16)))
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-n.kick:
		case <-tick.C:
			n.sweep()
		}
		for ctx.Err() == nil {
			again, err := n.write(ctx)
			if err != nil {
				rest(ctx, synced.ProbeEvery)
			}
			if !again {
				break
			}
		}
	}
}

// changes is what records have changed.
type changes struct {
	keys map[uint64]struct{}
	all  bool
}

func (c *changes) add(key uint64, all bool) {
	c.all = c.all || all
	if c.keys == nil {
		c.keys = map[uint64]struct{}{}
	}
	c.keys[key] = struct{}{}
}

// take takes in records that follow a place, none at the log's end.
func (n *node) take(after sharing.Place, records []sharing.Record) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if after != n.place {
		return nil
	}
	for _, r := range records {
		n.place = r.Place
		n.stats.Records, n.stats.Received = n.stats.Records+1, n.stats.Received+uint64(len(r.Data))
	}
	var c changes
	switch {
	case n.caught:
		err = n.takeAll(records, &c)
	case len(records) > 0:
		n.early = append(n.early, records...)
		return nil
	default:
		n.caught = true
		early := n.early
		n.early = nil
		err = n.rebuild(early, &c)
		n.wake()
	}
	n.refresh(&c)
	return err
}

// rebuild takes in a log from its beginning: the latest State that it has, and what
// comes after the place of that.
func (n *node) rebuild(records []sharing.Record, c *changes) error {
	var s, latest snapshot
	for _, r := range records {
		if m, err := lease.Decode(r.Data); err == nil && m.Parts > 0 && m.Layout == n.layout && s.add(&m) {
			latest = s
		}
	}
	if latest.next > 0 && n.ledger.State().Load(latest.data) == nil {
		n.chain, n.snapshot, n.before = latest.chain, latest, latest.place
		for len(records) > 0 && records[0].Place.Compare(latest.place) <= 0 {
			records = records[1:]
		}
	}
	c.all = true
	return n.takeAll(records, c)
}

// takeAll takes in records.
func (n *node) takeAll(records []sharing.Record, c *changes) (foreign error) {
	for _, r := range records {
		n.bytes += len(r.Data)
		m, err := lease.Decode(r.Data)
		if err == nil && m.Layout != n.layout {
			foreign, err = sharing.ErrLayout, lease.ErrRecord
		}
		if err == nil && m.Parts > 0 {
			if m.Chain.Epoch == n.chain.Epoch && m.Chain.Count > n.chain.Count {
				n.stats.Restarts++ // the log was cut before all of it was read
				c.all = true
				return n.begin()
			}
			if n.snapshot.add(&m) {
				n.bytes, n.before = 0, n.cut(n.snapshot.place)
				n.snapshot.data = nil
			}
		}
		if err == nil {
			n.verify(&m)
		}
		n.chain.Add(r.Data, err == nil && m.Record.Reset)
		n.chains[n.chain.Count%chains] = n.chain
		if err == nil && m.Parts == 0 {
			n.ledger.Read(&m.Record, c.add)
			if m.Record.Reset {
				n.stats.Resets, n.lost = n.stats.Resets+1, false
				n.closed.Store(n.ledger.State().Closed())
			}
		}
	}
	return foreign
}

// cut lets the log be cut up to the place of the State before one of another place.
func (n *node) cut(place sharing.Place) sharing.Place {
	if before := n.before; before != (sharing.Place{}) && n.snapshot.node == n.ledger.Node() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), n.limiter.options.Timeout)
			defer cancel()
			n.engine.Trim(ctx, n.log, before) // or the log is longer until the next time
		}()
	}
	return place
}

// verify compares the Chain of a record's writer with what was read here.
func (n *node) verify(m *lease.Message) {
	here := n.chains[m.Chain.Count%chains]
	if !m.Record.Reset && here.Epoch == m.Chain.Epoch && here.Count == m.Chain.Count && here.Sum != m.Chain.Sum {
		n.lost = true
		n.wake()
	}
}

// refresh brings the stripes up to date with the ledger.
func (n *node) refresh(c *changes) {
	l := n.limiter
	until, share := n.ledger.Until(), int64(0)
	if _, ok, _ := n.ledger.State().Member(n.ledger.Node()); ok && n.ledger.Bound(0, l.now(), n.failsShare()) > 0 {
		share = int64(l.rules.Share())
	}
	n.closed.Store(n.ledger.State().Closed())
	l.until.Store(min(until, l.until.Load()))
	l.share.Store(min(share, l.share.Load()))
	if c.all {
		for key := range n.ledger.State().Keys {
			c.add(key, true)
		}
		for i := range l.stripes {
			s := &l.stripes[i]
			s.mu.Lock()
			for key := range s.keys {
				n.refreshKey(s, key)
			}
			s.mu.Unlock()
		}
	}
	for key := range c.keys {
		s := &l.stripes[key%stripes]
		s.mu.Lock()
		n.refreshKey(s, key)
		s.mu.Unlock()
	}
	l.share.Store(share)
	l.until.Store(until)
}

// failsShare reports whether a machine that does not know what a lost log granted holds
// its share.
func (n *node) failsShare() bool { return n.limiter.options.Failure == synced.FailShare }

// refreshKey brings a key up to date with the ledger, and answers calls of others. The
// caller has locked s.
func (n *node) refreshKey(s *stripe, key uint64) {
	l := n.limiter
	now := max(l.now(), l.floor.Load())
	k := n.ledger.State().Holding(n.ledger.Node(), key)
	h := s.keys[key]
	if h == nil {
		switch share := n.ledger.State().Share(n.ledger.Node()); {
		case k.Open && k.Units != share:
			h = l.holdAnyway(s, key, now)
		case k.Calls > 0 && k.Units > 0:
			h = l.hold(s, key, now)
		}
		if h == nil {
			return
		}
	}
	bound := n.ledger.Bound(key, now, n.failsShare())
	if r, ok := n.returns[key]; ok {
		bound = min(bound, r)
	}
	more := bound > h.bound || k.Free > h.free
	called := k.Calls > h.calls
	h.bound, h.limit, h.free, h.calls = bound, k.Limit, k.Free, k.Calls
	if !k.Open {
		h.free = l.config.Limit
	}
	if h.number > 0 && h.number <= n.ledger.Answered() {
		h.claim, h.number = 0, 0
		more = true
	}
	if called {
		expects := h.used != math.MinInt64 && h.used > h.called
		h.called, h.calling = now, l.timer()
		if h.changed == nil { // or else the machine lacks units itself
			n.giveBack(h, key, now, expects)
		}
	}
	if more && h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// giveBack lowers what is held of a key to the units that count, and half of the others
// if the machine expects to need them.
func (n *node) giveBack(h *held, key uint64, now int64, expects bool) {
	used := h.count.used(&n.limiter.windows, now)
	keep := used
	if expects && h.bound > used {
		keep += (h.bound - used) / 2
	}
	if keep >= h.bound {
		return
	}
	h.bound = keep
	n.returns[key] = keep
	n.wake()
}

// write appends what is queued, and reports whether there is more.
func (n *node) write(ctx context.Context) (again bool, err error) {
	l := n.limiter
	n.mu.Lock()
	if !n.caught {
		n.mu.Unlock()
		return false, nil
	}
	var ops []lease.Op
	for key, units := range n.returns {
		if len(ops) == recordOps {
			break
		}
		ops = append(ops, lease.Op{Kind: lease.Return, Key: key, N: units})
		delete(n.returns, key)
	}
	n.wants.Lock()
	claims := min(recordOps-len(ops), len(n.wants.ops))
	ops = append(ops, n.wants.ops[:claims]...)
	n.wants.ops = append(n.wants.ops[:0], n.wants.ops[claims:]...)
	again = len(n.wants.ops) > 0 || len(n.returns) > 0
	n.wants.Unlock()
	now := l.now()
	if len(ops) == 0 && !n.lost && n.wrote != math.MinInt64 && now < n.wrote+int64(l.options.Lease)/3 && n.wrote <= now {
		n.mu.Unlock()
		return false, nil
	}
	now = max(now, n.wrote)
	r := n.ledger.Write(now, ops)
	r.Reset, n.lost = n.lost, false
	raise(&l.floor, r.Time)
	for _, op := range ops {
		if op.Kind != lease.Claim {
			continue
		}
		s := &l.stripes[op.Key%stripes]
		s.mu.Lock()
		if h := s.keys[op.Key]; h != nil {
			h.number = r.Number
		}
		s.mu.Unlock()
	}
	n.wrote = r.Time
	data := (&lease.Message{Layout: n.layout, Chain: n.chain, Record: *r}).Append(nil)
	node := n.ledger.Node()
	n.mu.Unlock()
	err = n.append(ctx, node, r.Number, data, r.Reset)
	if errors.Is(err, sharing.ErrNoLog) {
		n.mu.Lock()
		n.lost, n.wrote = true, math.MinInt64
		again = n.ledger.Node() == node
		n.mu.Unlock()
		if r.Reset {
			return again, err
		}
		return again, nil
	}
	n.report(err)
	if err != nil {
		n.mu.Lock()
		n.wrote = math.MinInt64 // it may not be there: the next renews the lease
		n.lost = n.lost || r.Reset
		n.mu.Unlock()
		return false, err
	}
	return again, n.writeState(ctx)
}

// append appends one record.
func (n *node) append(ctx context.Context, node, number uint64, data []byte, begin bool) error {
	l := n.limiter
	within, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	keep := 2*l.options.Lease + time.Duration(2*l.windows.settle()) + time.Minute
	n.mu.Lock()
	n.stats.Sent += uint64(len(data))
	n.mu.Unlock()
	return n.engine.Append(within, []sharing.Entry{{Log: n.log, ID: entryID(node, number), Data: data, Keep: keep, Begin: begin}})[0].Err
}

// writeState appends the State in parts, when the log has grown long, if this node is
// the one to do so.
func (n *node) writeState(ctx context.Context) error {
	n.mu.Lock()
	if n.bytes < max(snapshotBytes, 4*n.size) || !n.ledger.State().First(n.ledger.Node(), n.limiter.now()) {
		n.mu.Unlock()
		return nil
	}
	state := n.ledger.State().Append(nil)
	n.size, n.bytes = len(state), 0
	m := lease.Message{Layout: n.layout, Chain: n.chain, Parts: (len(state) + partBytes - 1) / partBytes, Major: n.place.Major, Minor: n.place.Minor}
	m.Record.Node = n.ledger.Node()
	count := n.chain.Count
	n.mu.Unlock()
	for ; m.Part < m.Parts; m.Part++ {
		m.Data = state[m.Part*partBytes : min(len(state), (m.Part+1)*partBytes)]
		if err := n.append(ctx, m.Record.Node^count, uint64(m.Part)+1, m.Append(nil), false); err != nil {
			return nil // another time
		}
	}
	return nil
}

// sweep lets go of keys that are not used any more.
func (n *node) sweep() {
	l := n.limiter
	n.mu.Lock()
	defer n.mu.Unlock()
	now := max(l.now(), l.floor.Load())
	idle := 2 * l.windows.settle()
	if n.swept > now-idle/8 && n.swept <= now || !n.caught {
		return
	}
	if closed := n.closed.Load(); n.swept < closed && closed <= now {
		n.refresh(&changes{all: true})
	}
	n.swept = now
	first := n.ledger.State().First(n.ledger.Node(), now)
	for i := range l.stripes {
		s := &l.stripes[i]
		s.mu.Lock()
		for key, h := range s.keys {
			if h.used > now-idle || h.changed != nil || h.claim != 0 && l.timer() < h.claim+int64(l.options.Timeout) {
				continue
			}
			k := n.ledger.State().Holding(n.ledger.Node(), key)
			switch used := h.count.used(&l.windows, now); {
			case !k.Open && used == 0 && now >= n.closed.Load() && n.ledger.Bound(key, now, true) == n.ledger.State().Share(n.ledger.Node()):
				delete(s.keys, key)
				l.held.Add(-1)
			case k.Units > int(l.share.Load()):
				h.bound = max(used, min(h.bound, int(l.share.Load())))
				n.returns[key] = h.bound
			}
		}
		s.mu.Unlock()
	}
	if first {
		for key := range n.ledger.State().Keys {
			if n.ledger.State().Holding(n.ledger.Node(), key).Idle {
				n.wants.Lock()
				n.wants.ops = append(n.wants.ops, lease.Op{Kind: lease.Forget, Key: key})
				n.wants.Unlock()
			}
		}
	}
	n.wake()
}

func (n *node) statistics() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, now := n.stats, n.limiter.now()
	s.Members, s.Member = n.ledger.State().Members(now), n.ledger.Until() >= now
	s.Entries, s.Refused = n.ledger.State().Open(), n.ledger.State().Refused
	n.wants.Lock()
	s.Refused += n.wants.refused
	n.wants.Unlock()
	return s
}

func (n *node) memoryBytes() int {
	return n.ledger.State().MemoryBytes() + chains*24 + n.limiter.rules.Entries*int(unsafe.Sizeof(lease.Op{}))
}

func (n *node) leave() {
	n.stop()
	n.done.Wait()
	n.limiter.until.Store(math.MinInt64)
}

func (n *node) close() error {
	n.leave()
	for i := range n.limiter.stripes { // decisions that have begun end before
		s := &n.limiter.stripes[i]
		s.mu.Lock()
		s.mu.Unlock() //lint:ignore SA2001 it waits
	}
	n.mu.Lock()
	r := n.ledger.Write(max(n.limiter.now(), n.limiter.floor.Load()), nil)
	r.Leave, r.Until = true, r.Time
	m := lease.Message{Layout: n.layout, Chain: n.chain, Record: *r}
	n.mu.Unlock()
	return n.append(context.Background(), r.Node, r.Number, m.Append(nil), false)
}

func entryID(node, number uint64) string {
	return fmt.Sprintf("%016x-%d", node, number)
}
