package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/promlimit"
	"github.com/sketchlimit/sketchlimit/rules"
	"github.com/sketchlimit/sketchlimit/rules/operators"
	"github.com/sketchlimit/sketchlimit/topkeys"
)

type config struct {
	file      string
	bytes     int
	proxies   []netip.Prefix
	unlimited bool
	top       time.Duration // window in which refusals are counted by key
}

// service is an API and what its operators see of it.
type service struct {
	api, operators http.Handler

	logger   *slog.Logger
	file     string
	rules    *rules.Rules
	top      *topkeys.Top
	page     *operators.Page
	lines    *sketchlimit.Limiter // of log lines about refusals
	requests atomic.Uint64
	passed   atomic.Uint64
}

func newService(c config, logger *slog.Logger) (*service, error) {
	s := &service{logger: logger, file: c.file}
	var err error
	if s.rules, err = rules.Load(c.bytes, c.file); err != nil {
		return nil, err
	}
	if s.top, err = topkeys.New(1000, c.top); err != nil {
		return nil, err
	}
	s.lines, err = sketchlimit.New(sketchlimit.Config{Limit: 1, Window: time.Second, Keys: 100})
	if err != nil {
		return nil, err
	}
	refusals, count := promlimit.Refusals()
	clients := &httplimit.Clients{Proxies: c.proxies}
	decider, err := s.rules.HTTP("api", describe(clients))
	if err != nil {
		return nil, err
	}
	limit, err := httplimit.NewPolicies(decider,
		count,
		httplimit.LogRefusals(logger, s.lines, rules.KeyText),
		httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) {
			if !p.Shadow {
				s.top.Add(p.Name, p.Key, 1)
			}
		}))
	if err != nil {
		return nil, err
	}
	if c.unlimited {
		limit = func(next http.Handler) http.Handler { return next }
	}
	s.api = counting(&s.requests, limit(counting(&s.passed, api())))
	s.page = s.newPage()
	s.operators = s.operatorsHandler(refusals)
	return s, nil
}

// describe returns what rules can be about: the client, and the client and the path.
func describe(clients *httplimit.Clients) func(*rules.Descriptors, *http.Request) {
	return func(d *rules.Descriptors, r *http.Request) {
		client := rules.Entry{Key: "client", Value: clients.Text(r)}
		d.Add(client)
		d.Add(client, rules.Entry{Key: "path", Value: r.URL.Path})
	}
}

func counting(n *atomic.Uint64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		next.ServeHTTP(w, r)
	})
}

// api is what the service is for.
func api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /search", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"query": r.FormValue("q"), "found": []string{"/items/1", "/items/2"}})
	})
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"id": r.PathValue("id"), "name": "An item"})
	})
	return mux
}

// answer sends a value that has a JSON form.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}

// watch reads the rules again on SIGHUP, and when their file has changed, and logs
// which of them are over capacity, until the function it returns is called.
func (s *service) watch() (stop func()) {
	hangup, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangup, syscall.SIGHUP)
	ticker, looks := time.NewTicker(time.Second), time.NewTicker(lookEvery)
	read, over := s.version(), operators.NewLog(s.logger)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-looks.C:
				over.Look(s.rules)
				if err := s.rules.Adapt(); err != nil {
					s.logger.Error("memory stays where it is", "error", err)
				}
				continue
			case <-hangup:
			case <-ticker.C:
				if s.version() == read {
					continue
				}
			}
			read = s.version()
			s.reload()
		}
	}()
	return func() {
		signal.Stop(hangup)
		ticker.Stop()
		looks.Stop()
		close(done)
	}
}

// version is what of a file changes when it is written.
type version struct {
	size     int64
	modified time.Time
}

func (s *service) version() (v version) {
	if info, err := os.Stat(s.file); err == nil {
		v = version{info.Size(), info.ModTime()}
	}
	return v
}

func (s *service) reload() {
	if err := s.rules.Reload(); err != nil {
		s.logger.Error("rules stay as they are", "error", err)
		return
	}
	s.logger.Info("rules read again", "rules", len(s.rules.All()), "bytes", s.rules.MemoryBytes())
}
