package grpclimit

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// call is a gRPC call on its way through the middleware: a request, and the
// ResponseWriter of its answer.
type call struct {
	request *http.Request
	url     url.URL
	body    body
	header  http.Header // of the answer
	sent    bool        // see tell
	refusal
}

func newCall(ctx context.Context, method string, message any) *call {
	c := &call{url: url.URL{Path: method}, body: body{message}, header: http.Header{}}
	header, host := fields(ctx)
	r := http.Request{
		Method: http.MethodPost, URL: &c.url, RequestURI: method, Pattern: method, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Host: host, RemoteAddr: remote(ctx), Body: &c.body, ContentLength: -1,
	}
	c.request = r.WithContext(ctx)
	return c
}

// fields returns the metadata of a call as header fields, and its authority.
func fields(ctx context.Context) (header http.Header, host string) {
	md, ok := metadata.FromIncomingContext(ctx) // which is a copy
	if !ok {
		return http.Header{}, ""
	}
	host = strings.Join(md[":authority"], "")
	for name, values := range md {
		if key := http.CanonicalHeaderKey(name); key != name {
			md[key] = values
			delete(md, name)
		} else if name == "" || name[0] == ':' {
			delete(md, name)
		}
	}
	return http.Header(md), host
}

// remote returns the address of the peer, as an http.Server writes it; "" without a peer.
func remote(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().String() // with fewer allocations than tcp.String
	}
	return p.Addr.String()
}

// Header implements [http.ResponseWriter].
func (c *call) Header() http.Header { return c.header }

// Write implements [http.ResponseWriter]: a gRPC call has no such body.
func (c *call) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements [http.ResponseWriter]: of the status a gRPC call is told that
// it lacks a key.
func (c *call) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		c.refusal.unauthenticated = true
		delete(c.header, "Content-Type") // of the body, which is not sent; a trailer must not have it
		delete(c.header, "X-Content-Type-Options")
	}
}

// tell sends the fields of the answer and the pushback, once, as trailers. Headers
// would be the beginning of an answer, behind which clients do not retry a call that
// fails (gRFC A6).
func (c *call) tell(pushback string) {
	if c.sent || len(c.header) == 0 && pushback == "" {
		return
	}
	c.sent = true
	trailer := make(metadata.MD, len(c.header)+1)
	for name, values := range c.header {
		trailer[strings.ToLower(name)] = values
	}
	if pushback != "" {
		trailer[pushbackKey] = []string{pushback}
	}
	grpc.SetTrailer(c.request.Context(), trailer) // if there is nobody to tell, nobody needs to know
}

// body is what carries the message of a call to Message.
type body struct{ message any }

// Read implements [io.Reader]: there is nothing to read.
func (*body) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements [io.Closer].
func (*body) Close() error { return nil }

// Message returns the message of a gRPC call: of a unary one, or of one that
// [Limit.Messages] limits. Otherwise it is nil. It is for functions of httplimit's
// options, such as Cost and Limit.
func Message(r *http.Request) any {
	if b, ok := r.Body.(*body); ok {
		return b.message
	}
	return nil
}
