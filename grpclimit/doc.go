// Package grpclimit puts the limits of package httplimit in front of gRPC services.
//
//	limit, err := grpclimit.New(httplimit.New(limiter, &httplimit.Clients{}))
//	...
//	server := grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream))
//
// A gRPC call is a request of HTTP/2, so keys and options of httplimit hold for it, and
// so do quotas, ladders and the rules of package rules. Their functions find in a
// request:
//
//   - Context: that of the call, with all that interceptors before have put there
//   - URL.Path, Pattern: the method, such as "/helloworld.Greeter/SayHello"
//   - Header: the metadata, and in Host the authority
//   - RemoteAddr: the peer of the connection
//   - Body: the message, see [Message]
//
// A call that is not admitted gets codes.ResourceExhausted; one without the key that
// httplimit.RequireKey asks for, codes.Unauthenticated. If it is known when the same
// call passes, the status has a RetryInfo that says so, and clients with a retry policy
// for that code are told to wait as long (grpc-retry-pushback-ms, gRFC A6); or not to
// retry, if that is after the deadline of the call, or no wait helps.
//
// The fields of httplimit ("ratelimit", "ratelimit-policy", "retry-after") are
// trailers, also of calls that are admitted: headers would keep clients from retrying
// calls that fail later.
package grpclimit
