package accesslog

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// stat is what a field holds in the first lines of a log.
type stat struct {
	seen      int // values that are not empty
	readable  int // times
	times     int // of the years that logs are from
	textual   int // of these, in words or with a zone: numbers may be something else
	zoned     int // of these, with a zone
	first     int64
	moves     bool // not all times are the same
	halves    int  // AM or PM
	zones     int
	dates     int
	clocks    int
	addresses int
	names     int // of hosts
	inside    int // addresses of private networks
	lists     int // of addresses
	distinct  map[netip.Addr]struct{}
	example   []byte
}

func (s *stat) observe(value []byte) {
	if len(value) == 0 || len(value) == 1 && value[0] == '-' {
		return
	}
	s.seen++
	if s.example == nil {
		s.example = bytes.Clone(value[:min(len(value), 100)])
	}
	_, number := parseUnix(value)
	at, readable := parseTime(value)
	if readable {
		if s.readable++; s.readable == 1 {
			s.first = at
		}
		s.moves = s.moves || at != s.first
	}
	switch {
	case readable && isTime(value):
		s.times++
		if number || hasZone(value) {
			s.zoned++
		}
		if !number {
			s.textual++
		}
		return
	case number || readable:
		return
	case isDate(value):
		s.dates++
		return
	case isClock(value):
		s.clocks++
		return
	case isHalf(value):
		s.halves++
		return
	case isZone(value):
		s.zones++
		return
	}
	last := lastAddress(value)
	a, ok := parseAddress(last)
	switch {
	case ok:
		s.addresses++
		if bytes.IndexByte(value, ',') >= 0 {
			s.lists++
		}
		if a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
			s.inside++
		}
		if s.distinct == nil {
			s.distinct = make(map[netip.Addr]struct{})
		}
		s.distinct[a] = struct{}{}
	case isHostName(last):
		s.names++
	}
}

// survey is what the fields of a layout hold in some lines.
type survey struct {
	lines int // that could be read
	stats []stat
}

func (l layout) survey(lines [][]byte) survey {
	if l.surveyed != nil {
		return l.surveyed(lines)
	}
	s := survey{stats: make([]stat, len(l.fields))}
	fields, split := make([][]byte, len(l.fields)), l.open()
	for _, line := range lines {
		clear(fields)
		if split(line, fields) != "" {
			continue
		}
		s.lines++
		for i := range fields {
			s.stats[i].observe(fields[i])
		}
	}
	return s
}

// chosen are the fields of the time and the client that a layout has by what they hold.
type chosen struct {
	time, clock string // clock: the time of the day, where time is the date alone
	timed       int    // lines with such a time
	client      string
	notes       []string // what to tell of the choice of the client
	doubts      []string // of these, what makes it doubtful
	lists       []string // fields that are headers and hold lists of addresses
	timeNotes   []string
	noTime      error
	noClient    error
}

// choose finds the time and the client.
func (l layout) choose(lines [][]byte) (c chosen) {
	if l.header {
		lines = lines[1:]
	}
	s := l.survey(lines)
	c.chooseTime(l, &s)
	c.zoneOfTime(l, &s)
	c.chooseClient(l, &s)
	c.insideAlone(l, &s)
	for i := range s.stats {
		if s.stats[i].lists > 0 && isHeaderName(l.fields[i]) {
			c.lists = append(c.lists, l.fields[i])
		}
	}
	return c
}

// insideAlone notes a client that has the addresses of a few proxies where no other
// field was taken in its place. Of a single one all of the log tells.
func (c *chosen) insideAlone(l layout, s *survey) {
	if i := l.index(c.client); i >= 0 && s.stats[i].proxies() && len(s.stats[i].distinct) > 1 {
		c.notes = append(c.notes, fmt.Sprintf("%s has %d addresses in the first %d lines, all of private networks; if they are proxies, --key names another field",
			l.fieldText(i), len(s.stats[i].distinct), s.lines))
	}
}

// zoneOfTime notes a zone that is not read, in a field or a word of its own. AM or PM
// there is an error.
func (c *chosen) zoneOfTime(l layout, s *survey) {
	at := l.index(c.time)
	if at < 0 || c.clock == "" && 2*s.stats[at].zoned > s.lines {
		return
	}
	after := l.afterTime
	if clock := l.index(c.clock); clock > 0 {
		after = clock + 1
	}
	for i := range s.stats {
		switch st := &s.stats[i]; {
		case l.numbered(i) && (i != after || after == 0):
		case 2*st.halves > s.lines:
			c.noTime = fmt.Errorf("%s, but %s of the time is in a field of its own, which is not read: "+
				"--format reads it in a pattern such as '%%{%%Y-%%m-%%d %%I:%%M:%%S %%p}t %%a'", l.what(), shown(st.example))
			c.time, c.clock = "", ""
			return
		case 2*st.zones > s.lines && !isUTC(st.example) && (l.numbered(i) || zoneNames[plainName(l.fields[i])]):
			c.timeNotes = append(c.timeNotes, fmt.Sprintf("%s, as %s, is not read: the times are taken as UTC", l.fieldText(i), shown(st.example)))
		}
	}
}

