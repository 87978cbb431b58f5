package main

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
)

// The trace that is replayed if none is given, and what suits it: its clock is slow,
// in the usual minute hardly a key comes twice.
const (
	embeddedName   = "Mooncake conversation trace"
	embeddedLimit  = 10
	embeddedWindow = 10 * time.Minute
	embeddedMemory = 64 << 10
	embeddedAbout  = "an hour of prompts to a language model service; " +
		"a request is one block of a prompt, the key is its content. " + embeddedOrigin
	embeddedOrigin = "From Mooncake (FAST 2025), github.com/kvcache-ai/Mooncake, Apache-2.0, changed into lines of time and key"
)

//go:embed data/mooncake.tsv.gz
var embedded []byte

// stream is what is replayed, and where it comes from. It is the source of the JSON
// form.
type stream struct {
	accuracy.Source `json:"-"`

	Kind     string              `json:"kind"` // "embedded", "trace" or "workload"
	Title    string              `json:"name"`
	About    string              `json:"about,omitempty"`    // origin and licence of the embedded trace
	Trace    *accuracy.TraceInfo `json:"trace,omitempty"`    // of a trace, embedded or not
	Workload string              `json:"workload,omitempty"` // complete specification
	File     *accesslog.File     `json:"-"`                  // of a trace that is not embedded
}

// damage returns what makes the figures of a log doubtful; "" if nothing does.
func (s *stream) damage() string {
	if s == nil || s.File == nil {
		return ""
	}
	return damage([]*accesslog.File{s.File})
}

// defaults puts in what suits the stream, where the command line says nothing.
func (o *options) defaults() {
	if o.seed == 0 {
		o.seed = drawSeed()
	}
	if o.budget {
		o.budgetDefaults()
		return
	}
	if !o.given("trace") && !o.given("workload") {
		or(&o.limit, embeddedLimit)
		or(&o.window, embeddedWindow)
		if o.keys == 0 && o.rate == 0 {
			or(&o.memory, embeddedMemory)
		}
	}
	or(&o.limit, 100)
	or(&o.window, time.Minute)
}

// drawSeed is a seed that the report can name, unlike one that a limiter draws.
func drawSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(binary.NativeEndian.Uint64(b[:]), 1)
}

// open reads the trace, and says which lines it skipped, or prepares the workload.
func (o *options) open(ctx context.Context, in io.Reader, errOut io.Writer) (*stream, error) {
	if o.given("workload") {
		return o.openWorkload()
	}
	return o.openTrace(ctx, in, errOut)
}

func (o *options) openWorkload() (*stream, error) {
	w, err := accuracy.ParseWorkload(o.workload, accuracy.Workload{Seed: o.seed, Window: o.window, Limit: o.limit})
	if err != nil {
		return nil, badWorkload(err)
	}
	if err := boundWorkload(w); err != nil {
		return nil, err
	}
	src, err := w.Source()
	if err != nil {
		return nil, err
	}
	return &stream{Source: src, Kind: "workload", Title: src.Name(), Workload: w.String()}, nil
}

func (o *options) openTrace(ctx context.Context, in io.Reader, errOut io.Writer) (*stream, error) {
	s := &stream{Kind: "trace"}
	trace, err := interruptible(ctx, func() (*accuracy.Trace, error) {
		if !o.given("trace") {
			s.Kind, s.About = "embedded", embeddedAbout
			return accuracy.ReadTrace(bytes.NewReader(embedded), embeddedName)
		}
		return o.readLog(ctx, s, in, errOut)
	})
	if err != nil {
		return nil, failureOrInterrupt(err)
	}
	if trace, err = trace.Speed(o.speed); err != nil {
		return nil, fmt.Errorf("--speed %g: %w", o.speed, err)
	}
	s.Source, s.Title, s.Trace = trace, filepath.Base(trace.Name()), &trace.Info // a page is sent on
	return s, nil
}

// readLog reads the log that --trace names, as whatif does.
func (o *options) readLog(ctx context.Context, s *stream, in io.Reader, errOut io.Writer) (*accuracy.Trace, error) {
	o.log.KeepTimes = true // requests are sorted by them
	log, err := accesslog.Open([]string{o.trace}, in, o.log)
	if err != nil {
		return nil, err
	}
	f := log.Files[0]
	s.File = f
	t, err := accuracy.CollectTrace(f.Name, func(add func(ns int64, key []byte, units uint32)) error {
		return log.Read(ctx, func(b accesslog.Batch) error {
			for i := range b.Requests {
				r := &b.Requests[i]
				add(r.At, r.Key, r.Cost)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	tellSkipped(errOut, log)
	i := &t.Info
	i.Format, i.Lines = string(f.Format), f.Lines
	for _, n := range f.Skipped {
		i.Malformed += n
	}
	if b := f.FirstBad; b != nil {
		i.FirstBad = &accuracy.BadLine{Line: b.Line, Text: b.Text, Reason: b.Reason}
	}
	return t, nil
}

// interruptible lets go of a read that a context cannot reach, such as one that waits
// for a terminal. The program ends right after.
func interruptible[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := read()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func or[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}
