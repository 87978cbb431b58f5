// Package sharingtest tests engines of package sharing, and has one in memory.
package sharingtest

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sketchlimit/sketchlimit/sharing"
)

// Server is where an engine keeps its logs.
type Server struct {
	// Open returns an engine of one more client.
	Open func() (sharing.Engine, error)
	// Wipe makes the server lose all that it has; nil: that is not tested.
	Wipe func() error
	// Patience is how long anything may take; a minute if it is 0.
	Patience time.Duration
}

// Check returns what is wrong with an engine, nil if nothing is: first of the engine by
// itself, and then of limiters that share a limit through it, while replies are lost,
// and entries repeated, delayed and forgotten. It takes some seconds, and uses logs of
// names that are not used otherwise.
func Check(s Server) error {
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	cases := []struct {
		name string
		run  func(*run)
	}{
		{"empty log", (*run).emptyLog},
		{"order", (*run).order},
		{"keeps each entry once", (*run).once},
		{"waits", (*run).waits},
		{"several logs", (*run).several},
		{"trim", (*run).trim},
		{"retention", (*run).retention},
		{"lost all", (*run).wipe},
		{"counts as one", (*run).counts},
		{"lost acknowledgement", func(r *run) { r.faults(LoseReply) }},
		{"refused", func(r *run) { r.faults(Refuse) }},
		{"duplicate", func(r *run) { r.faults(Repeat) }},
		{"reorder", func(r *run) { r.faults(Delay) }},
		{"gap", func(r *run) { r.faults(Forget) }},
		{"late joiner", (*run).late},
		{"two generations", (*run).generations},
		{"long window", (*run).long},
		{"nodes after all was lost", (*run).afterWipe},
	}
	errs := make([]error, len(cases))
	var all sync.WaitGroup
	for i, c := range cases {
		one := func() {
			defer func() {
				if e, ok := recover().(failure); ok {
					errs[i] = fmt.Errorf("%s: %w", c.name, e.error)
				}
			}()
			ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
			defer cancel()
			r := &run{Server: s, ctx: ctx}
			defer r.close()
			c.run(r)
		}
		if c.name == "retention" { // which waits
			all.Go(one)
		} else if c.name == "lost all" {
			all.Wait()
			one()
		} else {
			one()
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

type failure struct{ error }

// run is one case.
type run struct {
	Server
	ctx   context.Context
	clock atomic.Int64
	ends  []func()
}

func (r *run) close() {
	for _, end := range slices.Backward(r.ends) {
		end()
	}
}

func (r *run) require(ok bool, format string, args ...any) {
	if !ok {
		panic(failure{fmt.Errorf(format, args...)})
	}
}

func (r *run) open() sharing.Engine {
	e, err := r.Open()
	r.require(err == nil, "open: %v", err)
	return e
}

// name returns that of a log which is not used yet.
func name() string { return "sharingtest:" + crand.Text() }

func entry(log, text string) sharing.Entry {
	return sharing.Entry{Log: log, ID: log + text, Data: []byte(text), Keep: time.Hour}
}

// begin returns an engine with a new log that has one entry.
func (r *run) begin() (e sharing.Engine, log string, at sharing.Place) {
	e, log = r.open(), name()
	first := entry(log, "begin")
	first.Begin = true
	return e, log, r.append(e, first)
}

func (r *run) append(e sharing.Engine, entries ...sharing.Entry) (last sharing.Place) {
	results := e.Append(r.ctx, entries)
	r.require(len(results) == len(entries), "%d results of %d entries", len(results), len(entries))
	lasts := map[string]sharing.Place{}
	for i, result := range results {
		r.require(result.Err == nil, "append: %v", result.Err)
		last = result.Place
		r.require(last.Compare(lasts[entries[i].Log]) > 0, "place %v after %v, must rise", last, lasts[entries[i].Log])
		lasts[entries[i].Log] = last
	}
	return last
}

// texts reads logs from places on to their ends.
func (r *run) texts(e sharing.Engine, from ...sharing.Cursor) map[string][]string {
	all := map[string][]string{}
	for {
		records, err := e.Read(r.ctx, from, 0)
		r.require(err == nil, "read: %v", err)
		if len(records) == 0 {
			return all
		}
		for _, record := range records {
			i := slices.IndexFunc(from, func(c sharing.Cursor) bool { return c.Log == record.Log })
			r.require(i >= 0, "a record of log %q, which was not asked for", record.Log)
			r.require(record.Place.Compare(from[i].After) > 0, "place %v after %v, must rise", record.Place, from[i].After)
			from[i].After = record.Place
			all[record.Log] = append(all[record.Log], string(record.Data))
		}
	}
}

func (r *run) emptyLog() {
	e, log := r.open(), name()
	r.require(len(r.texts(e, sharing.Cursor{Log: log})) == 0, "a log that nobody began has records")
	start := time.Now()
	records, err := e.Read(r.ctx, []sharing.Cursor{{Log: log}}, 50*time.Millisecond)
	r.require(err == nil && len(records) == 0, "read of no log: %d records, %v", len(records), err)
	r.require(time.Since(start) >= 50*time.Millisecond, "read does not wait for as long as it is published to")
}

func (r *run) order() {
	a, log, first := r.begin()
	b := r.open()
	want := []string{"begin"}
	for i := range 300 {
		e := a
		if i%3 == 0 {
			e = b
		}
		want = append(want, fmt.Sprint(i))
		r.append(e, entry(log, fmt.Sprint(i)))
	}
	many := make([]sharing.Entry, 40)
	for i := range many {
		many[i] = entry(log, fmt.Sprint("many", i))
		many[i].Data = append(many[i].Data, make([]byte, i<<10)...)
		want = append(want, string(many[i].Data))
	}
	middle := r.append(a, many[:20]...)
	r.append(a, many[20:]...)
	for _, e := range []sharing.Engine{a, b, r.open()} {
		r.require(slices.Equal(want, r.texts(e, sharing.Cursor{Log: log})[log]), "records are others than those appended, or in another order")
		r.require(slices.Equal(want[1:], r.texts(e, sharing.Cursor{Log: log, After: first})[log]), "reading after the first differs")
		r.require(slices.Equal(want[len(want)-20:], r.texts(e, sharing.Cursor{Log: log, After: middle})[log]), "reading after a place differs")
	}
}

// once appends from several clients at once. What one is told to be kept is there, and
// once.
func (r *run) once() {
	e, log, _ := r.begin()
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		client := r.open()
		all.Go(func() {
			for j := range 50 {
				for _, result := range client.Append(r.ctx, []sharing.Entry{entry(log, fmt.Sprint(i, " ", j))}) {
					errs[i] = errors.Join(errs[i], result.Err)
				}
			}
		})
	}
	all.Wait()
	r.require(errors.Join(errs...) == nil, "append: %v", errors.Join(errs...))
	got := r.texts(e, sharing.Cursor{Log: log})[log]
	next := map[int]int{}
	for _, text := range got[1:] {
		var i, j int
		fmt.Sscan(text, &i, &j)
		r.require(next[i] == j, "client %d: entry %d follows entry %d", i, j, next[i]-1)
		next[i]++
	}
	r.require(len(got) == 1+4*50, "%d entries were kept, and %d are read", 1+4*50, len(got))
}

func (r *run) waits() {
	e, log, at := r.begin()
	got := make(chan string, 1)
	go func() {
		records, err := e.Read(r.ctx, []sharing.Cursor{{Log: log, After: at}}, r.Patience)
		if err == nil && len(records) == 1 {
			got <- string(records[0].Data)
		} else {
			got <- fmt.Sprint(len(records), " records, ", err)
		}
	}()
	time.Sleep(20 * time.Millisecond) // if it has not asked by then, it tests less
	r.append(r.open(), entry(log, "now"))
	text := <-got
	r.require(text == "now", "a read that waits: %s", text)
}

func (r *run) several() {
	e, one, at := r.begin()
	_, other, _ := r.begin()
	r.append(e, entry(one, "a"), entry(other, "b"), entry(one, "c"))
	got := r.texts(e, sharing.Cursor{Log: one, After: at}, sharing.Cursor{Log: other}, sharing.Cursor{Log: name()})
	r.require(slices.Equal(got[one], []string{"a", "c"}) && slices.Equal(got[other], []string{"begin", "b"}), "several logs: %q", got)
	results := e.Append(r.ctx, []sharing.Entry{entry(one, "d"), entry(other, "e")})
	r.require(results[0].Err == nil && results[1].Err == nil, "append to two: %v", results)
}

func (r *run) trim() {
	e, log, first := r.begin()
	second := r.append(e, entry(log, "a"), entry(log, "b"))
	r.append(e, entry(log, "c"))
	r.require(e.Trim(r.ctx, log, second) == nil, "trim fails")
	for _, after := range []sharing.Place{{}, first, second} {
		r.require(slices.Equal(r.texts(e, sharing.Cursor{Log: log, After: after})[log], []string{"c"}), "trim leaves others than what is after the place")
	}
	r.append(r.open(), entry(log, "d"))
	r.require(len(r.texts(e, sharing.Cursor{Log: log})[log]) == 2, "after trim nothing is appended")
}

func (r *run) retention() {
	e, log := r.open(), name()
	first, later := entry(log, "short"), entry(log, "long")
	first.Begin, first.Keep, later.Keep = true, time.Second, time.Second
	r.append(e, first)
	r.append(e, later)
	r.require(len(r.texts(e, sharing.Cursor{Log: log})[log]) == 2, "entries expire at once")
	for len(r.texts(e, sharing.Cursor{Log: log})[log]) > 0 {
		r.require(r.ctx.Err() == nil, "entries do not expire")
		time.Sleep(100 * time.Millisecond)
	}
}

func (r *run) wipe() {
	if r.Wipe == nil {
		return
	}
	e, log, _ := r.begin()
	at := r.append(e, entry(log, "a"))
	r.require(r.Wipe() == nil, "wipe fails")
	err := e.Append(r.ctx, []sharing.Entry{entry(log, "b")})[0].Err
	r.require(errors.Is(err, sharing.ErrNoLog), "append to a log that was lost: %v, must be ErrNoLog", err)
	first := entry(log, "c")
	first.Begin, first.ID = true, name()
	r.append(e, first)
	r.require(slices.Equal(r.texts(e, sharing.Cursor{Log: log, After: at})[log], []string{"c"}), "a new log is not read from a place in the lost one")
	r.require(slices.Equal(r.texts(r.open(), sharing.Cursor{Log: log})[log], []string{"c"}), "a new log has others than its own records")
}