func (c *chosen) chooseTime(l layout, s *survey) {
	candidates := l.ranked("time")
	mostly := func(n int) bool { return n > 0 && 2*n >= s.lines } // each second line may be of another kind
	take := func(i, timed int) { c.time, c.timed = l.fields[i], timed }
	if l.clockLayout != "" {
		take(l.index("time"), s.lines)
		return
	}
	for _, i := range candidates {
		if st := &s.stats[i]; l.fixedTime {
			take(i, st.readable)
			return
		}
	}
	for _, stands := range []bool{false, true} { // a time that stands still is no request's
		for _, i := range candidates {
			if st := &s.stats[i]; mostly(st.times) && (st.moves || stands) {
				take(i, st.times)
				c.standing(l, s, i, mostly)
				return
			}
		}
		if c.twoFields(l, s, mostly) {
			return
		}
	}
	if len(candidates) > 0 && (l.index("key") >= 0 || s.lines == 0) { // a trace, whose clock may begin at 0
		take(candidates[0], s.stats[candidates[0]].readable)
		return
	}
	for _, count := range []func(*stat) int{
		func(st *stat) int { return st.textual * btoi(st.moves) },
		func(st *stat) int { return st.times * btoi(st.moves) }, // numbers as well
		func(st *stat) int { return st.times },
	} {
		for i := range s.stats {
			if n := count(&s.stats[i]); mostly(n) {
				take(i, n)
				return
			}
		}
	}
	switch {
	case s.lines == 0:
	case len(candidates) > 0:
		i := candidates[0]
		hint := "--time names a field to take as it is"
		if s.stats[i].readable == 0 {
			hint = "--time names another field, and --format can describe the whole line in a pattern, as '%{%d/%m/%Y %H:%M:%S}t,%a,%r' for a time, an address and a request"
		}
		c.noTime = fmt.Errorf("%s, but no time of 1995 … 2100 can be read in `%s`: %s; %s", l.what(), printed(l.fields[i]), shown(s.stats[i].example), hint)
	default:
		c.noTime = fmt.Errorf("%s, but no field holds a time that can be read: it has %s", l.what(), l.names())
	}
}

// standing notes a time that is the same in all lines where that in another field is not.
func (c *chosen) standing(l layout, s *survey, at int, mostly func(int) bool) {
	other := slices.IndexFunc(s.stats, func(st stat) bool { return st.moves && mostly(st.textual) })
	if s.stats[at].moves || s.lines < fewest || other < 0 {
		return
	}
	c.timeNotes = append(c.timeNotes, fmt.Sprintf("%s is the same in the first %d lines, %s is not: --time names another field", printed(l.fields[at]), s.lines,
		printed(l.fields[other])))
}

// twoFields finds a date and a clock.
func (c *chosen) twoFields(l layout, s *survey, mostly func(int) bool) bool {
	date := slices.IndexFunc(s.stats, func(st stat) bool { return mostly(st.dates) })
	clock := slices.IndexFunc(s.stats, func(st stat) bool { return mostly(st.clocks) })
	if date < 0 || clock < 0 {
		return false
	}
	c.time, c.clock, c.timed = l.fields[date], l.fields[clock], min(s.stats[date].dates, s.stats[clock].clocks)
	return true
}

func (c *chosen) chooseClient(l layout, s *survey) {
	candidates := l.ranked("ip")
	if s.lines > 0 {
		candidates = slices.DeleteFunc(candidates, func(i int) bool { return s.stats[i].addresses+s.stats[i].names == 0 })
	}
	if len(candidates) == 0 {
		c.otherClient(l, s)
		return
	}
	best := candidates[0]
	for _, count := range []func(*stat) int{
		func(st *stat) int { return st.addresses },
		func(st *stat) int { return st.addresses + st.names },
	} {
		if i := slices.IndexFunc(candidates, func(i int) bool { return 2*count(&s.stats[i]) > s.lines }); i >= 0 {
			best = candidates[i]
			break
		}
		best = slices.MaxFunc(candidates, func(a, b int) int { return cmp.Compare(count(&s.stats[a]), count(&s.stats[b])) })
	}
	if 2*s.stats[best].addresses <= s.lines && len(s.addressed(l, 9)) > 0 { // a program or a server has a name, too
		c.otherClient(l, s)
		return
	}
	c.client = l.fields[best]
	if l.note != "" {
		c.notes = append(c.notes, l.note)
	}
	for _, i := range candidates {
		st, taken := &s.stats[i], &s.stats[best]
		switch {
		case taken.addresses < fewest || 10*st.addresses < 9*taken.addresses || len(st.distinct) <= len(taken.distinct) || st.inside == st.addresses:
		case taken.proxies():
			c.behind(l, s, best, i)
			return
		default:
			from := c.client
			if len(st.distinct) > 2*len(taken.distinct) && !isHeaderName(l.fields[i]) {
				c.client = l.fields[i]
			}
			note := fmt.Sprintf("%s has %d addresses in the first %d lines, %s has %d; the client is taken from %s, --key names another",
				printed(from), len(taken.distinct), s.lines, printed(l.fields[i]), len(st.distinct), printed(c.client))
			c.notes, c.doubts = append(c.notes, note), append(c.doubts, note)
			return
		}
	}
}

