package main

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

var replicaKeys = flag.Int("keys", 4, "keys that two replicas are asked for, four at once")

const (
	sharedLimit = 1000
	sharedRate  = 1000 // requests a second for a key at each replica
)

// TestReplicas asks two replicas that share counts through Redis for keys that each of
// them is offered twice the limit of, and returns how many they admit together. What
// docs/redis-synced.md promises at that rate depends on the machine; that no replica
// admits more than the limit, and both agree in the end, does not.
//
//	go test -v -run Replicas . -keys 40
func TestReplicas(t *testing.T) {
	awayFromTurns(time.Minute+time.Duration(*replicaKeys)*time.Second, day)
	settings := []string{"REDIS_URL=" + servers.NewRedis(t)}
	rules := servers.Rules{"shared.yaml": fmt.Sprintf(`
domain: shared
descriptors:
  - key: client
    rate_limit: {unit: day, requests_per_unit: %d}
`, sharedLimit)}
	var replicas []client
	for range 2 {
		replicas = append(replicas, dial(t, servers.Sketchlimit.New(t, rules, settings...).GRPC, nil))
	}
	admitted := make([]int, *replicaKeys)
	atOnce := make(chan bool, 4)
	var all sync.WaitGroup
	for i := range admitted {
		atOnce <- true
		all.Go(func() {
			admitted[i] = offer(t, replicas, fmt.Sprint("client=", i))
			<-atOnce
		})
	}
	all.Wait()
	sum := 0
	for i, n := range admitted {
		sum += n
		require.GreaterOrEqual(t, n, sharedLimit)
		require.LessOrEqual(t, n, len(replicas)*sharedLimit)
		for _, c := range replicas {
			require.NoError(t, servers.Eventually(10*time.Second, func() error {
				answer := c.ask("shared", fmt.Sprint("client=", i))
				if answer.OverallCode != over {
					return fmt.Errorf("client %d is admitted", i)
				}
				return nil
			}))
		}
	}
	t.Logf("limit %d, 2 replicas, %d requests/s each: %.1f admitted in the mean of %d keys, %d at most",
		sharedLimit, sharedRate, float64(sum)/float64(len(admitted)), len(admitted), slices.Max(admitted))
}

// offer asks each replica for a key, at the same time and rate, and returns how many
// were admitted.
func offer(t *testing.T, replicas []client, descriptor string) (admitted int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for _, c := range replicas {
		all.Go(func() {
			n := 0
			for i := range 2 * sharedLimit {
				time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / sharedRate)))
				answer, err := c.try(request("shared", descriptor))
				if err != nil {
					t.Error(err)
					return
				}
				if answer.OverallCode == ok {
					n++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			admitted += n
		})
	}
	all.Wait()
	return admitted
}
