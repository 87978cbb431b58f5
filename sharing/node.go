package sharing

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	crand "crypto/rand"

	"github.com/cespare/xxhash/v2"
)

// Node is a [Share]'s part in a log. At every interval it appends which of its own
// cells have risen, and it adds to the others' cells what it reads. It is made by
// [Hub.Join].
//
// Each message counts once, however often it comes: messages are numbered, and a node
// knows which it has seen of each other one. So a node repeats what may have been lost.
// It keeps its latest news for that; if the log has lost more, it restates all that it
// has told. A log that grows is cut: the node whose news makes it too long appends the
// cells of all nodes, and removes what these contain.
type Node struct {
	hub    *Hub
	share  *Share
	lanes  lanes
	config Config
	id     uint64
	layout uint64
	keep   time.Duration

	sending sync.Mutex // held while messages of the node are appended, or it joins

	mu        sync.Mutex // guards what follows
	next      time.Time  // when cells are looked at
	joined    bool       // the log has been read from its beginning
	covered   bool       // the hub's latest reading includes the node
	suspect   bool       // the server may have lost what it had
	begun     bool       // a begin was read
	place     Place      // up to which the log was read
	lost      Place      // what was appended before is lost
	trimmed   Place      // up to which its cells were summed up
	marks     [2]mark    // places read up to a while ago, the older first
	number    uint64     // of the latest own message
	published map[int64][]uint64
	others    map[int64]*external
	peers     map[uint64]*peer
	kept      []*own // news that may have to be repeated, in order
	queue     []*own // what is to be appended, in order
	refused   bool   // the engine did not take it the last time
	latest    *own   // the latest that was appended
	spoke     time.Time
	verifying *verification
	grown     int   // bytes of the log since its cells were summed up
	sumUp     bool  // the log is too long, and this node is to cut it
	cut       Place // up to which, once cutAfter is appended
	cutAfter  *own
	looked    time.Time // when cells were last looked at
	untold    time.Time // since when units may not have been appended; zero: all are
	heard     time.Time // up to when the log was last read
	deaf      time.Time // since when it may not have been read; zero: it is
	whole     time.Time // when the log was found to have what it should
	telling   longest   // that units took to be appended
	hearing   longest   // that records lay in the log before they were read
	stats     Stats
}

// external is the cells of all other nodes in a generation.
type external struct {
	cells []uint64
	shown bool // the share has them
}

// peer is what is known of a node, also of this one.
type peer struct {
	seen  seen
	first uint64 // that was seen
	whole bool   // nothing that counts is missing of those before the first
	gone  bool
	at    time.Time // of the latest message
}

// missing reports whether a message up to a number may not have been seen. Those before
// the first that was seen do not count any more, unless the node is not whole.
func (p *peer) missing(upTo uint64) bool {
	if !p.whole || p.seen.max < upTo {
		return true
	}
	for i := max(1, p.first, upTo-min(upTo, seenBits-1)); i <= upTo; i++ {
		if !p.seen.has(i) {
			return true
		}
	}
	return false
}

// own is a message of this node.
type own struct {
	message
	data  []byte
	place Place     // zero: it has not been appended yet
	since time.Time // of news: after which its units were admitted
	at    time.Time // when it was appended
}

type mark struct {
	at    time.Time
	place Place
}

// verification is a second reading of what the log should have.
type verification struct {
	full   bool // all that is kept, not only the latest
	asked  bool // a reading has begun since
	after  Place
	latest *own
	saw    map[uint64]bool // numbers of own messages
}

const (
	// recordBytes is how long a message gets.
	recordBytes = 8 << 10
	// keptBytes and keptCount bound the news that are kept though they were appended.
	// They are more than a failover loses, or a log that is written to disk once a
	// second.
	keptBytes = 64 << 10
	keptCount = 64
	// markEvery is how much time lies between marks; verifyEvery between looks whether
	// the log has the latest message.
	markEvery   = 10 * time.Second
	verifyEvery = 10 * time.Second
	minKeep     = time.Minute
	// manyRecords may be followed by more that are there already.
	manyRecords = 64
)

