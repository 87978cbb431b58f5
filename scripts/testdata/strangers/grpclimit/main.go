// Command grpclimit uses module grpclimit as somebody who gets it by its version.
package main

import (
	"context"
	"log"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/grpclimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func main() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 1, Window: 24 * time.Hour, Keys: 1000})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := grpclimit.New(httplimit.New(limiter, &httplimit.Clients{}))
	if err != nil {
		log.Fatal(err)
	}
	grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream)).Stop()
	handler := func(context.Context, any) (any, error) { return nil, nil }
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		_, err := limit.Unary(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, handler)
		if status.Code(err) != want {
			log.Fatalf("%v, want %v", err, want)
		}
	}
}
