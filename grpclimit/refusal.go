package grpclimit

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// pushbackKey is the trailer with the milliseconds that clients with a retry policy
// wait; below 0 they do not retry (gRFC A6).
const pushbackKey = "grpc-retry-pushback-ms"

// refusal is what a call is told if it is not admitted.
type refusal struct {
	names []string      // of the policies that refuse
	wait  time.Duration // until the same call passes, or Never; 0 if that is not known

	unauthenticated bool // it lacks a key that httplimit.RequireKey asks for
}

// Refuse implements [httplimit.Refuser].
func (r *refusal) Refuse(refusing []httplimit.Policy) {
	unknown := false
	for _, p := range refusing {
		r.names = append(r.names, strings.ToValidUTF8(p.Name, "\uFFFD")) // as a status must be
		if p.InFlight {
			unknown = true
			continue
		}
		r.wait = max(r.wait, p.RetryAfter)
	}
	if unknown && r.wait != sketchlimit.Never {
		r.wait = 0
	}
}

// err returns the error that a call ends with.
func (r *refusal) err() error {
	if r.unauthenticated {
		return status.Error(codes.Unauthenticated, "the call lacks the key that it is limited by")
	}
	text := "too many requests"
	if len(r.names) > 0 {
		text += ": " + strings.Join(r.names, ", ")
	}
	s := status.New(codes.ResourceExhausted, text)
	if r.wait > 0 && r.wait != sketchlimit.Never {
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.wait)}); err == nil {
			s = detailed
		}
	}
	return s.Err()
}

// pushback returns what pushbackKey says; "" if the wait is not known, and clients had
// better know for themselves.
func (r *refusal) pushback(ctx context.Context) string {
	if r.wait == 0 {
		return ""
	}
	const most = math.MaxInt32 * time.Millisecond // that clients read
	deadline, ok := ctx.Deadline()
	if r.wait > most || ok && r.wait > time.Until(deadline) {
		return "-1"
	}
	return strconv.FormatInt(int64((r.wait+time.Millisecond-1)/time.Millisecond), 10)
}