// ErrLayout is returned to a node that would misread the others' cells.
var ErrLayout = errors.New("the nodes' limiters differ; they must have the same Config and Seed, or another Prefix. " +
	"If the server has lost the seed, nodes that have drawn a new one must start again")

// Config says how a [Node] takes part.
type Config struct {
	Log      string        // name of the log that the nodes of one limit share
	Interval time.Duration // between exchanges
	Timeout  time.Duration // that the engine may take
	Window   time.Duration // of the limit
	LogBytes int           // that the log grows by before it is cut; 0: twice the cells, at least 64 KiB
	// Report is called with the result of each exchange. While the engine refuses what
	// the node has to tell, readings that succeed are left out. It must not block, nor
	// exchange.
	Report func(error)
}

// Stats is a picture of a [Node].
type Stats struct {
	Exchanges uint64    // that succeeded: calls of the engine
	Failures  uint64    // that did not
	Latest    time.Time // of the last that succeeded
	// SentBytes and ReceivedBytes are all records that were appended and read.
	SentBytes, ReceivedBytes uint64
	// Lost is how often the log had lost what it was told, and was told again.
	Lost uint64
	// RoundTrip is how long it lately took at most to append news. A longest one fades
	// to half in 45 exchanges.
	RoundTrip time.Duration
	// Delay is how long it took at most until a unit was known elsewhere, in this window
	// and the one before: until those admitted here were appended, plus until what was
	// appended was read here. Failures, losses and pauses of this process are part of it.
	// Those of other nodes are part of their Delay.
	Delay time.Duration
	// Nodes is how many take part, this one included.
	Nodes int
	// Met is how many took part in this window or the one before, those that have ended
	// included. With short windows it looks back for a minute.
	Met int
}

func newNode(h *Hub, share *Share, c Config) *Node {
	var id [8]byte
	crand.Read(id[:]) // never fails
	n := &Node{hub: h, share: share, lanes: lanes{share.CellBits()}, config: c, id: binary.BigEndian.Uint64(id[:]),
		layout: xxhash.Sum64String(share.Layout()), keep: max(2*c.Window, minKeep), published: map[int64][]uint64{}}
	n.reset()
	return n
}

// reset forgets what was read.
func (n *Node) reset() {
	n.place, n.trimmed, n.marks, n.begun, n.grown, n.verifying = Place{}, Place{}, [2]mark{}, false, 0, nil
	n.others, n.peers = map[int64]*external{}, map[uint64]*peer{}
	n.peers[n.id] = &peer{whole: true}
}

// words returns those of one generation.
func (n *Node) words() int { return n.share.Parts() * n.share.PartWords() }

// generations returns the oldest and the latest generation that count, and forgets
// those before.
func (n *Node) generations() (oldest, latest int64) {
	latest, kept := n.share.Generations()
	oldest = latest - int64(kept) + 1
	maps.DeleteFunc(n.published, func(g int64, _ []uint64) bool { return g < oldest })
	maps.DeleteFunc(n.others, func(g int64, _ *external) bool { return g < oldest })
	gone := func(o *own) bool { return o.hasCells() && o.generation < oldest }
	n.kept = slices.DeleteFunc(n.kept, gone)
	n.queue = slices.DeleteFunc(n.queue, gone)
	return oldest, latest
}

