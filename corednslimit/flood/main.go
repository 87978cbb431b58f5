// Command flood shows what response rate limiting does in a flood from forged
// addresses: sketch_rrl beside no limit, beside a table of 100,000 accounts as plugin
// rrl documents it, and beside one that evicts any account when it is full, as sources
// of rrl do.
//
//	go run ./flood            # a chain of plugins, as fast as this machine goes
//	go run ./flood -udp       # a CoreDNS on the loopback, by UDP
//
// Three kinds of clients ask for one name: a million networks that are forged and ask
// now and then; victims, whose addresses are forged to have them flooded; and
// innocents, who ask 20 times a second.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// kind is one of client.
type kind int

const (
	trickle kind = iota // of the flood of a million
	victim
	innocent
	kinds
)

// plan is what is asked.
type plan struct {
	networks  int // of the trickle
	victims   int
	innocents int
	victimQPS float64
	calmQPS   float64
	floodQPS  float64 // of the trickle; 0: as fast as it goes
	allowance int
	memory    string
	span      time.Duration
	fill      time.Duration // before the victims' flood begins
}

// of returns how many clients of a kind there are.
func (p *plan) of(k kind) int { return [kinds]int{p.networks, p.victims, p.innocents}[k] }

// block is the block of a Corefile.
func (p *plan) block(limiter string, bits int) string {
	memory := ""
	if limiter == "sketch_rrl" {
		memory = "memory " + p.memory
	}
	return fmt.Sprintf("%s . {\nresponses-per-second %d\nslip-ratio 2\nipv4-prefix-length %d\n%s\n}", limiter, p.allowance, bits, memory)
}

// tally counts the queries and the answers of one kind of client.
type tally struct{ asked, whole, truncated int }

func (t *tally) add(u tally) {
	t.asked, t.whole, t.truncated = t.asked+u.asked, t.whole+u.whole, t.truncated+u.truncated
}

// result is what came of a plan.
type result struct {
	of     [kinds]tally
	took   time.Duration
	before uint64 // bytes of the heap that are in use; 0 if nobody has looked
	after  uint64
	rate   float64 // of false denials, as the limiter says; below 0 if it does not
	bytes  int     // as the limiter says
	lost   int     // queries and answers, by sockets
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

var limiters = []string{"none", tableName, evictingName, "sketch_rrl"}

func main() {
	var p plan
	udp := flag.Bool("udp", false, "by UDP")
	flag.IntVar(&p.networks, "networks", 1_000_000, "forged networks that ask now and then")
	flag.IntVar(&p.victims, "victims", 20, "forged networks that are flooded")
	flag.Float64Var(&p.victimQPS, "victim-qps", 2000, "queries a second that are forged for each of these")
	flag.IntVar(&p.innocents, "innocents", 1000, "networks that ask 20 times a second")
	flag.Float64Var(&p.floodQPS, "flood-qps", 0, "queries a second from the forged networks; 0: as many as can be")
	flag.IntVar(&p.allowance, "allowance", 100, "responses-per-second")
	flag.StringVar(&p.memory, "memory", "16MiB", "memory of sketch_rrl")
	flag.DurationVar(&p.span, "for", 30*time.Second, "how long, each limiter")
	flag.DurationVar(&p.fill, "fill", 10*time.Second, "when the flood of the victims begins")
	flag.Parse()
	p.calmQPS = 20

	run := runChain
	if *udp {
		run = runUDP
	}
	var results []result
	for _, limiter := range limiters {
		r, err := run(&p, limiter)
		if err != nil {
			log.Fatal(err)
		}
		results = append(results, r)
	}
	print(&p, results)
}

// print writes the table.
func print(p *plan, results []result) {
	fmt.Printf("%d forged networks; %d victims at %v q/s from %v on; %d innocents at %v q/s; %d responses a second, slip-ratio 2; %v\n\n",
		p.networks, p.victims, p.victimQPS, p.fill, p.innocents, p.calmQPS, p.allowance, p.span)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	row := func(cells ...string) { fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	row("", "queries/s", "innocents unanswered", "forged networks unanswered", "answers a victim", "truncated", "of queries", "heap", "as told")
	row(strings.Split(strings.Repeat("---,", 8)+"---", ",")...)
	for i, r := range results {
		asked := 0
		for _, t := range r.of {
			asked += t.asked
		}
		note := ""
		if r.lost > 0 {
			note = fmt.Sprintf("%d lost by sockets", r.lost)
		}
		if r.rate >= 0 {
			note = fmt.Sprintf("%.1f MiB, false denials %.1g", float64(r.bytes)/(1<<20), r.rate)
		}
		grown := ""
		if r.before > 0 {
			grown = fmt.Sprintf("%+.1f MiB", (float64(r.after)-float64(r.before))/(1<<20))
		}
		victims := float64(p.victims)
		v := r.of[victim]
		row(limiters[i], fmt.Sprintf("%.0f", float64(asked)/r.took.Seconds()), unanswered(r.of[innocent]), unanswered(r.of[trickle]),
			fmt.Sprintf("%.0f", float64(v.whole)/victims), fmt.Sprintf("%.0f", float64(v.truncated)/victims),
			fmt.Sprintf("%.0f", float64(v.asked)/victims),
			grown, note)
	}
	w.Flush()
}

// unanswered says how many queries of a kind had no whole answer.
func unanswered(t tally) string {
	lost := t.asked - t.whole
	return fmt.Sprintf("%d of %d (%.2g %%)", lost, t.asked, 100*float64(lost)/float64(max(1, t.asked)))
}
