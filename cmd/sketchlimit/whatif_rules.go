package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
	"github.com/sketchlimit/sketchlimit/rules"
)

const (
	replayMemory = min(8<<30, math.MaxInt) // the most that rules take; a file that asks for more is a slip of the pen
	replaySeed   = 1                       // the same log gives the same answer
)

// replay holds the requests of a log against today's rules and new ones.
type replay struct {
	fields []string // of the log, that descriptors are made of
	hosts  []bool   // of these, which hold addresses
	sides  []*side  // today's, and the new ones if there are any
	now    time.Time
	tally  *tally
}

// side is the rules of one file.
type side struct {
	file        string
	rules       *rules.Rules
	domain      string
	descriptors [][]part
	asks        []rules.Ask
}

// part is an entry of a descriptor: its key names a field of the log, or is of the file
// alone and has a fixed value.
type part struct {
	key, value string
	field      int // in replay.fields
	fixed      bool
}

// openRules reads the files of rules; nil if none is asked for.
func (w *whatIf) openRules() (*replay, error) {
	switch {
	case w.rules == "" && w.against == "":
		return nil, nil
	case w.rules == "":
		return nil, fmt.Errorf("--against %s, goes with --rules only", w.against)
	}
	r := &replay{tally: newTally()}
	for _, file := range []string{w.rules, w.against} {
		if file == "" {
			continue
		}
		s, err := r.open(file)
		if err != nil {
			return nil, failure{err}
		}
		r.sides = append(r.sides, s)
	}
	return r, nil
}

// descriptor is what of a descriptor in a file of rules says what requests have to bring.
type descriptor struct {
	Key         string
	Value       string
	Prefixes    yaml.Node
	RateLimit   yaml.Node `yaml:"rate_limit"`
	Descriptors []descriptor
}

func (r *replay) open(file string) (*side, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	o := rules.Options{MaxMemoryBytes: replayMemory, Seed: replaySeed, Clock: func() time.Time { return r.now }}
	s := &side{file: file}
	if s.rules, err = o.New(rules.File{Name: file, Data: text}); err != nil {
		return nil, err
	}
	var parsed struct {
		Domain      string
		Descriptors []descriptor
	}
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&parsed); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s.domain = parsed.Domain
	if err := r.describe(s, nil, parsed.Descriptors); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, d := range s.descriptors {
		s.asks = append(s.asks, rules.Ask{Descriptor: make(rules.Descriptor, 0, len(d))})
	}
	return s, nil
}

// describe collects the lists of keys that lead to rules.
func (r *replay) describe(s *side, outer []part, level []descriptor) error {
	for _, d := range level {
		if strings.Contains(d.Key, "*") {
			return fmt.Errorf("key %q, cannot be replayed: it must name a field of the log", d.Key)
		}
		p := part{key: d.Key, field: slices.Index(r.fields, d.Key)}
		if p.field < 0 {
			p.field = len(r.fields)
			r.fields, r.hosts = append(r.fields, d.Key), append(r.hosts, false)
		}
		r.hosts[p.field] = r.hosts[p.field] || !d.Prefixes.IsZero()
		if !strings.Contains(d.Value, "*") {
			p.value = d.Value
		}
		parts := append(outer[:len(outer):len(outer)], p)
		if !d.RateLimit.IsZero() {
			s.descriptors = append(s.descriptors, parts)
		}
		if err := r.describe(s, parts, d.Descriptors); err != nil {
			return err
		}
	}
	return nil
}

// found looks up the fields of the rules in the log, whose fields are known now.
func (r *replay) found(log *accesslog.Log) error {
	for i, name := range r.fields {
		for _, f := range log.Files {
			r.hosts[i] = r.hosts[i] || slices.ContainsFunc(f.Parts, func(p accesslog.Part) bool { return p.Address && p.Name == name })
		}
		if name == "ip" || name == "client" || name == "remote_address" { // which have been read so
			r.hosts[i] = false
		}
	}
	for _, s := range r.sides {
		var distinct [][]part
		for _, parts := range s.descriptors {
			for i := range parts {
				p := &parts[i]
				name, ok := log.Lacking(p.key)
				switch p.fixed = !ok; {
				case ok:
					p.value = ""
				case p.value == "":
					return fmt.Errorf("%s: key %q, %s has no such field", s.file, p.key, name)
				}
			}
			if !slices.ContainsFunc(distinct, func(d []part) bool { return slices.Equal(d, parts) }) {
				distinct = append(distinct, parts)
			}
		}
		s.descriptors, s.asks = distinct, s.asks[:len(distinct)]
		if len(distinct) == 0 {
			return errors.New(s.file + ": has no rule")
		}
	}
	return nil
}

// add holds requests against all rules.
func (r *replay) add(b accesslog.Batch) {
	for i := range b.Requests {
		q := &b.Requests[i]
		r.now = time.Unix(0, q.At)
		values := b.Others[i*len(r.fields) : (i+1)*len(r.fields)]
		for f, host := range r.hosts {
			if host {
				values[f] = address(values[f])
			}
		}
		var refused [2]bool
		for k, s := range r.sides {
			refused[k] = !s.admit(values, int(q.Cost))
		}
		r.tally.add(q, refused)
	}
}

// address is a value as a key of addresses takes it: the last one of a list, without a
// port.
func address(value []byte) []byte {
	text := string(bytes.TrimSpace(value[bytes.LastIndexByte(value, ',')+1:]))
	a, err := netip.ParseAddr(text)
	if with, failed := netip.ParseAddrPort(text); failed == nil {
		a, err = with.Addr(), nil
	}
	switch {
	case text == "" || text == "-":
		return nil
	case err != nil:
		return []byte(text)
	}
	return []byte(a.Unmap().WithZone("").String())
}

// admit asks the rules of one file. A descriptor of which the line lacks a field is
// left out.
func (s *side) admit(values [][]byte, cost int) bool {
	n := 0
	for _, parts := range s.descriptors {
		a := &s.asks[n]
		a.N, a.Descriptor = cost, a.Descriptor[:0]
		for _, p := range parts {
			if !p.fixed && values[p.field] == nil {
				break
			}
			value := p.value
			if !p.fixed {
				value = string(values[p.field])
			}
			a.Descriptor = append(a.Descriptor, rules.Entry{Key: p.key, Value: value})
		}
		if len(a.Descriptor) == len(parts) {
			n++
		}
	}
	return s.rules.Do(s.domain, s.asks[:n]...).Admitted
}

func (r *replay) result() *comparison {
	c := r.tally.result()
	c.Today = r.sides[0].file
	if len(r.sides) > 1 {
		c.New = r.sides[1].file
	} else {
		c.Fates = c.Fates[:1]
	}
	return c
}

// comparison is what today's rules refuse, and new ones.
type comparison struct {
	Today string `json:"today"`
	New   string `json:"new,omitempty"`
	Fates []fate `json:"fates"` // refused by today's, by the new ones, by both, by today's only, by the new ones only
}

// fate is the requests that were refused by some rules.
type fate struct {
	By       string            `json:"by"`
	Requests uint64            `json:"requests"`
	Units    uint64            `json:"units"`
	Keys     int               `json:"keys"`                // refused at least once; of "only": never by the others
	MoreKeys bool              `json:"more_keys,omitempty"` // than could be told apart
	Top      []whatif.HeavyKey `json:"top,omitempty"`       // of "only"
}