// collect makes news of the cells that have risen. While something is still to be
// appended it makes none, and returns false.
func (n *Node) collect(now time.Time) bool {
	oldest, latest := n.generations()
	looked := len(n.queue) == 0
	if looked {
		since := n.looked
		if n.looked = now; since.IsZero() {
			since = now
		}
		scratch := make([]uint64, n.share.PartWords())
		for g := oldest; g <= latest; g++ {
			published, p := n.published[g], newPacker(n.lanes, recordBytes)
			if published == nil {
				published = make([]uint64, n.words())
				n.published[g] = published
			}
			for part := range n.share.Parts() {
				if !n.share.Own(part, g, scratch) {
					break
				}
				first := part * len(scratch)
				p.risen(first, published[first:][:len(scratch)], scratch)
				copy(published[first:], scratch)
			}
			for _, cells := range p.records() {
				o := n.say(message{kind: news, generation: g, body: cells})
				o.since = since
				n.notTold(since)
				n.keepNews(o)
			}
		}
	}
	if len(n.queue) == 0 && now.Sub(n.spoke) > n.keep/2 {
		n.say(message{kind: hello})
	}
	return looked
}

func (n *Node) keepNews(o *own) {
	n.kept = append(n.kept, o)
	bytes := 0
	for i, o := range slices.Backward(n.kept) {
		bytes += len(o.body)
		if (bytes > keptBytes || len(n.kept)-i > keptCount) && n.peers[n.id].seen.has(o.number) {
			n.kept = slices.Delete(n.kept, 0, i+1)
			return
		}
	}
}

// say numbers a message and queues it.
func (n *Node) say(m message) *own {
	n.number++
	m.layout, m.node, m.number = n.layout, n.id, n.number
	o := &own{message: m, data: m.encode()}
	n.queue = append(n.queue, o)
	return o
}

// entry returns what is appended of a message.
func (n *Node) entry(o *own) Entry {
	return Entry{Log: n.config.Log, ID: fmt.Sprintf("%016x-%d", n.id, o.number), Data: o.data, Keep: n.keep, Begin: o.kind == begin}
}

// position is up to where a node had read the log, and before which it knew that all was
// lost.
type position struct{ read, lost Place }

// accept takes in how the first messages of the queue were appended, from a position on.
// It returns the first error.
func (n *Node) accept(batch []*own, results []Result, before position, now time.Time) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	done := map[*own]bool{}
	noLog := false
	for i, o := range batch {
		r := results[i]
		switch {
		case errors.Is(r.Err, ErrNoLog) && o.kind != begin:
			noLog = true
		case r.Err != nil:
			n.suspect = true
			err = cmp.Or(err, r.Err)
		case o.kind != begin && n.lost != before.lost && r.Place.Compare(n.lost) < 0:
			// The log was lost since. If that was known before, the engine has dropped
			// what it has: another node has begun a log that was not lost.
		default:
			if o.kind == begin {
				n.lost = r.Place
			}
			switch { // what comes again may have been read long ago
			case n.untold.IsZero():
				o.since = now
			case o.since.Before(n.untold):
				o.since = n.untold
			}
			done[o], o.place, o.at, n.latest, n.spoke = true, r.Place, now, o, now
			n.stats.SentBytes += uint64(len(o.data))
			n.suspect = n.suspect || r.Place.Compare(before.read) <= 0
		}
	}
	n.refused = err != nil
	n.queue = slices.DeleteFunc(n.queue, func(o *own) bool { return done[o] })
	if len(n.queue) == 0 && !n.untold.IsZero() {
		n.telling.add(now.Sub(n.untold), now, n.config.Window)
		n.untold = time.Time{}
	}
	if noLog && !slices.ContainsFunc(n.queue, func(o *own) bool { return o.kind == begin }) {
		n.again(nil)
		n.say(message{kind: begin})
		n.queue = slices.Insert(n.queue[:len(n.queue)-1], 0, n.queue[len(n.queue)-1])
		n.place, n.trimmed, n.begun = Place{}, Place{}, true
	}
	return err
}

