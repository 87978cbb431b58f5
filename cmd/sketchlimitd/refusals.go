package main

import (
	"cmp"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimitd/envoylimit"
	"github.com/sketchlimit/sketchlimit/rules"
	"github.com/sketchlimit/sketchlimit/topkeys"
)

// refusals counts requests, and finds the keys that are refused the most.
type refusals struct {
	requests, refused atomic.Uint64
	top               *topkeys.Top
}

func newRefusals() (*refusals, error) {
	top, err := topkeys.New(1000, time.Minute)
	return &refusals{top: top}, err
}

// observe counts a request.
func (r *refusals) observe(o *envoylimit.Observation) {
	r.requests.Add(1)
	if o.Answer.Admitted {
		return
	}
	r.refused.Add(1)
	for i := range o.Answer.Statuses {
		if s := &o.Answer.Statuses[i]; s.Rule != nil && !s.Allowed && !s.Rule.Shadow && !s.Charged {
			r.top.Add(cmp.Or(s.Rule.Name, s.Rule.String()), key(o.Asks[i].Descriptor), 1)
		}
	}
}

// counts returns how many requests have come, and how many of them were refused.
func (r *refusals) counts() (requests, refused uint64) {
	refused = r.refused.Load() // first, or more might have been refused than came
	return r.requests.Load(), refused
}

// key is the entries of a descriptor as [rules.KeyText] shows them.
func key(d rules.Descriptor) (key []byte) {
	for _, e := range d {
		text := e.Key + "=" + e.Value
		key = append(binary.AppendUvarint(key, uint64(len(text))), text...)
	}
	return key
}
