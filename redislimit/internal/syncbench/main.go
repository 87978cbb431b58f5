// Command syncbench measures what notes/synced.md says of redislimit.NewSynced, with nodes
// that are processes and a redis-server of its own on the loopback:
//
//	syncbench over [-windows 20]    what 4 nodes admit of one key that is offered 50 times the limit
//	syncbench over -skew 5s         the same where one node's clock is ahead
//	syncbench pace [-windows 20]    how long their decisions take meanwhile, beside a limiter's that does not share
//	syncbench volume [-seconds 60]  what 4 nodes exchange over a million keys
//	syncbench kill [-down 5s]       what decisions wait, and what is lost, when Redis is killed and comes back
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

const nodes = 4

// load is what a node does, and how its limiter is built.
type load struct {
	Addr     string
	Limit    int
	Window   time.Duration
	Interval time.Duration
	Keys     int
	Rate     int // requests a second
	Start    time.Time
	End      time.Time
	Skew     time.Duration // that the node's clock is ahead
	Number   uint64
	Pace     bool // how long decisions take is measured
}

// result is what a node tells, one line of JSON.
type result struct {
	Admitted map[int64]int           // by generation
	Stood    map[int64]time.Duration // the longest time that the node stood still, by generation
	Offered  int
	Stats    redislimit.SyncedStats
	Longest  time.Duration // a decision took
	Pace     pace
}

func main() {
	log.SetFlags(0)
	flags := flag.NewFlagSet("syncbench", flag.ExitOnError)
	windows := flags.Int("windows", 20, "windows of 10 s to measure")
	seconds := flags.Int("seconds", 60, "seconds to measure")
	skew := flags.Duration("skew", 0, "that the last node's clock is ahead")
	down := flags.Duration("down", 5*time.Second, "that Redis is away")
	if len(os.Args) < 2 {
		log.Fatal("syncbench: over, pace, volume or kill, must be one")
	}
	flags.Parse(os.Args[2:])
	switch os.Args[1] {
	case "over":
		over(*windows, *skew)
	case "pace":
		paces(*windows)
	case "volume":
		volume(*seconds)
	case "kill":
		kill(*down)
	case "node":
		node()
	default:
		log.Fatalf("syncbench: %s, must be over, pace, volume or kill", os.Args[1])
	}
}

// hot is one key that all nodes together are offered 50 times the limit of, for a window more
// than is measured.
func hot(windows int) load {
	const limit, window = 1000, 10 * time.Second
	start := time.Now().Truncate(window).Add(window)
	return load{Limit: limit, Window: window, Interval: 100 * time.Millisecond, Keys: 1, Rate: 50 * limit / 10 / nodes,
		Start: start, End: start.Add(time.Duration(windows+1) * window)}
}

func over(windows int, skew time.Duration) {
	l := hot(windows)
	limit, window, interval := l.Limit, l.Window, l.Interval
	results, _ := run(l, skew)
	first := l.Start.UnixNano()/int64(window) + 1 // the one before has a limit of its own
	var quiet, all []int                          // units admitted in each window
	for g := first; g < first+int64(windows); g++ {
		sum, stood := 0, time.Duration(0)
		for _, r := range results {
			sum += r.Admitted[g]
			stood = max(stood, r.Stood[g], r.Stood[g-1])
		}
		all = append(all, sum)
		if stood < interval/2 {
			quiet = append(quiet, sum)
		}
	}
	var longest time.Duration
	offered := 0
	for _, r := range results {
		longest = max(longest, r.Longest)
		offered += r.Offered
	}
	bound := (nodes - 1) * min(limit, int(float64(l.Rate)*(2*interval+5*time.Millisecond).Seconds()))
	fmt.Printf("%d nodes, limit %d per %v, one key, offered %.1f times the limit, interval %v, one clock %v ahead; the bound is %d, %.1f %% over\n",
		nodes, limit, window, float64(offered)/float64(limit*(windows+1)), interval, skew, limit+bound, 100*float64(bound)/float64(limit))
	admitted("all windows", all, limit)
	admitted(fmt.Sprintf("windows in which, and in the one before, no node stood still for %v", interval/2), quiet, limit)
	fmt.Printf("longest decision %v; clocks %v ahead of Redis'; failed exchanges %d\n",
		longest, results[nodes-1].Stats.ClockSkew, results[0].Stats.Failures)
}

func admitted(which string, windows []int, limit int) {
	if len(windows) == 0 {
		fmt.Printf("%s: none\n", which)
		return
	}
	sum, most := 0, slices.Max(windows)
	for _, n := range windows {
		sum += n
	}
	fmt.Printf("%s: %d, admitted %.1f on average, %d at most: %.1f %% over\n",
		which, len(windows), float64(sum)/float64(len(windows)), most, 100*float64(most-limit)/float64(limit))
}