// again queues all that was told, because the log has lost it; what was appended at a
// place and after it is still there.
func (n *Node) again(lostBefore *Place) {
	n.generations()
	n.stats.Lost++
	n.queue = slices.DeleteFunc(n.queue, func(o *own) bool { return o.kind == restated || o.kind == known || o.kind == news })
	n.cutAfter = nil
	covers := n.number
	if len(n.kept) > 0 {
		covers = n.kept[0].number - 1
	}
	var fragments []message // of what is not kept
	for _, g := range slices.Sorted(maps.Keys(n.published)) {
		p := newPacker(n.lanes, recordBytes)
		p.risen(0, make([]uint64, n.words()), n.publishedWithout(g, func(*own) bool { return true }))
		for _, cells := range p.records() {
			fragments = append(fragments, message{kind: restated, generation: g, covers: covers, body: cells})
		}
	}
	if covers > 0 {
		for i, m := range fragments {
			m.fragment, m.of = uint64(i), uint64(len(fragments))
			n.say(m)
		}
	}
	var lost []*own
	whole := n.whole // with the latest of what is lost
	for _, o := range n.kept {
		if lostBefore == nil || o.place == (Place{}) || o.place.Compare(*lostBefore) < 0 {
			o.place = Place{}
			lost = append(lost, o)
			if o.at.After(whole) {
				whole = o.at
			}
		}
	}
	n.unread(lost, whole)
	n.queue = append(n.queue, lost...)
}

// unread notes that others may not have read news which were lost after a time at which
// the log was whole: what was there an interval before that they have.
func (n *Node) unread(lost []*own, whole time.Time) {
	for _, o := range lost {
		if o.at.After(whole.Add(-n.config.Interval)) {
			n.notTold(o.since)
		}
	}
}

// publishedWithout returns the cells that were told in a generation, without those of
// kept news.
func (n *Node) publishedWithout(g int64, without func(*own) bool) []uint64 {
	cells := slices.Clone(n.published[g])
	for _, o := range n.kept {
		if o.generation == g && without(o) {
			n.subtract(cells, o.body)
		}
	}
	return cells
}

func (n *Node) subtract(cells []uint64, record []byte) {
	for ch, err := range risen(record, len(cells)*n.lanes.perWord()) {
		if err == nil {
			n.lanes.sub(cells, ch.cell, uint64(ch.n))
		}
	}
}

// notTold notes that units admitted after a time may not have been appended.
func (n *Node) notTold(since time.Time) {
	if n.untold.IsZero() || since.Before(n.untold) {
		n.untold = since
	}
}

// reading is when an answer was asked for and came, and how long it might wait for news.
type reading struct {
	start, end time.Time
	wait       time.Duration
}

// hear notes that the log was read. Records came at once, or else they were not there
// yet when the reading began.
func (n *Node) hear(r reading) {
	since := n.heard
	if !n.deaf.IsZero() {
		since = n.deaf
	}
	if !since.IsZero() {
		d := max(0, r.start.Sub(since)) + max(0, r.end.Sub(r.start)-r.wait)
		n.hearing.add(d, r.end, n.config.Window)
	}
	n.heard, n.deaf = r.end, time.Time{}
}

// missedReading notes that the log could not be read.
func (n *Node) missedReading() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.deaf.IsZero() {
		n.deaf = n.heard
	}
}

// delay returns Stats.Delay.
func (n *Node) delay(now time.Time) time.Duration {
	toAppend, toRead := n.telling.get(now, n.config.Window), n.hearing.get(now, n.config.Window)
	if !n.untold.IsZero() {
		toAppend = max(toAppend, now.Sub(n.untold))
	}
	if !n.deaf.IsZero() {
		toRead = max(toRead, now.Sub(n.deaf))
	}
	return toAppend + toRead
}

// longest is the longest duration of this window and of the one before.
type longest struct {
	window         int64
	latest, before time.Duration
}

func (l *longest) get(now time.Time, window time.Duration) time.Duration {
	switch w := now.UnixNano() / int64(window); w {
	case l.window:
		return max(l.latest, l.before)
	case l.window + 1:
		return l.latest
	}
	return 0
}

func (l *longest) add(d time.Duration, now time.Time, window time.Duration) {
	switch w := now.UnixNano() / int64(window); w {
	case l.window:
		l.latest = max(l.latest, d)
	case l.window + 1:
		*l = longest{w, d, l.latest}
	default:
		*l = longest{window: w, latest: d}
	}
}

