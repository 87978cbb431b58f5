package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

//go:embed page.html
var page []byte

// played names the limiter that a process plays to, and settled has its settings: the
// program starts itself once for each.
const (
	played  = "FOURWAYS_LIMITER"
	settled = "FOURWAYS_SETTINGS"
)

func main() {
	var err error
	if name := os.Getenv(played); name != "" {
		err = playOne(name, os.Getenv(settled), os.Stdout)
	} else {
		err = run(os.Args[1:], os.Stdout, os.Stderr)
	}
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fourways:", err)
		os.Exit(1)
	}
}

func playOne(name, text string, out io.Writer) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	for i := range kinds {
		if kinds[i].Name == name {
			return play(&s, &kinds[i], out)
		}
	}
	return fmt.Errorf("no limiter %q", name)
}

func parse(args []string, errOut io.Writer) (s *settings, addr string, err error) {
	s = new(settings)
	flags := flag.NewFlagSet("fourways", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&addr, "listen", "127.0.0.1:8095", "`address` of the page")
	flags.IntVar(&s.Limit, "limit", 10, "requests of a client in a window")
	flags.DurationVar(&s.Window, "window", time.Minute, "span of the limit")
	flags.DurationVar(&s.For, "for", time.Minute, "how long it takes")
	flags.DurationVar(&s.Quiet, "quiet", 15*time.Second, "how long ordinary clients are alone")
	flags.IntVar(&s.Regulars, "regulars", 100_000, "clients that ask again and again")
	flags.DurationVar(&s.Every, "every", 15*time.Second, "how often each of them asks")
	flags.IntVar(&s.Newcomers, "newcomers", 500, "new clients a second, which ask once")
	flags.IntVar(&s.Attack, "attack", 50_000, "requests of the attack a second")
	network := flags.String("network", "2001:db8:bad::/48", "`prefix` of the attacker, /32 … /63")
	if err := flags.Parse(args); err != nil {
		return nil, "", err
	}
	if s.Network, err = netip.ParsePrefix(*network); err != nil {
		return nil, "", fmt.Errorf("-network: %w", err)
	}
	return s, addr, s.check(flags.Args())
}

func (s *settings) check(rest []string) error {
	const most = 1 << 20 // a second, or clients: more is not for one machine
	between := func(name string, n, least, most int) error {
		if n < least || n > most {
			return fmt.Errorf("-%s %d, must be %d … %d", name, n, least, most)
		}
		return nil
	}
	errs := []error{
		between("limit", s.Limit, 1, 1_000_000), between("regulars", s.Regulars, 1, most),
		between("newcomers", s.Newcomers, 1, most), between("attack", s.Attack, 1, most),
	}
	switch bits := s.Network.Bits(); {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case !s.Network.Addr().Is6() || bits < 32 || bits > 63:
		return fmt.Errorf("-network %v, must be an IPv6 prefix of 32 … 63 bits", s.Network)
	case s.Window < time.Second || s.Every < time.Second:
		return fmt.Errorf("-window %v and -every %v, must be at least 1s", s.Window, s.Every)
	case s.For < 2*time.Second || s.For > time.Hour || s.Quiet < 0 || s.Quiet >= s.For:
		return fmt.Errorf("-for %v, must be 2s … 1h and longer than -quiet %v", s.For, s.Quiet)
	}
	return errors.Join(errs...)
}

// state is what the page shows.
type state struct {
	Settings *settings `json:"settings"`
	Ways     []way     `json:"ways"`

	mu sync.Mutex
}

type way struct {
	kind
	Samples []sample `json:"samples"`
}

func (s *state) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.URL.Path {
	case "/":
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page)
	case "/status":
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(s)
	default:
		http.NotFound(w, r)
	}
}

func run(args []string, out, errOut io.Writer) error {
	settings, addr, err := parse(args, errOut)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := &state{Settings: settings}
	for _, k := range kinds {
		s.Ways = append(s.Ways, way{k, []sample{}})
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go server.Serve(listener)
	defer server.Close()
	fmt.Fprintf(errOut, "live for %v: http://%s\n", settings.For, listener.Addr())
	if err := s.play(ctx); err != nil {
		return err
	}
	time.Sleep(2 * interval) // who looks at the page gets the last sample
	return s.print(out)
}

// play runs a process for each limiter, and reads their samples.
func (s *state) play(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(s.Settings)
	if err != nil {
		return err
	}
	errs := make([]error, len(s.Ways))
	var all sync.WaitGroup
	for i := range s.Ways {
		all.Go(func() {
			errs[i] = s.one(ctx, i, self, string(text))
			if errs[i] != nil {
				stop()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *state) one(ctx context.Context, i int, self, settings string) error {
	name := s.Ways[i].Name
	process := exec.CommandContext(ctx, self)
	process.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOMAXPROCS=") }),
		played+"="+name, settled+"="+settings, "GOMAXPROCS=1")
	process.Stderr = os.Stderr
	samples, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return err
	}
	for decoder := json.NewDecoder(samples); ; {
		var next sample
		if decoder.Decode(&next) != nil {
			break // it has ended, and how says Wait
		}
		s.mu.Lock()
		s.Ways[i].Samples = append(s.Ways[i].Samples, next)
		s.mu.Unlock()
	}
	if err := process.Wait(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// print writes what came of it as a table.
func (s *state) print(out io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "limiter\tmemory, quiet\tmemory, at the end\tattack that passed\tinnocents refused\t")
	for _, w := range s.Ways {
		if len(w.Samples) == 0 {
			return fmt.Errorf("%s: no sample", w.Name)
		}
		last, quiet := w.Samples[len(w.Samples)-1], w.Samples[0]
		for _, sample := range w.Samples {
			if sample.Attacks == 0 {
				quiet = sample
			}
		}
		fmt.Fprintf(t, "%s\t%.1f MiB\t%.1f MiB\t%.2f %%\t%.4f %%\t\n", w.Name, mib(quiet.Bytes), mib(last.Bytes),
			percent(last.AttacksPassed, last.Attacks), percent(last.InnocentsRefused, last.Innocents))
	}
	return t.Flush()
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(1, whole)) }