// withinText finds an address that is not all of a field.
var withinText = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`)

// addressed are the fields that hold addresses in so many tenths of the lines, those of
// servers left out.
func (s *survey) addressed(l layout, tenths int) (found []int) {
	for i := range s.stats {
		if 10*s.stats[i].addresses >= tenths*s.lines && s.lines > 0 && (l.numbered(i) || !noClients(l.fields[i])) {
			found = append(found, i)
		}
	}
	return found
}

// behind takes another field for the client than the one that holds the addresses of a
// few proxies, and tells so.
func (c *chosen) behind(l layout, s *survey, proxies, client int) {
	c.client = l.fields[client]
	c.notes = append(c.notes, fmt.Sprintf("%s has %d of the addresses in the first %d lines, as proxies have; the client is taken from %s",
		l.fieldText(proxies), len(s.stats[proxies].distinct), s.lines, l.fieldText(client)))
}

// fewest lines tell what is always the same.
const fewest = 20

// mostProxies are as many as stand in front of a server.
const mostProxies = 8

// proxies reports whether a field seems to hold the addresses of what stands between
// the clients and the server.
func (s *stat) proxies() bool {
	return s.addresses >= fewest && (len(s.distinct) == 1 || s.inside == s.addresses && len(s.distinct) <= mostProxies)
}

// otherClient finds the client where no field is called as usual.
func (c *chosen) otherClient(l layout, s *survey) {
	found := s.addressed(l, 9)
	if len(found) == 0 {
		found = s.addressed(l, 6)
	}
	switch {
	case len(found) == 0 && len(l.ranked("ip")) > 0:
		i := l.ranked("ip")[0]
		c.noClient = fmt.Errorf("%s, but `%s` holds no addresses: %s; --key names a field to take as it is, of %s", l.what(), printed(l.fields[i]),
			shown(s.stats[i].example), l.names())
		return
	case len(found) == 0:
		text := fmt.Sprintf("%s, but no field holds addresses", l.what())
		if i := slices.IndexFunc(s.stats, func(st stat) bool { return withinText.Match(st.example) && !isAddress(st.example) }); i >= 0 {
			text += fmt.Sprintf(" alone (a pattern of --format can take one out of text, as of %s)", shown(s.stats[i].example))
		}
		c.noClient = fmt.Errorf("%s: --key names what to count by, it has %s", text, l.names())
		return
	case len(found) == 1:
	case !l.numbered(found[0]) && !l.numbered(found[len(found)-1]):
		c.noClient = l.several(found)
		return
	}
	first := found[0]
	varied := slices.DeleteFunc(slices.Clone(found), func(i int) bool { return s.stats[i].proxies() })
	if len(varied) > 0 && varied[0] != first {
		c.behind(l, s, first, varied[0])
		first = varied[0]
	}
	for _, i := range varied {
		if len(s.stats[i].distinct) > 2*len(s.stats[first].distinct) {
			c.noClient = l.several(found)
			return
		}
	}
	c.client = l.fields[first]
	note := fmt.Sprintf("the client is taken from %s, as %s", l.fieldText(first), shown(s.stats[first].example))
	for _, i := range varied {
		if more := len(s.stats[i].distinct); more > len(s.stats[first].distinct) {
			note += fmt.Sprintf(", which has %d addresses in the first %d lines; %s has %d, --key names another", len(s.stats[first].distinct), s.lines,
				l.fieldText(i), more)
			break
		}
	}
	c.notes = append(c.notes, note)
}

func (l layout) several(fields []int) error {
	var names []string
	for _, i := range fields {
		names = append(names, printed(l.fields[i]))
	}
	return fmt.Errorf("%s, and several fields hold addresses: --key names the client's, one of %s", l.what(), strings.Join(names, ", "))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