// read takes in what follows a place in the log, nothing at its end.
func (n *Node) read(after Place, records []Record, r reading) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if after.Compare(n.place) > 0 {
		return nil // the node reads again what is before
	}
	now, before := r.end, n.heard
	if len(records) < manyRecords {
		n.hear(r)
	}
	for _, r := range records {
		if !n.joined || r.Place.Compare(n.place) <= 0 {
			continue
		}
		n.stats.ReceivedBytes += uint64(len(r.Data))
		n.place = r.Place
		err = cmp.Or(err, n.take(r, now))
	}
	if !n.joined {
		n.deaf = before
		return err
	}
	if v := n.verifying; len(records) == 0 || v != nil && n.place.Compare(v.latest.place) >= 0 {
		n.verified(now)
	}
	if now.Sub(n.marks[1].at) > markEvery {
		n.marks[0], n.marks[1] = n.marks[1], mark{now, n.place}
	}
	n.show()
	if n.sumUp {
		n.sumUp = false
		n.addUp(now)
	}
	return err
}

// take takes in one record.
func (n *Node) take(r Record, now time.Time) error {
	m, err := decode(r.Data)
	if err != nil {
		return err
	}
	if m.layout != n.layout {
		return ErrLayout
	}
	p := n.peers[m.node]
	if p == nil {
		p = &peer{first: m.number, whole: m.number == 1 || !n.begun && m.kind != begin}
		n.peers[m.node] = p
	}
	p.at, p.gone = now, m.kind == bye
	if n.verifying != nil && m.node == n.id {
		n.verifying.saw[m.number] = true
	}
	if p.seen.has(m.number) {
		return nil
	}
	if m.node != n.id && m.number > p.first && m.number >= p.seen.max+seenBits {
		n.joined = n.joined && p.seen.max == 0 // or else the log was cut before all of it was read
	}
	p.seen.add(m.number)
	if m.node == n.id {
		n.suspect = n.suspect || n.skipped(m.number, r.Place)
	}
	switch m.kind {
	case begin:
		n.begun = true
		if m.node != n.id && n.joined {
			n.again(&r.Place)
			n.lost = r.Place
			if len(n.queue) == 0 {
				n.say(message{kind: hello})
			}
		}
	case news:
		n.grow(len(r.Data), m.node)
		if m.node != n.id {
			return n.add(m)
		}
	case restated:
		n.grow(len(r.Data), m.node)
		if m.node != n.id && p.missing(m.covers) {
			p.whole = false
			p.seen.upTo(m.covers)
			p.whole = m.fragment == m.of-1
			return n.add(m)
		}
	case known:
		if m.fragment == m.of-1 {
			n.grown = 0
			if m.place.Compare(n.trimmed) > 0 {
				n.trimmed = m.place
			}
		}
		if m.fragment == 0 {
			n.summed(m)
			if m.node != n.id && n.missed(m.body) {
				n.joined = false
			}
		}
	}
	return nil
}

// skipped reports whether the log has lost news that were appended before an own message
// which it has.
func (n *Node) skipped(number uint64, place Place) bool {
	seen := &n.peers[n.id].seen
	return slices.ContainsFunc(n.kept, func(o *own) bool {
		return o.number < number && o.place.Compare(n.trimmed) > 0 && o.place.Compare(place) < 0 && !seen.has(o.number)
	})
}

// grow notes that the log has grown by the news of a node.
func (n *Node) grow(bytes int, node uint64) {
	longest := cmp.Or(n.config.LogBytes, max(64<<10, 2*8*n.words()))
	before := n.grown / longest
	n.grown += bytes
	n.sumUp = n.sumUp || n.grown/longest > before && node == n.id
}

// summed queues news that the log had lost before a node summed it up: the sum does not
// contain them.
func (n *Node) summed(m message) {
	contains := seenOf(m.body)[n.id]
	n.tellAgain(func(o *own) bool {
		return o.place != (Place{}) && o.place.Compare(m.place) <= 0 && !contains.has(o.number)
	})
}

