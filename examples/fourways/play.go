package main

import (
	"encoding/json"
	"io"
	"net/netip"
	"runtime"
	"time"
)

// sample is what a limiter has done until a moment.
type sample struct {
	Seconds float64 `json:"seconds"`
	Bytes   int     `json:"bytes"` // of the heap that are in use, more than before it was built
	// Requests, from the start on.
	Attacks          int `json:"attacks"`
	AttacksPassed    int `json:"attacks_passed"`
	Innocents        int `json:"innocents"` // since the attack began
	InnocentsRefused int `json:"innocents_refused"`
}

const (
	tick     = 5 * time.Millisecond
	interval = time.Second // between samples
)

// play shows the traffic to one limiter, by the clock, and writes samples as lines of
// JSON.
func play(s *settings, k *kind, out io.Writer) error {
	before := heap()
	allow, err := k.build(s)
	if err != nil {
		return err
	}
	var now sample
	encoder, start, t := json.NewEncoder(out), time.Now(), &traffic{settings: s}
	ask := func(client netip.Prefix, attack bool) {
		admitted := allow(client, client.String()) // each request brings a key of its own
		switch {
		case attack:
			now.Attacks++
			now.AttacksPassed += btoi(admitted)
		case t.attacks > 0:
			now.Innocents++
			now.InnocentsRefused += btoi(!admitted)
		}
	}
	for next := interval; ; {
		at := min(time.Since(start), s.For)
		t.send(at, ask)
		if at >= next || at == s.For {
			now.Seconds, now.Bytes = at.Seconds(), max(0, heap()-before)
			if err := encoder.Encode(&now); err != nil || at == s.For {
				return err
			}
			next += interval
		}
		time.Sleep(tick)
	}
}

// heap is the bytes that are in use after a collection.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
