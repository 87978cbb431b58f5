package main

import (
	"fmt"
	"strconv"

	"github.com/sketchlimit/sketchlimit/accuracy"
)

// load is made-up traffic: a workload of package accuracy. The numbers are those of one
// window.
type load struct {
	name     string
	workload string
	abusers  int
	keys     int // beside abusers or one-hit keys
	requests int
}

var loads = []load{
	{"Zipf 0.8", "zipf:0.8", 0, 1e6, 5e6},
	{"Zipf 1.1", "zipf:1.1", 0, 1e6, 5e6},
	{"uniform", "uniform", 0, 1e6, 5e6},
	{"abusers", "attack:3", 1e4, 1e6, 6e6},
	{"flood", "scan:0.375,exponent=0.8", 0, 1e6, 8e6},
}

// stream is the requests of a load in some windows, as many in each.
type stream struct {
	seed      uint64
	requests  []uint32 // numbers of keys
	perWindow int
	keys      int // below which all numbers are
}

// innocent is set beside the number of a key that an exact limiter never denies.
const innocent = 1 << 31

// stream makes the requests of some windows. With a divisor there are fewer keys and
// requests.
func (l load) stream(windows, divisor int, seed uint64) (*stream, error) {
	keys, requests := l.keys/divisor, l.requests/divisor
	spec := fmt.Sprintf("%s,keys=%d,requests=%d,windows=%d,seed=%d", l.workload, keys, windows*requests, windows, seed)
	if l.abusers > 0 {
		spec += fmt.Sprintf(",abusers=%d", l.abusers/divisor)
	}
	w, err := accuracy.ParseWorkload(spec, accuracy.Workload{})
	if err != nil {
		return nil, err
	}
	source, err := w.Source()
	if err != nil {
		return nil, err
	}
	s := &stream{seed: seed, perWindow: requests, requests: make([]uint32, 0, windows*requests)}
	for r := range source.Requests() {
		id, err := number(r.Key, keys)
		if err != nil {
			return nil, err
		}
		s.requests = append(s.requests, id)
		s.keys = max(s.keys, int(id)+1)
	}
	return s, nil
}

// number is a key's number. Names are a letter, which is k for the frequent ones, and a
// hexadecimal number.
func number(key string, keys int) (uint32, error) {
	n, err := strconv.ParseUint(key[1:], 16, 31)
	if key[0] != 'k' {
		n += uint64(keys)
	}
	return uint32(n), err
}

// each calls f with the requests in order. They come evenly.
func (s *stream) each(f func(request *uint32, at moment)) {
	step := window / int64(s.perWindow)
	for first := 0; first < len(s.requests); first += s.perWindow {
		at := moment{window: first / s.perWindow}
		for i := range s.perWindow {
			f(&s.requests[first+i], at)
			at.elapsed += step
		}
	}
}