// tellAgain queues the kept news that are lost, and reports whether there are some.
func (n *Node) tellAgain(lost func(*own) bool) bool {
	var again []*own
	for _, o := range n.kept {
		if lost(o) {
			o.place = Place{}
			again = append(again, o)
		}
	}
	if len(again) > 0 {
		n.unread(again, n.whole)
		n.queue = append(n.queue, again...)
		n.stats.Lost++
	}
	return len(again) > 0
}

// missed reports whether the log was cut before this node had read all of it, by what
// another one has seen.
func (n *Node) missed(body []byte) bool {
	for id, s := range seenOf(body) {
		p := n.peers[id]
		if id == n.id {
			p.seen.union(&s) // of what was cut before it was read here
			continue
		}
		if p == nil || p.seen.max < s.max {
			return true
		}
		for i := max(1, p.first, s.max-min(s.max, seenBits-1)); i <= s.max; i++ {
			if s.has(i) && !p.seen.has(i) {
				return true
			}
		}
	}
	return false
}

func seenOf(body []byte) map[uint64]seen {
	r, all := reader{data: body}, map[uint64]seen{}
	for len(r.data) > 0 {
		id := r.uint64()
		s := r.seen()
		if r.bad {
			return nil
		}
		all[id] = s
	}
	return all
}

// addUp appends the cells of all nodes, and what was seen of these, as of the place up
// to which the log was read.
func (n *Node) addUp(now time.Time) {
	if n.cutAfter != nil {
		return // that goes on
	}
	oldest, _ := n.generations()
	maps.DeleteFunc(n.peers, func(id uint64, p *peer) bool { return id != n.id && now.Sub(p.at) > n.keep })
	var all []byte
	for id, p := range n.peers {
		all = p.seen.append(binary.BigEndian.AppendUint64(all, id))
	}
	fragments := []message{{kind: known, place: n.place, body: all}}
	mine := &n.peers[n.id].seen
	last := oldest - 1
	for g := range n.others {
		last = max(last, g)
	}
	for g := range n.published {
		last = max(last, g)
	}
	for g := oldest; g <= last; g++ {
		cells := make([]uint64, n.words())
		if n.published[g] != nil {
			cells = n.publishedWithout(g, func(o *own) bool { return !mine.has(o.number) })
		}
		if e := n.others[g]; e != nil {
			n.lanes.sum(cells, e.cells)
		}
		p := newPacker(n.lanes, recordBytes)
		p.risen(0, make([]uint64, n.words()), cells)
		for _, cells := range p.records() {
			fragments = append(fragments, message{kind: known, place: n.place, generation: g, body: cells})
		}
	}
	for i, m := range fragments {
		m.fragment, m.of = uint64(i), uint64(len(fragments))
		n.cutAfter = n.say(m)
	}
	n.cut = n.place
}

// add adds the cells of a message to those of the others.
func (n *Node) add(m message) error {
	latest, kept := n.share.Generations()
	if m.generation <= latest-int64(kept) || m.generation > latest+int64(kept) {
		return nil
	}
	e := n.others[m.generation]
	if e == nil {
		e = &external{cells: make([]uint64, n.words()), shown: n.joined && m.generation <= latest}
		n.others[m.generation] = e
	}
	changes := make([]change, 0, 64)
	part, cells := 0, n.share.PartWords()*n.lanes.perWord()
	flush := func() {
		if e.shown && len(changes) > 0 {
			n.share.AddOthers(part, m.generation, func(yield func(int, uint32) bool) {
				for _, ch := range changes {
					if !yield(ch.cell-part*cells, ch.n) {
						return
					}
				}
			})
		}
		changes = changes[:0]
	}
	for ch, err := range risen(m.body, len(e.cells)*n.lanes.perWord()) {
		if err != nil {
			return err
		}
		n.lanes.add(e.cells, ch.cell, uint64(ch.n))
		if ch.cell/cells != part {
			flush()
			part = ch.cell / cells
		}
		changes = append(changes, ch)
	}
	flush()
	return nil
}

