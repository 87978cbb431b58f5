package httplimit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Key derives the key that a request counts under. It must be safe for concurrent use.
type Key interface {
	// AppendKey appends the request's key to dst and returns the result, as append does.
	// Requests for which it appends nothing share the empty key.
	AppendKey(dst []byte, r *http.Request) []byte
}

// KeyFunc is a function as a [Key].
type KeyFunc func(dst []byte, r *http.Request) []byte

// AppendKey implements [Key].
func (f KeyFunc) AppendKey(dst []byte, r *http.Request) []byte { return f(dst, r) }

// Header is the value of the first header field of this name as a [Key]. Requests
// without one share the empty key, see [RequireKey]. A client that can choose the value
// chooses its key: use only fields that something in front has checked, such as a
// token.
type Header string

// AppendKey implements [Key].
func (h Header) AppendKey(dst []byte, r *http.Request) []byte {
	return append(dst, r.Header.Get(string(h))...)
}

// Pattern is the route as a [Key]: [http.Request.Pattern], such as "GET /items/{id}".
// The router must have set it before the middleware runs: wrap the handlers, not
// the [http.ServeMux]. Requests without a pattern share the empty key.
type Pattern struct{}

// AppendKey implements [Key].
func (Pattern) AppendKey(dst []byte, r *http.Request) []byte { return append(dst, r.Pattern...) }

// AllRequests is the empty key for all requests: a limit on the service as a whole.
type AllRequests struct{}

// AppendKey implements [Key].
func (AllRequests) AppendKey(dst []byte, _ *http.Request) []byte { return dst }

// Join combines several keys into one, in order. It includes the length of each, so two
// requests have the same key only if all parts are the same.
type Join []Key

// AppendKey implements [Key].
func (j Join) AppendKey(dst []byte, r *http.Request) []byte {
	for _, part := range j {
		start := len(dst)
		dst = part.AppendKey(append(dst, 0, 0, 0, 0), r)
		binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	}
	return dst
}

// check returns an error for a Key that cannot make keys.
func check(key Key) error {
	switch k := key.(type) {
	case KeyFunc:
		return given("KeyFunc", k != nil)
	case Header:
		if strings.EqualFold(string(k), "Host") { // or all requests would share the empty key
			return fmt.Errorf("Header %q, which is in Request.Host alone: use a KeyFunc", string(k))
		}
		return checkName("Header", string(k))
	case *Clients:
		return k.check()
	case Join:
		if len(k) == 0 {
			return errors.New("no keys in Join, must be at least 1")
		}
		for i, part := range k {
			if err := check(part); err != nil {
				return fmt.Errorf("key %d of Join: %w", i, err)
			}
		}
	}
	if isNil(key) {
		return errors.New("key nil, must be one")
	}
	return nil
}
