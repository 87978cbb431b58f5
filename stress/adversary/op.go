package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/sketchlimit/sketchlimit"
)

// verb is what an operation does.
type verb uint8

const (
	take     verb = iota // in one of the forms
	honour               // the request before, denied, as soon as it was told to come again
	peekNow              // by the clock
	together             // a request of the group; form tells which
	tick                 // the node's clock is set
	stats
	save    // a snapshot is taken
	restore // and a new limiter made of it
	post    // own cells are sent
	deliver // cells reach a node
	weigh
	crowd // new keys, as many as limit says, with n units each
)

var verbs = [...]string{"take", "honour", "peek now", "together", "tick", "stats", "save", "restore", "post", "deliver", "weigh", "crowd"}

// form is how a request is asked. A form that does not name a method is Do with a key
// of that sort.
type form uint8

const (
	formAt form = iota // TakeAt
	formDoAt
	formBytesAt
	formAddrAt
	formReserveAt
	formNow // Take; from here on by the clock
	formDo
	formBytes
	formAddr
	formReserve
	formAllowN
	formAllow
	forms
)

var formNames = [forms]string{"At", "DoAt", "BytesAt", "AddrAt", "ReserveAt", "Now", "Do", "Bytes", "Addr", "Reserve", "AllowN", "Allow"}

// reserves reports whether the form is Reserve.
func (f form) reserves() bool { return f == formReserve || f == formReserveAt }

// op is one operation. What it does depends on nothing but the world.
type op struct {
	do    verb
	form  form
	node  int
	at    int64
	key   int
	n     int
	limit int  // the request's own, if own
	own   bool // the request has a limit of its own
	arg   int
}

func (o op) String() string {
	if o.do == honour {
		return "honour   waits as long as the request before was told, and asks again"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%-8s node %d at %d", verbs[o.do], o.node, o.at)
	switch o.do {
	case take, together:
		fmt.Fprintf(&s, " %s key %d n %d", formNames[o.form], o.key, o.n)
		if o.own {
			fmt.Fprintf(&s, " limit %d", o.limit)
		}
	case crowd:
		fmt.Fprintf(&s, " keys %d … %d n %d", o.key, o.key+o.arg-1, o.n)
	case peekNow:
		fmt.Fprintf(&s, " key %d", o.key)
	case deliver:
		fmt.Fprintf(&s, " %s message %d", [...]string{"SetOthers", "AddOthers"}[o.n], o.arg)
	}
	return s.String()
}

// normal makes an operation what its form can say.
func (o op) normal() op {
	switch {
	case o.form == formAllow:
		o.n, o.own = 1, false
	case o.form == formAllowN:
		o.own = false
	case o.own && o.form == formAt:
		o.form = formDoAt
	case o.own && o.form == formNow:
		o.form = formDo
	}
	if o.n == 0 && o.form != formAt && o.form != formNow && o.form != formAllowN {
		o.n = 1
	}
	return o
}

// request returns a normal operation as a Request. A cost of 1 is said in either way. A
// Request with two keys or three has the one that counts, and others that do not.
func (o op) request() sketchlimit.Request {
	r := sketchlimit.Request{Key: name(o.key), N: o.n}
	if o.own {
		r.Limit = o.limit
	}
	if o.form < formNow {
		r.Time = at(o.at)
	}
	if o.n == 1 && o.at%2 == 0 {
		r.N = 0
	}
	sort := o.form
	if o.key == everybody {
		return r
	}
	if sort.reserves() {
		sort = []form{formDo, formBytes, formAddr}[o.key%3]
	}
	switch sort {
	case formBytes, formBytesAt:
		r.Key, r.Bytes = "another", []byte(r.Key)
	case formAddr, formAddrAt:
		r.Key, r.Bytes, r.Addr = "another", []byte("a third"), addr(o.key)
	}
	return r
}

// addr returns a key as an address: even ones as IPv4, odd ones as IPv6.
func addr(key int) netip.Addr {
	if key%2 == 0 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(key))
		return netip.AddrFrom4(b)
	}
	b := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	binary.BigEndian.PutUint64(b[8:], uint64(key))
	return netip.AddrFrom16(b)
}

// name returns the bytes of a key, the same in all forms.
func name(key int) string {
	for key >= len(names) {
		names = append(names, string(addr(len(names)).AsSlice()))
	}
	return names[key]
}

// names are made before goroutines start.
var names []string

const mostKeys = 1 << 17

func init() {
	name(mostKeys - 1)
	names[everybody] = ""
}