// show gives the share the others' cells of generations that have begun here since they
// were read.
func (n *Node) show() {
	oldest, latest := n.generations()
	words := n.share.PartWords()
	for g, e := range n.others {
		if e.shown || g < oldest || g > latest {
			continue
		}
		e.shown = true
		for part := range n.share.Parts() {
			n.share.SetOthers(part, g, e.cells[part*words:][:words])
		}
	}
}

// sum is what messages that sum up the same have in common: the node, and the number of
// the first.
type sum struct{ node, first uint64 }

// rebuild takes in the whole log, of a node that joins, or that has missed a part of it.
func (n *Node) rebuild(records []Record, r reading) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := r.end
	messages := make([]message, len(records))
	found := map[sum]int{}
	var base sum
	var upTo Place
	for i, r := range records {
		m, err := decode(r.Data)
		if err != nil {
			continue // take returns it
		}
		if m.layout != n.layout && n.number == 0 {
			return ErrLayout
		}
		messages[i] = m
		if s := (sum{m.node, m.number - m.fragment}); m.kind == known {
			if found[s]++; found[s] == int(m.of) && m.place.Compare(upTo) >= 0 {
				base, upTo = s, m.place
			}
		}
	}
	others, peers := n.others, n.peers
	n.reset()
	n.takeAll(messages, records, base, true, now)
	if !n.seesAll(peers) {
		// The log has lost what was read before. That stays, and what comes in sums
		// counts twice rather than never.
		n.reset()
		n.others, n.peers = others, peers
		n.takeAll(messages, records, base, false, now)
	}
	n.joined = true
	n.hear(r)
	n.show()
	if n.number == 0 {
		first := message{kind: hello}
		if len(records) == 0 {
			first.kind, n.begun = begin, true
		}
		n.say(first)
	} else {
		n.suspect = true // nobody knows for how long this node was away
	}
	return nil
}

// takeAll takes in the messages of a log, beginning with those that sum up its beginning.
// Unless forget is set, what this node had told then counts twice, too.
func (n *Node) takeAll(messages []message, records []Record, base sum, forget bool, now time.Time) {
	for _, m := range messages {
		if m.kind != known || base != (sum{m.node, m.number - m.fragment}) {
			continue
		}
		n.trimmed = m.place
		if m.fragment > 0 {
			n.add(m)
			continue
		}
		n.summed(m)
		for id, s := range seenOf(m.body) {
			p := n.peers[id]
			if p == nil {
				p = &peer{whole: true}
				n.peers[id] = p
			}
			p.seen.union(&s)
			p.at = now
		}
	}
	if forget {
		n.forgetOwn(messages, records)
	}
	for i, r := range records {
		if n.place = r.Place; r.Place.Compare(n.trimmed) > 0 || messages[i].kind == known {
			n.take(r, now)
			n.stats.ReceivedBytes += uint64(len(r.Data))
		}
	}
	for _, e := range n.others {
		e.shown = false
	}
}

// seesAll reports whether the node has seen all that was seen before.
func (n *Node) seesAll(before map[uint64]*peer) bool {
	for id, p := range before {
		now := n.peers[id]
		if id == n.id || now != nil && now.seen.max >= p.seen.max && !p.seen.beyond(&now.seen) {
			continue
		}
		return false
	}
	return true
}

// forgetOwn subtracts from the cells of all nodes what this one had told then.
func (n *Node) forgetOwn(messages []message, records []Record) {
	mine, kept := n.peers[n.id], map[uint64]bool{}
	if mine == nil { // it had told nothing
		n.peers[n.id] = &peer{whole: true}
		return
	}
	for _, o := range n.kept {
		kept[o.number] = true
	}
	for g, e := range n.others {
		if n.published[g] == nil {
			continue
		}
		then := n.publishedWithout(g, func(o *own) bool { return !mine.seen.has(o.number) })
		for i, m := range messages {
			if m.kind == news && m.node == n.id && m.generation == g && records[i].Place.Compare(n.trimmed) > 0 &&
				!mine.seen.has(m.number) && !kept[m.number] {
				n.subtract(then, m.body)
				kept[m.number] = true
			}
		}
		n.lanes.less(e.cells, then)
	}
}

