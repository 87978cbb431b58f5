package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit"
)

const (
	workersLast  = 20 * time.Second
	workerWindow = time.Second
	hotKey       = -1
)

// admission is a unit that was admitted between two times of the clock that the server
// reads too.
type admission struct {
	which     int // of algorithms
	key       int
	from, end int64 // µs
}

// processes lets 8 processes take units of one hot key and of 100,000 others for twenty
// windows at the server's time, and holds what was admitted against the limit.
func processes(w io.Writer, addr string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	admitted := make(chan admission, 1024)
	errs := make(chan error, fleetSize)
	var all sync.WaitGroup
	for range fleetSize {
		cmd := exec.Command(self, "-worker", "processes", "-addr", addr)
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		all.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var a admission
				if _, err := fmt.Sscan(lines.Text(), &a.which, &a.key, &a.from, &a.end); err != nil {
					errs <- err
					break
				}
				admitted <- a
			}
			if err := cmd.Wait(); err != nil {
				errs <- err
			}
		})
	}
	go func() { all.Wait(); close(admitted); close(errs) }()
	tallies := make([]tally, len(algorithms))
	for i := range tallies {
		tallies[i] = tally{map[int]map[int64]int{}, map[int]int{}, 0, 0}
	}
	for a := range admitted {
		tallies[a.which].add(a)
	}
	if err := <-errs; err != nil {
		return err
	}
	fmt.Fprintln(w, "| 8 processes, 100 a second | admitted | of the hot key | keys | windows | most of a key in a window | above the limit |\n|---|---|---|---|---|---|---|")
	for i, a := range algorithms {
		tallies[i].print(w, a)
	}
	return nil
}

// work is one of the processes: it prints each unit that it was admitted.
func work(addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	var mu sync.Mutex
	var all sync.WaitGroup
	end := time.Now().Add(workersLast)
	for i, a := range algorithms {
		s, err := redislimit.NewStrict(client, config(a, limit, workerWindow))
		if err != nil {
			return err
		}
		for caller := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(caller)))
				for from := time.Now(); from.Before(end); {
					key := hotKey
					switch random.IntN(4) {
					case 0: // some come up to the limit
						key = int(manyNames * math.Pow(random.Float64(), 6))
					case 1:
						key = random.IntN(manyNames)
					}
					ok, err := s.Allow(context.Background(), name(key))
					now := time.Now()
					if ok && err == nil {
						mu.Lock()
						fmt.Fprintln(out, i, key, from.UnixMicro(), now.UnixMicro())
						mu.Unlock()
					}
					from = now
				}
			})
		}
	}
	all.Wait()
	return nil
}

// tally counts what was admitted for certain in each window, by key, and in all.
type tally struct {
	sure        map[int]map[int64]int
	sums        map[int]int
	first, last int64 // windows, of any admission
}

func (t *tally) add(a admission) {
	window := workerWindow.Microseconds()
	from, end := a.from/window, a.end/window
	t.sums[a.key]++
	if t.first == 0 || from < t.first {
		t.first = from
	}
	t.last = max(t.last, end)
	if from != end {
		return
	}
	if t.sure[a.key] == nil {
		t.sure[a.key] = map[int64]int{}
	}
	t.sure[a.key][from]++
}

// print states what is above what may be: the limit in a window (twice that of a bucket,
// which may be full when it begins), and in all.
func (t *tally) print(w io.Writer, a sketchlimit.Algorithm) {
	windows, sum, most, above := int(t.last-t.first+1), 0, 0, 0
	perWindow, inAll := limit, limit*windows
	if a == sketchlimit.TokenBucket {
		perWindow, inAll = 2*limit, limit*(windows+1)
	}
	for _, counts := range t.sure {
		for _, n := range counts {
			most = max(most, n)
			above += max(0, n-perWindow)
		}
	}
	for _, n := range t.sums {
		sum += n
		above += max(0, n-inAll)
	}
	fmt.Fprintf(w, "| `Strict`, %v | %d | %d | %d | %d | %d | %d |\n", a, sum, t.sums[hotKey], len(t.sums), windows, most, above)
}
