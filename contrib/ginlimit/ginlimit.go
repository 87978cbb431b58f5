// Package ginlimit puts the limits of package httplimit in front of gin's handlers.
//
//	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 1_000_000})
//	...
//	limit, err := ginlimit.New(httplimit.New(limiter, &httplimit.Clients{}))
//	...
//	r := gin.Default()
//	r.Use(limit)
//
// All that httplimit has holds for gin: keys, options, quotas, ladders, budgets and the
// rules of package rules. A request that is not admitted is answered with 429 and
// aborted: handlers after the limit do not run.
//
// [httplimit.Clients] counts IPv6 clients by network, and believes the proxies that it
// names, not those of [gin.Engine.SetTrustedProxies]. [httplimit.Pattern] is gin's
// route, such as "GET /items/:id". [Key] makes a key of what gin knows, such as the
// user that an earlier handler has set; [Context] gives it to functions of options:
//
//	byUser := ginlimit.Key(func(c *gin.Context) string { return c.GetString("user") })
package ginlimit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sketchlimit/sketchlimit/httplimit"
)

// New returns a middleware of gin that does what a middleware of net/http does. It
// takes what [httplimit.New] and its like return, and passes on their error.
func New(limit func(http.Handler) http.Handler, err error) (gin.HandlerFunc, error) {
	if err != nil {
		return nil, fmt.Errorf("ginlimit: %w", err)
	}
	if limit == nil {
		return nil, errors.New("ginlimit: limit nil, must be a middleware")
	}
	h := limit(http.HandlerFunc(admitted))
	return func(c *gin.Context) {
		x := &exchange{Context: c.Request.Context(), c: c}
		r := c.Request.WithContext(x)
		if route := c.FullPath(); route != "" {
			r.Pattern = r.Method + " " + route
		}
		h.ServeHTTP(c.Writer, r)
		if !x.admitted {
			c.Abort()
		}
	}, nil
}

// Context returns gin's context of a request, for functions of options. It is nil where
// the request came by no middleware of [New]. Gin uses it again for another request
// when this one ends.
func Context(r *http.Request) *gin.Context {
	if x := find(r); x != nil {
		return x.c
	}
	return nil
}

// Key is the key that a function returns for gin's context of a request. It must be
// safe for concurrent use.
func Key(key func(*gin.Context) string) httplimit.Key {
	if key == nil {
		return nil // which httplimit refuses
	}
	return httplimit.KeyFunc(func(dst []byte, r *http.Request) []byte { return append(dst, key(Context(r))...) })
}

// exchange is the context of a request that a limit holds.
type exchange struct {
	context.Context
	c        *gin.Context
	admitted bool
}

type exchangeKey struct{}

// Value implements [context.Context].
func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Context.Value(key)
}

func find(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	return x
}

// admitted goes on with gin's handlers.
func admitted(w http.ResponseWriter, r *http.Request) {
	x := find(r)
	x.admitted = true
	c, own := x.c, x.c.Writer
	c.Request = r
	if w == http.ResponseWriter(own) {
		c.Next()
		return
	}
	c.Writer = &writer{own, w}
	defer func() { c.Writer = own }()
	c.Next()
	if !own.Written() {
		w.WriteHeader(own.Status()) // gin has kept it
	}
}

// writer is gin's, of which a limit in between sees what is sent, as those on bytes do.
// What a handler says of the status is not sent before the first byte of the body, and
// may change until then.
type writer struct {
	gin.ResponseWriter
	limit http.ResponseWriter
}

func (w *writer) Unwrap() http.ResponseWriter { return w.limit }

// WriteHeaderNow implements [gin.ResponseWriter].
func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.limit.WriteHeader(w.Status())
		w.ResponseWriter.WriteHeaderNow()
	}
}

// Write implements [http.ResponseWriter].
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	return w.limit.Write(p)
}

// WriteString implements [io.StringWriter].
func (w *writer) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	return io.WriteString(w.limit, s)
}

// Hijack implements [http.Hijacker].
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.limit).Hijack()
}

// Flush implements [http.Flusher].
func (w *writer) Flush() {
	w.WriteHeaderNow()
	w.ResponseWriter.Flush()
}
