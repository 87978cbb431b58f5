package accesslog

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
)

// plan is where the parts of a request are in the fields of a line.
type plan struct {
	layout layout
	time   int
	clock  int // of the time of the day, if time is the date alone; or else -1
	key    []keyPart
	cost   int       // -1: every request costs one unit
	least  int64     // that a cost may be
	other  []keyPart // index -1: the log has no such field
}

// newPlan finds the fields that Options name, and those that are chosen otherwise.
func newPlan(l layout, o Options, c *chosen) (plan, error) {
	at, clock := c.time, c.clock
	var err error
	if o.Time != "" || at == "" {
		if o.Time == "" && c.noTime != nil {
			return plan{}, c.noTime
		}
		clock = ""
		if at, err = l.named(cmp.Or(o.Time, "time"), "time"); err != nil {
			return plan{}, err
		}
	}
	names := []string{at}
	if clock != "" {
		names = append(names, clock)
	}
	parts, err := l.keyParts(o, c)
	if err != nil {
		return plan{}, err
	}
	for i := range parts {
		names = append(names, parts[i].Name)
	}
	cost := o.Cost
	if cost == "" && l.find(costField) >= 0 {
		cost = costField
	}
	if cost != "" {
		if cost, err = l.named(cost, "cost"); err != nil {
			return plan{}, err
		}
		names = append(names, cost)
	}
	others, err := o.others(l, parts)
	if err != nil {
		return plan{}, err
	}
	for _, p := range others {
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	p := plan{layout: l.narrow(names), key: parts}
	p.time, p.clock, p.cost = p.layout.index(at), p.layout.index(clock), p.layout.index(cost)
	if cost == costField { // of others, such as the bytes of a response, there may be none
		p.least = 1
	}
	for i := range parts {
		parts[i].index = p.layout.index(parts[i].Name)
	}
	for _, part := range others {
		part.index = p.layout.index(part.Name)
		p.other = append(p.other, part)
	}
	return p, nil
}

// keyParts are the fields of the key. The client's address must be one, unless a field
// is named for it.
func (l layout) keyParts(o Options, c *chosen) ([]keyPart, error) {
	key := o.Key
	if key == "" {
		if key = defaultKey; l.find("key") >= 0 {
			key = "key"
		}
	}
	parts, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	for i := range parts {
		p := &parts[i]
		asked := p.Name
		p.client = asked == "ip" && o.Key == "" || l.index(asked) < 0 && (asked == "ip" || aliases[asked] == "ip")
		if p.client && c.client == "" && c.noClient != nil {
			return nil, c.noClient
		}
		if p.client && c.client != "" {
			p.Name = c.client
		} else if p.Name, err = l.named(asked, "key"); err != nil {
			return nil, err
		}
		p.first = c.countsFirst(p)
		p.missing, p.noAddress = "no "+printed(p.Name), "no address in "+printed(p.Name)
	}
	return parts, nil
}

// isClient reports whether a part of the key is the client's address.
func (p *plan) isClient() bool {
	return slices.ContainsFunc(p.key, func(k keyPart) bool { return k.client })
}

// others are the fields to hand out, named as the log names them; "" if it has none such.
func (o *Options) others(l layout, key []keyPart) (parts []keyPart, err error) {
	for _, name := range o.Others {
		one, err := parseKey(name)
		if err != nil || len(one) > 1 {
			return nil, fmt.Errorf("field %q, must be FIELD", name)
		}
		one[0].Name = ""
		if i := l.find(name); i >= 0 {
			one[0].Name = l.fields[i]
			one[0].first = slices.ContainsFunc(key, func(k keyPart) bool { return k.first && k.Name == l.fields[i] })
		}
		parts = append(parts, one[0])
	}
	return parts, nil
}

// result is what has been read of a block.
type result struct {
	batch    Batch
	lines    int
	skipped  map[string]int
	firstBad *BadLine // its Line is counted from the first of the block
	keys     []byte   // of keys that are no part of a line
	clients
	doubts doubts
}

// clients are what of the clients is to be told.
type clients struct {
	hostNames int
	none      map[string]int // what stands for a client and is neither an address nor a name, and how often
}

// mostNone values of clients that are none are told apart.
const mostNone = 256

func (c *clients) without(value string, n int) {
	if c.none == nil {
		c.none = make(map[string]int)
	}
	if _, known := c.none[value]; known || len(c.none) < mostNone {
		c.none[value] += n
	}
}

// parser reads the lines of one log, for one goroutine.
type parser struct {
	plan
	split  splitter
	fields [][]byte
	b      *block
	w3c    *w3cLine // of that format
	at     [64]byte // a time that is put together
}

func newParser(p plan) *parser {
	n := &parser{plan: p, fields: make([][]byte, len(p.layout.fields))}
	if p.layout.format == W3C {
		n.w3c = p.layout.openW3C(p.layout.fields)
		n.split = n.w3c.split
	} else {
		n.split = p.layout.open()
	}
	return n
}

// parse reads a block.
func (p *parser) parse(b *block) {
	p.b = b
	b.result = result{batch: Batch{b.batch.Requests[:0], b.batch.Others[:0]}, keys: b.keys[:0]}
	if b.lines = b.tooLong; b.lines > 0 {
		b.skipped = map[string]int{tooLong: b.tooLong}
		b.firstBad = &BadLine{Line: 1, Text: `""`, Reason: tooLong}
	}
	if p.w3c != nil && b.head != nil {
		p.w3c.head(b.head)
	}
	header := b.first && p.layout.header
	for line := range bytes.Lines(b.text) {
		b.lines++
		if line = trimmed(line); passedOver(line) {
			if p.w3c != nil && fieldsOf(line) != nil {
				p.w3c.head(line)
			}
			continue
		}
		if header {
			header = false
			continue
		}
		if reason := p.line(line); reason != "" {
			b.skip(line, reason)
		}
	}
}

const (
	tooLong  = "longer than 1 MiB"
	badTime  = "no time that can be read"
	badCost  = "no cost of 1 … 2147483647"
	badUnits = "no cost of 0 … 2147483647"
)

// costField is the field of the units, if Options name none.
const costField = "cost"

// line adds a line to the block.
func (p *parser) line(line []byte) (reason string) {
	r, reason := p.request(line)
	if reason != "" {
		return reason
	}
	b := p.b
	b.batch.Requests = append(b.batch.Requests, r)
	for i := range p.other {
		value, _ := p.part(&p.other[i])
		b.batch.Others = append(b.batch.Others, value)
	}
	return ""
}

// request reads a line, whose key lasts as long as the block.
func (p *parser) request(line []byte) (r whatif.Request, reason string) {
	if reason := p.split(line, p.fields); reason != "" {
		return r, reason
	}
	r.Cost = 1
	var ok bool
	if r.At, ok = p.timeOf(); !ok {
		return r, badTime
	}
	if p.cost >= 0 {
		switch r.Cost, ok = parseCost(p.fields[p.cost], p.least); {
		case !ok && p.least > 0:
			return r, badCost
		case !ok:
			return r, badUnits
		}
	}
	r.Key, reason = p.keyOf()
	return r, reason
}

func (p *parser) timeOf() (ns int64, ok bool) {
	at := p.fields[p.time]
	switch {
	case p.clock >= 0:
		return parseClock(at, p.fields[p.clock], p.at[:0])
	case p.layout.clockLayout != "":
		t, err := time.Parse(p.layout.clockLayout, text(at))
		return t.UnixNano(), err == nil && t.Year() >= 1970 && t.Year() <= 2261
	}
	return parseTime(at)
}

// kept is a value that lasts as long as the block.
func (p *parser) kept(value []byte) []byte {
	if !p.layout.copied || value == nil {
		return value
	}
	n := len(p.b.keys)
	p.b.keys = append(p.b.keys, value...)
	return p.b.keys[n:len(p.b.keys):len(p.b.keys)]
}

// part returns a part of a key of the line at hand, which lasts as long as the block;
// nil if it has none.
func (p *parser) part(k *keyPart) (text []byte, address bool) {
	if k.index < 0 {
		return nil, false
	}
	text, p.b.keys, address = k.text(p.fields[k.index], p.b.keys)
	return p.kept(text), address
}

// keyOf returns the key of the line at hand.
func (p *parser) keyOf() (key []byte, reason string) {
	var parts [mostParts][]byte
	for i := range p.key {
		k := &p.key[i]
		address := false
		if parts[i], address = p.part(k); parts[i] == nil {
			if k.client {
				p.b.without("", 1)
			}
			return nil, k.missing
		}
		if k.client && !address {
			if !isHostName(parts[i]) {
				p.b.without(string(beginning(parts[i], longestNone)), 1)
				return nil, k.noAddress
			}
			p.b.hostNames++
		}
	}
	key = parts[0]
	if len(p.key) > 1 {
		key = p.joined(parts[:len(p.key)])
	}
	if len(key) > longestKey {
		n := len(p.b.keys)
		p.b.keys = AppendShort(p.b.keys, key, longestKey)
		key = p.b.keys[n:len(p.b.keys):len(p.b.keys)]
	}
	return key, ""
}

// longestNone is as much as is told of what is no client.
const longestNone = 40

// joined is a key of several parts.
func (p *parser) joined(parts [][]byte) []byte {
	b := p.b
	n := len(b.keys)
	for i, part := range parts {
		if i > 0 {
			b.keys = append(b.keys, ',')
		}
		b.keys = appendPart(b.keys, part)
	}
	return b.keys[n:len(b.keys):len(b.keys)]
}

// parseCost reads a number of units, at least so many, and rounds it up. Every request
// costs one at least.
func parseCost(b []byte, least int64) (uint32, bool) {
	if len(b) == 0 || len(b) == 1 && b[0] == '-' {
		return 1, true
	}
	if v, ok := parseDigits(b); ok {
		return uint32(max(v, 1)), v >= least && v <= math.MaxInt32
	}
	v, err := strconv.ParseFloat(text(b), 64)
	if err != nil || !(v >= float64(least) && v <= math.MaxInt32) {
		return 0, false
	}
	return uint32(max(math.Ceil(v), 1)), true
}

// skip counts a line that could not be read.
func (r *result) skip(line []byte, reason string) {
	if r.skipped == nil {
		r.skipped = make(map[string]int)
	}
	r.skipped[reason]++
	if r.firstBad == nil {
		r.firstBad = &BadLine{Line: r.lines, Text: shown(line), Reason: reason}
	}
}

// shown is the beginning of a line, unprintable bytes escaped.
func shown(line []byte) string {
	const most = 80
	if len(line) > most {
		return strconv.Quote(string(line[:most])) + "…"
	}
	return strconv.Quote(string(line))
}