// cursor returns where reading goes on.
func (n *Node) cursor() Cursor {
	if n.verifying != nil {
		n.verifying.asked = true
	}
	return Cursor{n.config.Log, n.place}
}

// cutNow returns up to where the log can be cut now, because what sums it up was
// appended.
func (n *Node) cutNow() (Place, bool) {
	if n.cutAfter == nil || n.cutAfter.place == (Place{}) {
		return Place{}, false
	}
	n.cutAfter = nil
	return n.cut, true
}

// verify makes the node read again what the log should have: all that is kept, or only
// its latest message.
func (n *Node) verify(full bool) {
	if !n.joined || n.latest == nil || n.verifying != nil && (n.verifying.full || !full) {
		return
	}
	v := &verification{full: full, latest: n.latest, saw: map[uint64]bool{}}
	v.after = n.latest.place.before()
	if full {
		n.suspect = false
		if m := n.marks[0].place; m != (Place{}) && m.Compare(v.after) < 0 {
			v.after = m
		}
		for _, o := range n.kept {
			if o.place != (Place{}) && o.place.Compare(n.trimmed) > 0 && o.place.Compare(v.after) <= 0 {
				v.after = o.place.before()
			}
		}
	}
	n.verifying = v
	if v.after.Compare(n.place) < 0 {
		n.place = v.after
	}
}

// verified ends a verification: the log has been read up to the latest message, or to its
// end.
func (n *Node) verified(now time.Time) {
	v := n.verifying
	if v == nil || !v.asked {
		return
	}
	n.verifying = nil
	lost := func(o *own) bool {
		return !v.saw[o.number] && o.place.Compare(v.after) > 0 && o.place.Compare(v.latest.place) <= 0 && o.place.Compare(n.trimmed) > 0
	}
	switch {
	case !v.full:
		if lost(v.latest) {
			n.suspect = true
		} else {
			n.whole = now
		}
	case len(n.kept) > 0 && lost(n.kept[0]):
		n.again(&Place{}) // nothing is known of what was told before
		fallthrough
	default:
		found := n.tellAgain(lost)
		n.whole = now
		if !found && lost(v.latest) {
			n.say(message{kind: hello})
		}
	}
}

// seenNodes returns how many nodes take part, and how many have recently.
func (n *Node) seenNodes(now time.Time) (nodes, recent int) {
	for id, p := range n.peers {
		if id != n.id && now.Sub(p.at) > n.keep {
			continue
		}
		recent++
		if id == n.id || !p.gone {
			nodes++
		}
	}
	return nodes, recent
}

// Stats returns a picture of the exchanges.
func (n *Node) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stats
	now := time.Now()
	s.Nodes, s.Met = n.seenNodes(now)
	s.Delay = n.delay(now)
	return s
}

// MemoryBytes returns the memory that the node takes beside the share's.
func (n *Node) MemoryBytes() int {
	_, kept := n.share.Generations()
	return 2 * kept * n.words() * 8
}

// exchanged notes the result of a call of the engine, which took so long if that is not
// 0, and reports it.
func (n *Node) exchanged(err error, took time.Duration, now time.Time) {
	n.mu.Lock()
	if took > 0 {
		n.stats.RoundTrip = max(took, n.stats.RoundTrip-n.stats.RoundTrip/64)
	}
	if err == nil {
		n.stats.Exchanges++
		n.stats.Latest = now
	} else {
		n.stats.Failures++
		n.suspect = n.suspect || !errors.Is(err, ErrLayout)
	}
	silent := err == nil && n.refused && len(n.queue) > 0 // it reads, and cannot tell
	n.mu.Unlock()
	if !silent {
		n.config.Report(err)
	}
}
