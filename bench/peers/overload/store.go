package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// store is a file of runs that have ended, a line each, so that hours of them can be
// played in parts. Whoever changes what is played or what plays must begin another one.
type store struct {
	file *os.File
	runs map[identity][]outcome
}

// identity names a run.
type identity struct {
	Row   string
	Scale float64
	Seed  int
}

// line is a run in the file.
type line struct {
	identity
	Outcomes []storedOutcome
}

// storedOutcome is an outcome in JSON.
type storedOutcome struct {
	Innocents, Denied  [phases]uint64
	Clients, Refused   [phases]uint64
	Mean, P99, Window  float64
	Memory             int
	Over, OverCapacity uint64
	State              sketchlimit.OverCapacity
	First              time.Time
	Entries            int
	Switched           *float64 // nil: NaN
	Requests           int
	Lasting            bool
	Keys               int
}

// openStore opens a file, or makes it.
func openStore(name string) (*store, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	k := &store{file, map[identity][]outcome{}}
	for in := bufio.NewReader(file); ; {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return k, nil
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), file.Close())
		}
		outcomes := make([]outcome, len(l.Outcomes))
		for i := range outcomes {
			outcomes[i] = l.Outcomes[i].outcome()
		}
		k.runs[l.identity] = outcomes
	}
}

// add keeps a run. Without a file it does nothing.
func (k *store) add(run identity, outcomes []outcome) error {
	if k == nil {
		return nil
	}
	l := line{identity: run}
	for i := range outcomes {
		l.Outcomes = append(l.Outcomes, outcomes[i].stored())
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = k.file.Write(append(text, '\n'))
	}
	return err
}

// played returns what came of a run of so many limiters, if it is there, with others
// behind them or not.
func (k *store) played(run identity, limiters int) (outcomes []outcome, ok bool) {
	if k == nil || len(k.runs[run]) < limiters {
		return nil, false
	}
	return k.runs[run][:limiters], true
}

func (o *outcome) stored() storedOutcome {
	k := storedOutcome{
		Innocents: o.innocents, Denied: o.denied, Clients: o.clients, Refused: o.refused, Mean: o.excess.mean, P99: o.excess.p99, Window: o.excess.window,
		Memory: o.memory, Over: o.over, OverCapacity: o.spared, State: o.state, First: o.first, Entries: o.entries,
		Requests: o.requests, Lasting: o.lasting, Keys: o.keys,
	}
	if !math.IsNaN(o.switched) {
		k.Switched = &o.switched
	}
	return k
}

func (k *storedOutcome) outcome() outcome {
	o := outcome{
		innocents: k.Innocents, denied: k.Denied, clients: k.Clients, refused: k.Refused, excess: excess{k.Mean, k.P99, k.Window}, memory: k.Memory,
		sparing:  sparing{over: k.Over, spared: k.OverCapacity, state: k.State, first: k.First, entries: k.Entries},
		switched: math.NaN(), requests: k.Requests, lasting: k.Lasting, keys: k.Keys,
	}
	if k.Switched != nil {
		o.switched = *k.Switched
	}
	return o
}
