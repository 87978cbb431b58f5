package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/sketchlimit/sketchlimit/budget"
)

// Response describes the response of a handler that has returned.
type Response struct {
	Request *http.Request // as the handler got it
	// Status is what was sent, or will be: 200 if the handler did not say; 0 if it took
	// the connection over before.
	Status int
	// Header is that of the ResponseWriter, with trailers.
	Header http.Header
	// Bytes is those of the body that the handler wrote and the ResponseWriter took; 0
	// in answer to HEAD, when they are not sent. Of a hijacked connection it is those
	// before.
	Bytes int64
}

// BytesWritten settles by the bytes of the response's body.
func BytesWritten(r *Response) (units int, ok bool) {
	return int(r.Bytes), int64(int(r.Bytes)) == r.Bytes
}

// exchange is a request that holds units, and the ResponseWriter that it is answered
// with.
type exchange struct {
	inner    http.ResponseWriter
	holder   holder
	response Response
	hijacked bool
	hidden   string   // field that is kept from the client
	values   []string // of the hidden field
}

// holder is the context of a request that holds units.
type holder struct {
	context.Context
	hold budget.Hold
}

type holdKey struct{}

// Value implements [context.Context].
func (h *holder) Value(key any) any {
	if key == (holdKey{}) {
		return h.hold
	}
	return h.Context.Value(key)
}

// What handlers ask of a ResponseWriter, it says only if the inner one does.
type (
	flushing  struct{ *exchange }
	hijacking struct{ *exchange }
	both      struct{ *exchange }
)

func (f flushing) Flush()                                        { f.FlushError() }
func (h hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.hijack() }
func (b both) Flush()                                            { b.FlushError() }
func (b both) Hijack() (net.Conn, *bufio.ReadWriter, error)      { return b.hijack() }

// writer returns the ResponseWriter for the handler.
func (e *exchange) writer() http.ResponseWriter {
	_, flushes := reach[http.Flusher](e.inner)
	_, hijacks := reach[http.Hijacker](e.inner)
	switch {
	case flushes && hijacks:
		return both{e}
	case flushes:
		return flushing{e}
	case hijacks:
		return hijacking{e}
	}
	return e
}

// reach returns what the ResponseWriter, or one that it wraps, is.
func reach[T any](w http.ResponseWriter) (found T, ok bool) {
	for {
		if found, ok = w.(T); ok {
			return found, true
		}
		outer, wraps := w.(interface{ Unwrap() http.ResponseWriter })
		if !wraps {
			return found, false
		}
		w = outer.Unwrap()
	}
}

// Unwrap is for [http.ResponseController].
func (e *exchange) Unwrap() http.ResponseWriter { return e.inner }

// Header implements [http.ResponseWriter].
func (e *exchange) Header() http.Header { return e.inner.Header() }

// WriteHeader implements [http.ResponseWriter].
func (e *exchange) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		e.sent(status)
	} else {
		e.hide()
	}
	e.inner.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (e *exchange) Write(p []byte) (int, error) {
	e.sent(http.StatusOK)
	n, err := e.inner.Write(p)
	return int(e.count(int64(n))), err
}

// WriteString implements [io.StringWriter].
func (e *exchange) WriteString(s string) (int, error) {
	e.sent(http.StatusOK)
	n, err := io.WriteString(e.inner, s)
	return int(e.count(int64(n))), err
}

// ReadFrom implements [io.ReaderFrom]: files are then sent in the system's own way. Of
// a reader of nothing, the server sends no header.
func (e *exchange) ReadFrom(r io.Reader) (n int64, err error) {
	e.hideUnsent()
	if inner, ok := e.inner.(io.ReaderFrom); ok {
		n, err = inner.ReadFrom(r)
	} else {
		n, err = io.Copy(struct{ io.Writer }{e.inner}, r)
	}
	if n > 0 {
		e.sent(http.StatusOK)
	}
	return e.count(n), err
}

// FlushError is for [http.ResponseController].
func (e *exchange) FlushError() error {
	e.hideUnsent()
	err := http.NewResponseController(e.inner).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		e.sent(http.StatusOK)
	}
	return err
}

func (e *exchange) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(e.inner).Hijack()
	e.hijacked = e.hijacked || err == nil
	return conn, buffered, err
}

func (e *exchange) count(n int64) int64 {
	if e.response.Request.Method != http.MethodHead {
		e.response.Bytes += n
	}
	return n
}

// sent notes the status of a header that is sent now, if none was before.
func (e *exchange) sent(status int) {
	if e.response.Status == 0 && !e.hijacked {
		e.hide()
		e.response.Status = status
	}
}

// hideUnsent hides the field where a header may be sent now.
func (e *exchange) hideUnsent() {
	if e.response.Status == 0 {
		e.hide()
	}
}

// end returns the response once the handler has returned.
func (e *exchange) end() *Response {
	if e.response.Status == 0 && !e.hijacked {
		e.response.Status = http.StatusOK
	}
	e.response.Header = e.Header()
	return &e.response
}

// hide takes the hidden field out of what will be sent, and keeps its values.
func (e *exchange) hide() {
	if e.hidden == "" {
		return
	}
	h := e.Header()
	if values := fieldOf(h, e.hidden); values != nil {
		e.values = values
	}
	for name := range h {
		if isField(name, e.hidden) {
			delete(h, name)
		}
	}
	if declared := h["Trailer"]; declared != nil {
		h["Trailer"] = without(declared, e.hidden)
	}
}

// field returns the units that a field states, and whether it states any.
func (e *exchange) field(name string) (units int, ok bool) {
	values := e.values
	if e.hidden == "" {
		values = fieldOf(e.Header(), name)
	}
	if len(values) != 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.Trim(values[0], ows), 10, strconv.IntSize-1)
	return int(n), err == nil
}

// fieldOf returns the values of a field: of a trailer that was not declared, or else of
// a trailer that was or a header field. The server sends both of the latter under the
// same name.
func fieldOf(h http.Header, name string) (values []string) {
	for n := range h {
		if n != name && isField(n, name) {
			values = append(values, h[n]...)
		}
	}
	if values == nil {
		values = h[name]
	}
	return values
}

// isField reports whether a key of a header is a field's, or that of its undeclared
// trailer.
func isField(key, name string) bool {
	return strings.EqualFold(strings.TrimPrefix(key, http.TrailerPrefix), name)
}

// without returns lists of names without one of them; nil if there is no other.
func without(lists []string, name string) (rest []string) {
	for _, list := range lists {
		for n := range strings.SplitSeq(list, ",") {
			if n = strings.Trim(n, ows); !strings.EqualFold(n, name) {
				rest = append(rest, n)
			}
		}
	}
	return rest
}
