// Command bench measures what sketch_rate_limit costs Caddy: servers with it and
// without it answer the same requests, of a million random keys, one after the other in
// turns, and wrk counts. Each server is a process of its own. It prints the median of
// the turns of each, and what its memory is at the end.
//
//	go run -C caddylimit ./bench
//
// It needs wrk, which is a package of Debian.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"

	_ "github.com/sketchlimit/sketchlimit/caddylimit"
)

const zone = `
	zone api {
		key {http.request.header.Key}
		window 1h
		events 100
		keys 1000000
	}`

// variants are the directives of the servers that are compared.
var variants = []struct{ name, directives string }{
	{"without", ""},
	{"with", "sketch_rate_limit {" + zone + "\n}"},
	{"with, disable_metrics", "sketch_rate_limit {" + zone + "\ndisable_metrics\n}"},
}

// script has wrk send random keys. All servers get the same.
const script = `
init = function() math.randomseed(os.time()) end
request = function()
	return wrk.format("GET", "/", {["Key"] = "key" .. math.random(1, 1000000)})
end
`

const childVariable = "CADDYLIMIT_BENCH_CADDYFILE"

func main() {
	log.SetFlags(0)
	if caddyfile := os.Getenv(childVariable); caddyfile != "" {
		if err := serve(caddyfile); err != nil {
			log.Fatal(err)
		}
		return
	}
	turns := flag.Int("turns", 9, "turns of each server")
	duration := flag.Duration("duration", 5*time.Second, "of a turn, whole seconds")
	connections := flag.Int("connections", 32, "of wrk")
	flag.Parse()
	if err := compare(*turns, *duration, *connections); err != nil {
		log.Fatal(err)
	}
}

// serve is what the processes of the servers do, until there is no more to read.
func serve(caddyfile string) error {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	if err != nil {
		return err
	}
	if err := caddy.Load(config, true); err != nil {
		return err
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return caddy.Stop()
}

// server is one of the processes.
type server struct {
	name    string
	address string
	process *exec.Cmd
	rates   []float64 // requests a second, of each turn
	costs   []float64 // of the processor, microseconds a request, of each turn
	refused int
}

func compare(turns int, duration time.Duration, connections int) error {
	dir, err := os.MkdirTemp("", "caddylimit")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lua := filepath.Join(dir, "keys.lua")
	if err := os.WriteFile(lua, []byte(script), 0o600); err != nil {
		return err
	}
	var servers []*server
	for _, v := range variants {
		s, err := start(v.name, v.directives, filepath.Join(dir, fmt.Sprint(len(servers))))
		if err != nil {
			return err
		}
		defer s.process.Process.Kill()
		servers = append(servers, s)
	}
	for turn := range turns + 1 { // the first one warms up
		for i := range servers {
			s := servers[(turn+i)%len(servers)]
			if err := s.load(lua, duration, connections); err != nil {
				return err
			}
			if turn == 0 {
				s.rates, s.costs = nil, nil
			}
		}
	}
	fmt.Println("| sketch_rate_limit | requests/s, median | least … most | beside without | CPU a request | " +
		"refused | resident |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, s := range servers {
		rate := median(s.rates)
		fmt.Printf("| %s | %.0f | %.0f … %.0f | %.3f | %.1f µs | %d | %s |\n", s.name, rate, slices.Min(s.rates),
			slices.Max(s.rates), rate/median(servers[0].rates), median(s.costs), s.refused, s.resident())
	}
	return nil
}

// start runs a server that listens at a free port.
func start(name, directives, home string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{name: name, address: l.Addr().String(), process: exec.Command(binary)}
	caddyfile := fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	storage file_system %s
	log {
		level ERROR
	}
}
http://:%d {
	bind 127.0.0.1
	%s
	respond ok
}
`, home, l.Addr().(*net.TCPAddr).Port, directives)
	s.process.Env = append(os.Environ(), childVariable+"="+caddyfile, "XDG_DATA_HOME="+home)
	s.process.Stderr = os.Stderr
	if _, err := s.process.StdinPipe(); err != nil { // ends with this process
		return nil, err
	}
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("server %s: %q, %w", name, line, err)
	}
	return s, nil
}

var (
	rate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	requests = regexp.MustCompile(`(\d+) requests in `)
	others   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	failed   = regexp.MustCompile(`Socket errors: .*`)
)

// load has wrk send requests for a while.
func (s *server) load(lua string, duration time.Duration, connections int) error {
	before, err := s.cpu()
	if err != nil {
		return err
	}
	out, err := exec.Command("wrk", "-t1", fmt.Sprint("-c", connections), fmt.Sprint("-d", int(duration.Seconds())),
		"-s", lua, "http://"+s.address+"/").CombinedOutput()
	if err != nil {
		return fmt.Errorf("wrk: %w: %s", err, out)
	}
	if f := failed.Find(out); f != nil {
		return fmt.Errorf("wrk: %s", f)
	}
	after, err := s.cpu()
	if err != nil {
		return err
	}
	found, count := rate.FindSubmatch(out), requests.FindSubmatch(out)
	if found == nil || count == nil {
		return fmt.Errorf("wrk told no rate: %s", out)
	}
	r, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return err
	}
	n, err := strconv.ParseFloat(string(count[1]), 64)
	if err != nil {
		return err
	}
	s.rates, s.costs = append(s.rates, r), append(s.costs, float64((after-before).Microseconds())/n)
	if o := others.FindSubmatch(out); o != nil {
		n, err := strconv.Atoi(string(o[1]))
		if err != nil {
			return err
		}
		s.refused += n
	}
	return nil
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// cpu returns the processors' time that the process has had.
func (s *server) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	const ticks = 100 // a second, on all machines of Linux that Go knows
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks, err
}

// resident returns the memory of the process as Linux tells it.
func (s *server) resident() string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}
