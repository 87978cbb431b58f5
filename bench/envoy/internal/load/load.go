// Package load asks a rate limit service as fast as it answers, with little work of its
// own.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Load is what a service is asked. Each caller waits for its answer before it asks
// again, for one hit of a key drawn at random.
type Load struct {
	Domain, Key string   // of each request's one descriptor
	Values      []string // one of which is drawn for each request
	Callers     int
	Connections int                                            // which the callers share
	See         func(value int, answer *rls.RateLimitResponse) // of each answer, if not nil; from several goroutines
}

// Addresses returns n different addresses of clients.
func Addresses(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	}
	return all
}

// Result is what the callers have seen.
type Result struct {
	Requests int
	Took     time.Duration
	sorted   []time.Duration // until the answers
}

// Rate is in requests a second.
func (r *Result) Rate() float64 { return float64(r.Requests) / r.Took.Seconds() }

// Quantile returns the time within which this share of the answers came.
func (r *Result) Quantile(q float64) time.Duration {
	return r.sorted[min(len(r.sorted)-1, int(q*float64(len(r.sorted))))]
}

// Run asks the service at an address until the context ends. It stops at the first error.
func (l Load) Run(ctx context.Context, addr string) (*Result, error) {
	conns := make([]*grpc.ClientConn, l.Connections)
	for i := range conns {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		conns[i] = conn
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	took, errs := make([][]time.Duration, l.Callers), make([]error, l.Callers)
	began := time.Now()
	var all sync.WaitGroup
	for i := range l.Callers {
		all.Go(func() {
			if took[i], errs[i] = l.call(ctx, conns[i%len(conns)]); errs[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	r := &Result{Took: time.Since(began), sorted: slices.Concat(took...)}
	r.Requests = len(r.sorted)
	slices.Sort(r.sorted)
	if r.Requests == 0 {
		errs = append(errs, errors.New("load: no request was answered"))
	}
	return r, errors.Join(errs...)
}

// call sends the same messages repeatedly, and returns the latency of each answer.
func (l Load) call(ctx context.Context, conn *grpc.ClientConn) (took []time.Duration, err error) {
	entry := &ratelimit.RateLimitDescriptor_Entry{Key: l.Key}
	request := &rls.RateLimitRequest{Domain: l.Domain, HitsAddend: 1, Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{entry}}}}
	answer := &rls.RateLimitResponse{}
	for ctx.Err() == nil {
		value := rand.IntN(len(l.Values))
		entry.Value = l.Values[value]
		began := time.Now()
		// The requests under way at the end are answered: their calls do not know the
		// context.
		if err := conn.Invoke(context.Background(), rls.RateLimitService_ShouldRateLimit_FullMethodName, request, answer); err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
		if len(answer.Statuses) != 1 || answer.Statuses[0].CurrentLimit == nil {
			return took, fmt.Errorf("load: the request met no limit: %v", answer)
		}
		if l.See != nil {
			l.See(value, answer)
		}
	}
	return took, nil
}
