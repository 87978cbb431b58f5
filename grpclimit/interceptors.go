package grpclimit

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc"
)

// Limit is a middleware of package httplimit as interceptors of a gRPC server. It is
// made by [New], and safe for concurrent use.
type Limit struct {
	middleware func(http.Handler) http.Handler
}

// New takes what httplimit.New, NewAll or NewPolicies returns, and passes an error on.
// A middleware may be in front of HTTP handlers as well, which then share its counts.
// Others than those of httplimit are not what it is for.
//
// The option httplimit.Refusal has no place here: what it writes is not sent, nor a
// time to wait.
func New(middleware func(http.Handler) http.Handler, err error) (*Limit, error) {
	if err != nil {
		return nil, err
	}
	if middleware == nil {
		return nil, errors.New("grpclimit: middleware nil, must be one")
	}
	return &Limit{middleware}, nil
}

// Unary limits unary calls. It is a grpc.UnaryServerInterceptor.
func (l *Limit) Unary(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	call := newCall(ctx, info.FullMethod, message)
	err = l.ask(call, func() (err error) {
		call.tell("")
		answer, err = handler(ctx, message)
		return err
	})
	return answer, err
}

// Stream limits the opening of streams: a stream counts once, and is in flight until
// its handler returns. There is no [Message] yet. It is a grpc.StreamServerInterceptor.
func (l *Limit) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	call := newCall(stream.Context(), info.FullMethod, nil)
	return l.ask(call, func() error {
		call.tell("")
		return handler(server, stream)
	})
}

// Messages limits the messages that clients send in streams, each like a unary call:
// RecvMsg fails for one that is not admitted, and a handler that returns the error ends
// the stream with it. Only of refusals are clients told. Chain it with Stream, of the
// same Limit or another one, to limit both. It is a grpc.StreamServerInterceptor.
func (l *Limit) Messages(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return handler(server, &messages{stream, l, newCall(stream.Context(), info.FullMethod, nil)})
}

// messages is a stream whose messages are limited.
type messages struct {
	grpc.ServerStream
	limit *Limit
	call  *call
}

// RecvMsg implements [grpc.ServerStream]. It is not called twice at once.
func (m *messages) RecvMsg(message any) error {
	if err := m.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	m.call.body.message = message
	return m.limit.ask(m.call, func() error { return nil })
}

// ask calls next if the middleware does, and otherwise returns the error of a refusal.
func (l *Limit) ask(c *call, next func() error) (err error) {
	clear(c.header)
	c.refusal = refusal{}
	passed := false
	l.middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		passed = true
		err = next()
	})).ServeHTTP(c, c.request)
	if !passed {
		c.tell(c.pushback(c.request.Context()))
		err = c.refusal.err()
	}
	return err
}
