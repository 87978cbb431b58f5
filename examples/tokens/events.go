package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"

	"github.com/sketchlimit/sketchlimit/budget"
)

type usage struct {
	TotalTokens int `json:"total_tokens"`
}

// events is the body of a stream, handed on event by event. In the end it settles the
// last usage that the upstream has told. A stream that breaks off before, because the
// client or the upstream has gone, settles the prompt and the bytes that were
// generated, as far as they were held. That is rather too much, for no token is
// shorter. If nothing was generated yet, nothing is known, and the hold is settled in
// full. Tokens that a model generates and never sends, such as its reasoning, are not
// known if a stream breaks off.
type events struct {
	io.ReadCloser
	lines *bufio.Reader
	chat  *chat
	hold  budget.Hold
	ready []byte // for the client
	used  int    // as the upstream says, 0 if it has not
	bytes int    // generated
}

// Read implements [io.Reader].
func (e *events) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		event, err := e.event()
		if len(event) == 0 {
			return 0, err
		}
		e.hold.Extend(0) // the upstream is alive
		if !e.note(event) {
			e.ready = event
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// event reads as far as an empty line, or the end.
func (e *events) event() (event []byte, err error) {
	for {
		line, err := e.lines.ReadBytes('\n')
		event = append(event, line...)
		if err != nil || len(bytes.TrimSpace(line)) == 0 {
			return event, err
		}
	}
}

// note notes what an event tells, and returns whether it is the usage that the client
// has not asked for.
func (e *events) note(event []byte) (ours bool) {
	for line := range bytes.Lines(event) {
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		var chunk struct {
			Choices []struct{ Delta json.RawMessage }
			Usage   usage
		}
		if !ok || json.Unmarshal(data, &chunk) != nil { // such as [DONE]
			continue
		}
		for _, choice := range chunk.Choices {
			e.bytes += len(choice.Delta)
		}
		if chunk.Usage.TotalTokens > 0 {
			e.used = chunk.Usage.TotalTokens
			ours = len(chunk.Choices) == 0 && !e.chat.wantsUsage
		}
	}
	return ours
}

// Close implements [io.Closer]. The proxy calls it however the stream has ended.
func (e *events) Close() error {
	switch {
	case e.used > 0:
		e.hold.Settle(e.used)
	case e.bytes > 0:
		e.hold.Settle(min(e.chat.prompt+e.bytes, e.hold.Units()))
	}
	return e.ReadCloser.Close()
}
