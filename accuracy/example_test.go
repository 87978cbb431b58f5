package accuracy_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
)

// How do 32 KiB do against 200,000 requests of 20,000 keys?
func ExampleReplay() {
	workload, err := accuracy.ParseWorkload("zipf:0.9,keys=2e4,requests=2e5,window=1m", accuracy.Workload{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := workload.Source()
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := accuracy.Replay(context.Background(), source, sketchlimit.Config{
		Limit: 100, Window: time.Minute, MemoryBytes: 32 << 10, Seed: 1,
	}, accuracy.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("requests:", r.Requests)
	fmt.Println("over-admissions:", r.OverAdmissions)
	fmt.Println("false-denial rate below 1e-4:", r.FalseDenialRate < 1e-4)
	fmt.Println("lost below 1 %:", r.LostShare < 0.01)
	fmt.Println("memory below 1/20 of the exact algorithm's:", 20*r.Memory.Stated < r.Memory.OracleHeap)
	// Output:
	// requests: 200000
	// over-admissions: 0
	// false-denial rate below 1e-4: true
	// lost below 1 %: true
	// memory below 1/20 of the exact algorithm's: true
}
