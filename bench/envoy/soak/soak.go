package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/load"
	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// soak loads the service for so long, while its rules change.
func soak(out io.Writer, s *servers.Service, last time.Duration) error {
	w, err := newWatcher(out, s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), last)
	defer cancel()
	var j judge
	loads := []load.Load{
		{Domain: "soak", Key: "remote_address", Values: load.Addresses(1_000_000), Callers: 32, Connections: 4},
		{Domain: "soak", Key: "judged", Values: load.Addresses(len(j.admitted)), Callers: 2, Connections: 1, See: j.see},
	}
	results, errs := make([]*load.Result, len(loads)), make([]error, len(loads)+1)
	var all sync.WaitGroup
	for i, l := range loads {
		all.Go(func() {
			defer cancel() // the others need not go on after an error
			results[i], errs[i] = l.Run(ctx, s.GRPC)
		})
	}
	errs[len(loads)] = w.watch(ctx)
	cancel()
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %s", err, s.Log())
	}
	fmt.Fprintf(out, "%d requests answered without an error, %d reloads\n", results[0].Requests+results[1].Requests, w.reloads)
	return errors.Join(j.verdict(out), w.verdict())
}

// judge counts what clients are admitted in a window of a day. Reloads keep their limit.
type judge struct {
	admitted [16]atomic.Int64
	refused  atomic.Int64
}

func (j *judge) see(client int, answer *rls.RateLimitResponse) {
	if answer.OverallCode == rls.RateLimitResponse_OK {
		j.admitted[client].Add(1)
	} else {
		j.refused.Add(1)
	}
}

func (j *judge) verdict(out io.Writer) (err error) {
	most := int64(0)
	for i := range j.admitted {
		most = max(most, j.admitted[i].Load())
	}
	fmt.Fprintf(out, "of %d judged clients none was admitted more than %d times; the limit is %d; %d requests were refused\n",
		len(j.admitted), most, judgedLimit, j.refused.Load())
	if most > judgedLimit {
		return errors.New("over-admission")
	}
	return nil
}
