package main

import (
	"expvar"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimitd/envoylimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// endpoint is what the port for debugging has at a path.
type endpoint struct {
	path, help string
	handler    http.Handler
}

// debug returns what operators may see. All of it is for them alone: the page has keys
// of clients.
func (s *server) debug() http.Handler {
	endpoints := []endpoint{
		{"/debug/pprof/", "what the process spends time and memory on", http.HandlerFunc(pprof.Index)},
		{"/debug/pprof/profile", "a profile of the processor", http.HandlerFunc(pprof.Profile)},
		{"/debug/pprof/trace", "a trace", http.HandlerFunc(pprof.Trace)},
		{"/forgive", "POST: gives a key back what it has used; with OPERATOR_TOKEN", http.HandlerFunc(s.forgive)},
		{"/limits/", "a page that shows what the rules do", http.StripPrefix("/limits", s.page.Handler())},
		{"/metrics", "metrics for Prometheus", s.stats.metrics},
		{"/refused", "the keys that are refused the most, by rule", http.HandlerFunc(s.refused)},
		{"/rlconfig", "the rules as they are loaded", http.HandlerFunc(s.rlconfig)},
		{"/stats", "statistics", http.HandlerFunc(published)},
	}
	mux := http.NewServeMux()
	for _, e := range endpoints {
		mux.Handle(e.path, e.handler)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		for _, e := range endpoints {
			fmt.Fprintf(w, "%s: %s\n", e.path, e.help)
		}
	})
	return mux
}

// published writes what the process publishes, one variable a line.
func published(w http.ResponseWriter, _ *http.Request) {
	expvar.Do(func(v expvar.KeyValue) { fmt.Fprintf(w, "%s: %s\n", v.Key, v.Value) })
}

// rlconfig writes the rules as envoyproxy/ratelimit does, one a line.
func (s *server) rlconfig(w http.ResponseWriter, _ *http.Request) {
	var lines []string
	for _, r := range s.rules.All() {
		lines = append(lines, fmt.Sprintf("%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n",
			r, unit(r), r.Limit, r.Shadow, r.Quota))
	}
	slices.Sort(lines)
	io.WriteString(w, strings.Join(lines, ""))
}

// unit is the window of a rule as the protocol names it, or else as files do.
func unit(r *rules.Rule) string {
	if r.Months {
		return "MONTH"
	}
	if name, times := envoylimit.Unit(r.Window); times < 2 {
		return name.String()
	}
	return r.Window.String()
}
