package redislimit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sketchlimit/sketchlimit/sharing"
)

// channel is what one node exchanges of some parts of its [sharing.Share], in one
// generation: through a string of cells in Redis to which all nodes add, and a log of what
// they have added lately, so that a node reads what is new and not everything.
//
// Records are numbered. Redis knows the number of each node's last one, and adds a record only
// on top of the one before it; so a record whose reply was lost is not added twice, and a
// Redis that has lost some (a crash, a failover to a replica that lagged behind) tells from
// where on they must be sent again.
type channel struct {
	share      *sharing.Share
	lanes      lanes
	first      int // of the parts
	parts      int
	generation int64
	keys       []string

	told    []uint64 // own cells, records included, of all parts one after another
	sent    uint64   // number of the last record that Redis was told
	acked   uint64   // number of the last record that Redis has
	records []record // the latest; those that Redis has, too, as far as they may be needed again
	known   int64    // position in the log; or askSum, askNothing
	others  []uint64 // the others' cells, as Redis has told
	floor   []uint64 // and as they were known before Redis lost some; nil unless it has
}

// record is what cells have risen by.
type record struct {
	number uint64
	cells  []byte
}

const (
	askSum     = -1
	askNothing = -2
	// keptBytes is how much of what Redis has is kept, in case that it loses it. More than
	// a failover loses, or a log that is written to disk once a second.
	keptBytes = 64 << 10
	keptCount = 64
	// recordBytes is how long a record gets: two are told in one call, some 4,000 cells.
	recordBytes = 1 << 10
)

func newChannel(share *sharing.Share, first, parts int, generation int64, keys []string) *channel {
	words := parts * share.PartWords()
	return &channel{share: share, lanes: lanes{share.CellBits()}, first: first, parts: parts, generation: generation,
		keys: keys, told: make([]uint64, words), others: make([]uint64, words)}
}

// last returns the number of the last record.
func (c *channel) last() uint64 {
	if len(c.records) == 0 {
		return c.acked
	}
	return c.records[len(c.records)-1].number
}

// offer makes records of what cells have risen since the last ones, unless some are still
// on their way, and returns what Redis is to be told now: not more than it adds up within a millisecond or
// two. It is false if the generation is not kept any more.
func (c *channel) offer() (records []byte, ok bool) {
	if c.last() == c.acked {
		own, ok := c.own()
		if !ok {
			return nil, false
		}
		c.record(c.acked, c.told, own)
		c.told = own
	}
	c.sent = c.acked
	for _, r := range c.records {
		if r.number <= c.acked {
			continue
		}
		if len(records)+len(r.cells) > 2*recordBytes {
			break
		}
		c.sent = r.number
		if len(r.cells) > 0 {
			if len(records) > 0 {
				records = append(records, 0)
			}
			records = append(records, r.cells...)
		}
	}
	return records, true
}

// more tells whether there are records that Redis does not have.
func (c *channel) more() bool { return c.last() != c.acked }

// record appends records of what cells have risen, numbered from after on.
func (c *channel) record(after uint64, from, to []uint64) {
	for _, cells := range c.lanes.risenIn(from, to, recordBytes) {
		after++
		c.records = append(c.records, record{after, cells})
	}
}

// own returns the share's own cells.
func (c *channel) own() (own []uint64, ok bool) {
	words := c.share.PartWords()
	own = make([]uint64, words*c.parts)
	for part := range c.parts {
		if !c.share.Own(c.first+part, c.generation, own[part*words:][:words]) {
			return nil, false
		}
	}
	return own, true
}

// ask returns up to where Redis is asked for what is new. Before all is told the sum is no use: it lacks
// some of the own cells.
func (c *channel) ask() int64 {
	if c.sent != c.last() {
		return askNothing
	}
	return c.known
}

// reply is what Redis has answered.
type reply struct {
	number   uint64 // of the node's last record there
	position int64  // of the log's end
	sum      bool   // the cells follow, and not records
	cells    []byte
}

// bytes returns what the reply took in Redis' protocol, but for the array's head.
func (r *reply) bytes() uint64 {
	return wireBytes(strconv.FormatUint(r.number, 10), strconv.FormatInt(r.position, 10), string(r.cells)) + uint64(len(":0\r\n"))
}

