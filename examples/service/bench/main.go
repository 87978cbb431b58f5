// Command bench tells what limits cost the example service: requests a second of the
// API alone, behind its limits and behind one limit, alternating, with 64 connections
// and a million clients, and the memory that the limits take.
//
//	go run -C examples/service ./bench -write ../../notes/http.md
//
// It loads the service, on the loopback interface, with wrk or, where there is none,
// with a generator of its own, which is slower and so tells less.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	connections = 64
	rounds      = 5
	proxies     = "127.0.0.0/8,::1/128" // that the services believe
)

func main() {
	duration := flag.Duration("duration", 10*time.Second, "of each of the fifteen runs, whole seconds")
	write := flag.String("write", "", "write the result between the markers of this Markdown `file`")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 230*time.Second)
	defer cancel()
	if err := run(ctx, *duration, *write); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, duration time.Duration, write string) error {
	directory, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	binary, none := filepath.Join(directory, "service"), filepath.Join(directory, "none.yaml")
	if err := os.WriteFile(none, []byte("domain: none\n"), 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	sides := []*side{
		{name: "handler alone", args: []string{"-unlimited", "-rules", none}},
		{name: "behind its limits", args: []string{"-rules", "rules.yaml", "-proxies", proxies}},
		{name: "behind one limit", args: []string{"-rules", filepath.Join("bench", "one.yaml"), "-proxies", proxies}},
	}
	for _, s := range sides {
		if s.service, err = start(ctx, binary, s.args...); err != nil {
			return err
		}
		defer s.service.stop()
	}

	load, name := generator(directory)
	result, err := measure(ctx, load, duration, sides)
	if err != nil {
		return err
	}
	text := result.markdown(name, duration)
	fmt.Print(text)
	if write == "" {
		return nil
	}
	return insert(write, text)
}

// service is the example, running.
type service struct {
	command        *exec.Cmd
	api, operators string // addresses
}

var listening = regexp.MustCompile(`endpoint=(\w+) address=(\S+)`)

// start starts the service at addresses of its own choice.
func start(ctx context.Context, binary string, args ...string) (*service, error) {
	s := &service{command: exec.CommandContext(ctx, binary, append(args, "-address", "localhost:0", "-operators", "localhost:0")...)}
	log, err := s.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(log)
	for (s.api == "" || s.operators == "") && lines.Scan() {
		switch found := listening.FindStringSubmatch(lines.Text()); {
		case found == nil:
			s.stop()
			return nil, fmt.Errorf("service %q: %s", args, lines.Text())
		case found[1] == "api":
			s.api = found[2]
		default:
			s.operators = found[2]
		}
	}
	go io.Copy(io.Discard, log)
	return s, nil
}

func (s *service) stop() {
	s.command.Process.Signal(os.Interrupt)
	s.command.Wait() // it has said what it had to say
}

// status is what the bench asks of the service's.
type status struct {
	Requests    uint64 `json:"requests"`
	Refused     uint64 `json:"refused"`
	MemoryBytes int    `json:"memory_bytes"`
	Rules       []struct {
		Keys float64 `json:"distinct_keys"`
	} `json:"rules"`
}

func (s *service) get(path string) ([]byte, error) {
	response, err := http.Get("http://" + s.operators + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return body, err
}

func (s *service) status() (st status, err error) {
	body, err := s.get("/status")
	if err == nil {
		err = json.Unmarshal(body, &st)
	}
	return st, err
}

// metric returns one of /metrics.
func (s *service) metric(name string) (float64, error) {
	body, err := s.get("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("no %s in /metrics", name)
}

const (
	liveHeap = "go_gc_heap_live_bytes"     // that the last garbage collection left
	cpu      = "process_cpu_seconds_total" // of the service
)

// speed is what a service did under load.
type speed struct {
	rate float64 // requests a second
	cpu  float64 // seconds a request
}

// side is one of those that take turns.
type side struct {
	name    string
	args    []string // of the service
	service *service
	runs    []speed // by round
}

// result is what was measured.
type result struct {
	sides  []*side // the handler alone, then behind its limits, then others
	status status
	heap   float64 // bytes that the limited service has more than the bare one
}

// measure alternates between the sides, after a short run of each that does not count.
func measure(ctx context.Context, load load, duration time.Duration, sides []*side) (*result, error) {
	r := result{sides: sides}
	for round := range 1 + rounds {
		for _, s := range sides {
			d := duration
			if round == 0 {
				d = time.Second
			}
			got, err := s.service.under(ctx, load, d)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				s.runs = append(s.runs, got)
			}
		}
	}
	bare, limited := sides[0].service, sides[1].service
	var err error
	if r.status, err = limited.status(); err != nil {
		return nil, err
	}
	without, err := bare.heap()
	if err != nil {
		return nil, err
	}
	with, err := limited.heap()
	r.heap = with - without
	return &r, err
}

// heap returns the bytes that are in use. Pools let go of theirs at the second
// collection.
func (s *service) heap() (float64, error) {
	for range 2 {
		if _, err := s.get("/debug/pprof/heap?gc=1"); err != nil {
			return 0, err
		}
	}
	return s.metric(liveHeap)
}

// under loads the service.
func (s *service) under(ctx context.Context, load load, d time.Duration) (speed, error) {
	before, err := s.metric(cpu)
	if err != nil {
		return speed{}, err
	}
	rate, err := load(ctx, s.api, d)
	if err != nil {
		return speed{}, err
	}
	after, err := s.metric(cpu)
	return speed{rate, (after - before) / (rate * d.Seconds())}, err
}

// medians returns those of rate and cpu, each by itself.
func medians(runs []speed) speed {
	var rates, cpus []float64
	for _, r := range runs {
		rates, cpus = append(rates, r.rate), append(cpus, r.cpu)
	}
	slices.Sort(rates)
	slices.Sort(cpus)
	return speed{rates[len(rates)/2], cpus[len(cpus)/2]}
}

func (r *result) markdown(generator string, duration time.Duration) string {
	var b strings.Builder
	b.WriteString("| requests a second |" + strings.Repeat(" |", rounds) + " median | cost | CPU |\n|---|" + strings.Repeat("---|", rounds+3) + "\n")
	bare := medians(r.sides[0].runs)
	for _, s := range r.sides {
		fmt.Fprintf(&b, "| %s |", s.name)
		for _, run := range s.runs {
			fmt.Fprintf(&b, " %.0f |", run.rate)
		}
		m := medians(s.runs)
		fmt.Fprintf(&b, " %.0f | %.1f %% | %.1f µs |\n", m.rate, 100*(1-m.rate/bare.rate), 1e6*m.cpu)
	}
	b.WriteString("\nCost is the share of the requests a second that is lost, by the medians. CPU is the service's time a request. The limits\n" +
		"are those of rules.yaml; the one limit is its first, the client's. ")
	fmt.Fprintf(&b, "They state %.2f MiB, and the heap of the service has\n%.2f MiB more than without them. ",
		float64(r.status.MemoryBytes)/(1<<20), r.heap/(1<<20))
	fmt.Fprintf(&b, "%d requests were held against them, %d refused.\n\n", r.status.Requests, r.status.Refused)
	fmt.Fprintf(&b, "`make bench-http`: %s, %d connections, %d runs of %v each in turns, a million clients drawn at random;\n%s, %d cores shared with the load, %s.\n",
		generator, connections, rounds, duration, runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly))
	return b.String()
}

const begin, end = "<!-- bench-http:begin -->\n", "<!-- bench-http:end -->\n"

// insert puts the text between the markers of a file.
func insert(file, text string) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(document), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s: no %q … %q", file, begin, end)
	}
	return os.WriteFile(file, []byte(before+begin+text+end+after), 0o644)
}