func volume(seconds int) {
	start := time.Now().Add(time.Second)
	l := load{Limit: 100, Window: time.Minute, Interval: time.Second, Keys: 1e6, Rate: 10_000, Start: start, End: start.Add(time.Duration(seconds) * time.Second)}
	results, info := run(l, 0)
	for i, r := range results {
		fmt.Printf("node %d: %d requests/s, sent %.1f and received %.1f KB an exchange\n", i, r.Offered/seconds,
			float64(r.Stats.SentBytes)/1e3/float64(r.Stats.Exchanges), float64(r.Stats.ReceivedBytes)/1e3/float64(r.Stats.Exchanges))
	}
	fmt.Printf("Redis by its own count: %.1f KB/s a node in, %.1f out; memory %.1f MB; CPU %.1f %%\n",
		number(info, "total_net_input_bytes:")/1e3/nodes/float64(seconds), number(info, "total_net_output_bytes:")/1e3/nodes/float64(seconds),
		number(info, "used_memory_dataset:")/1e6,
		100*(number(info, "used_cpu_user:")+number(info, "used_cpu_sys:"))/float64(seconds))
}

func number(info, field string) float64 {
	_, after, _ := strings.Cut(info, field)
	n, _ := strconv.ParseFloat(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]), 64)
	return n
}

// run starts the nodes and returns what they tell, and what Redis tells.
func run(l load, skew time.Duration) (results []result, info string) {
	dir, err := os.MkdirTemp("", "syncbench")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := redistest.Start(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Kill()
	l.Addr = server.Addr
	results = make([]result, nodes)
	var wg sync.WaitGroup
	for i := range nodes {
		l := l
		l.Number = uint64(i)
		if i == nodes-1 {
			l.Skew = skew
		}
		arg, err := json.Marshal(l)
		if err != nil {
			log.Fatal(err)
		}
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "node", string(arg))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(out, &results[i])
			}
			if err != nil {
				log.Printf("node %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	info = redis.NewClient(&redis.Options{Addr: server.Addr}).Info(context.Background()).Val()
	fmt.Printf("%s, %d CPUs, redis %s\n", runtime.Version(), runtime.NumCPU(), strings.TrimSpace(strings.SplitN(strings.SplitN(info, "redis_version:", 2)[1], "\n", 2)[0]))
	return results, info
}

func node() {
	var l load
	if err := json.Unmarshal([]byte(os.Args[2]), &l); err != nil {
		log.Fatal(err)
	}
	clock := func() time.Time { return time.Now().Add(l.Skew) }
	config := sketchlimit.Config{Limit: l.Limit, Window: l.Window, Keys: 3 * max(1000, l.Keys), Seed: 1}
	if l.Skew != 0 {
		config.Clock = clock
	}
	limiter, err := sketchlimit.New(config)
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: l.Addr})
	s, err := redislimit.NewSynced(client, limiter, l.Interval)
	if err != nil {
		log.Fatal(err)
	}
	r, missed := result{Admitted: map[int64]int{}, Stood: map[int64]time.Duration{}}, 0
	random := rand.New(rand.NewPCG(l.Number, 1))
	key := make([]byte, 16)
	time.Sleep(time.Until(l.Start))
	if l.Pace {
		plain, err := sketchlimit.New(config)
		if err != nil {
			log.Fatal(err)
		}
		r.Pace, r.Offered = l.measure(s, plain)
	}
	generation := func(at time.Time) int64 { return at.UnixNano() / int64(l.Window) }
	for now, last := time.Now(), l.Start; now.Before(l.End); now, last = time.Now(), now {
		for g := generation(last.Add(l.Skew)); g <= generation(now.Add(l.Skew)); g++ {
			r.Stood[g] = max(r.Stood[g], now.Sub(last))
		}
		due := int(now.Sub(l.Start).Seconds()*float64(l.Rate)) - missed
		if most := l.Rate / 50; due-r.Offered > most { // stopped for long: clients do not wait
			missed += due - r.Offered - most
			due = r.Offered + most
		}
		for ; r.Offered < due; r.Offered++ {
			binary.LittleEndian.PutUint64(key, random.Uint64N(uint64(l.Keys)))
			before := clock()
			if s.Do(sketchlimit.Request{Bytes: key}).Allowed {
				r.Admitted[generation(before)]++
			}
			r.Longest = max(r.Longest, clock().Sub(before))
		}
		time.Sleep(time.Millisecond)
	}
	r.Stats = s.Stats()
	r.Stats.Err = nil
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		log.Fatal(err)
	}
}