// accept takes in what Redis has answered, and tells whether it had lost something.
func (c *channel) accept(r reply) (lost bool, err error) {
	if r.number != c.sent {
		c.repeat(r.number)
		return true, nil
	}
	c.acked = r.number
	c.forget()
	if c.more() {
		if c.known != askNothing {
			c.known = askSum // own records lie between, in the log
		}
		return false, nil
	}
	if c.known == askNothing {
		c.known = askSum // by now most other nodes have repeated theirs, too
		return false, nil
	}
	c.known = r.position
	if r.sum {
		c.lanes.without(c.others, r.cells, c.told)
		c.show()
		return false, nil
	}
	if err := c.add(r.cells); err != nil {
		c.known = askSum
		return false, err
	}
	return false, nil
}

// repeat makes ready to send again what came after a record, because Redis has lost it. If so
// much was lost that it is not kept, all is sent again: what Redis may still have of it
// counts twice then, which errs on the safe side.
func (c *channel) repeat(after uint64) {
	last := c.last()
	i := slices.IndexFunc(c.records, func(r record) bool { return r.number == after+1 })
	if i < 0 || after > last {
		c.records = nil
		c.record(max(after, last), make([]uint64, len(c.told)), c.told)
	}
	c.acked = after
	c.known = askNothing
	if c.floor == nil {
		c.floor = make([]uint64, len(c.told))
	}
	c.lanes.raise(c.floor, c.others)
}

// forget lets go of the oldest records that Redis has.
func (c *channel) forget() {
	bytes, count := 0, 0
	for i, r := range slices.Backward(c.records) {
		if r.number > c.acked {
			continue
		}
		count++
		bytes += len(r.cells)
		if bytes > keptBytes || count > keptCount {
			c.records = slices.Delete(c.records, 0, i+1)
			return
		}
	}
}

// add adds others' records to what is known of them.
func (c *channel) add(records []byte) error {
	cells := c.share.PartWords() * c.lanes.perWord()
	byPart := make([][]change, c.parts)
	for ch, err := range risen(records, cells*c.parts) {
		if err != nil {
			return err
		}
		byPart[ch.cell/cells] = append(byPart[ch.cell/cells], change{ch.cell % cells, ch.n})
	}
	for part, changes := range byPart {
		for _, ch := range changes {
			c.lanes.add(c.others, part*cells+ch.cell, uint64(ch.n))
		}
		if len(changes) > 0 && c.floor == nil {
			c.share.AddOthers(c.first+part, c.generation, func(yield func(int, uint32) bool) {
				for _, ch := range changes {
					if !yield(ch.cell, ch.n) {
						return
					}
				}
			})
		}
	}
	if c.floor != nil && len(records) > 0 {
		c.show()
	}
	return nil
}

// show tells the share what the others have. If Redis has lost some, each of them tells it
// again at a time of its own, or never; until then no cell is lower than it was before.
func (c *channel) show() {
	cells := c.others
	if c.floor != nil {
		cells = slices.Clone(c.others)
		c.lanes.raise(cells, c.floor)
	}
	words := c.share.PartWords()
	for part := range c.parts {
		c.share.SetOthers(c.first+part, c.generation, cells[part*words:][:words])
	}
}

// errLayout is what Redis answers to a node that would misread the others' cells.
var errLayout = errors.New("redislimit: the nodes' limiters differ; they must have the same Config and Seed, or another Prefix. " +
	"If Redis has lost the seed, nodes that have drawn a new one must start again")

// parseReply reads what the script returns.
func parseReply(v any) (r reply, err error) {
	bad := fmt.Errorf("redislimit: unexpected reply %.100v", v)
	fields, ok := v.([]any)
	if !ok || len(fields) != 1 && len(fields) != 4 {
		return reply{}, bad
	}
	number, _ := fields[0].(string)
	if r.number, err = strconv.ParseUint(number, 10, 64); err != nil {
		return reply{}, bad
	}
	if len(fields) == 1 {
		return r, nil
	}
	position, _ := fields[1].(string)
	sum, isNumber := fields[2].(int64)
	cells, isText := fields[3].(string)
	if r.position, err = strconv.ParseInt(position, 10, 64); err != nil || !isNumber || !isText {
		return reply{}, bad
	}
	r.sum, r.cells = sum == 1, []byte(cells)
	return r, nil
}
