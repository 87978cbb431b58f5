package caddylimit

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The cases of caddy-ratelimit's TestRateLimits and TestCaddyfileRateLimits. There the
// window is a log. Here a fixed window frees all at its end, and a sliding one begins
// to.
func TestRateLimits(t *testing.T) {
	for _, c := range []struct {
		algorithm  string
		waits      []string // at once, and half a window later
		free, late int      // requests when the window is over, and a window later
	}{
		{"fixed", []string{"60", "30"}, 10, 10},
		{"sliding", []string{"66", "36"}, 0, 10}, // the first of ten has left when a tenth of the next window is over
		{"bucket", []string{"6", ""}, 0, 10},
	} {
		t.Run(c.algorithm, func(t *testing.T) {
			advance := setTime(t, minute)
			s := newServer(t)
			s.load(limit("match {\nmethod GET\n}\nkey static\nwindow 60s\nevents 10\nalgorithm " + c.algorithm))
			s.want(200, 10, "GET", "/")
			for _, wait := range c.waits {
				status := 429
				if wait == "" {
					status = 200
				}
				response, _ := s.ask("GET", "/")
				require.Equal(t, status, response.StatusCode)
				require.Equal(t, wait, response.Header.Get("Retry-After"))
				advance(30 * time.Second)
			}
			s.want(200, 1, "POST", "/") // is not matched
			if c.algorithm != "bucket" {
				s.want(200, c.free, "GET", "/")
				s.want(429, 1, "GET", "/")
			}
			advance(2 * time.Minute)
			s.want(200, c.late, "GET", "/")
			s.want(429, 1, "GET", "/")
		})
	}
}

// The cases of caddy-ratelimit's TestDistinctZonesAndKeys.
func TestDistinctZonesAndKeys(t *testing.T) {
	s := newServer(t)
	zone := func(name, method string) string {
		return "zone " + name + " {\nmatch {\nmethod " + method + "\n}\n" +
			"key {http.request.orig_uri.path}\nwindow 1h\nevents 10\n}\n"
	}
	s.load("sketch_rate_limit {\n" + zone("zone1", "GET") + zone("zone2", "DELETE") + "}")
	for _, method := range []string{"GET", "DELETE"} {
		for _, path := range []string{"/path1", "/path2"} {
			s.want(200, 10, method, path)
			s.want(429, 1, method, path)
		}
	}
	s.want(200, 20, "POST", "/path1")
}

// A request that one zone refuses counts in none: there, zones before it are charged.
func TestAllOrNone(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	s.load(`sketch_rate_limit {
	zone all {
		key all
		window 1h
		events 5
	}
	zone each {
		key {http.request.header.User}
		window 1m
		events 2
	}
}
handle_errors {
	respond {http.rate_limit.exceeded.name} 429
}`)
	s.want(200, 2, "GET", "/", "User", "ann")
	_, zone := s.ask("GET", "/", "User", "ann")
	require.Equal(t, "each", zone)
	s.want(429, 20, "GET", "/", "User", "ann")
	s.want(200, 2, "GET", "/", "User", "bob")
	s.want(200, 1, "GET", "/", "User", "cat")
	_, zone = s.ask("GET", "/", "User", "cat") // all five are used
	require.Equal(t, "all", zone)
}

// Several limits of a zone are one decision, too.
func TestSeveralLimits(t *testing.T) {
	advance := setTime(t, minute)
	s := newServer(t)
	s.load(limit("key {http.request.header.User}\nlimit 2 1m\nlimit 3 1h\nalgorithm fixed"))
	s.want(200, 2, "GET", "/", "User", "ann")
	response, _ := s.ask("GET", "/", "User", "ann")
	require.Equal(t, "60", response.Header.Get("Retry-After"))
	s.want(429, 10, "GET", "/", "User", "ann")
	advance(time.Minute)
	s.want(200, 1, "GET", "/", "User", "ann")
	response, _ = s.ask("GET", "/", "User", "ann")
	require.Equal(t, strconv.Itoa(59*60), response.Header.Get("Retry-After"))
}

// Requests whose placeholders are empty or unknown share a key.
func TestEmptyKey(t *testing.T) {
	s := newServer(t)
	s.load(limit("key {http.request.header.User}{http.request.nothing}\nwindow 1h\nevents 3"))
	s.want(200, 3, "GET", "/")
	s.want(429, 1, "GET", "/")
	s.want(200, 1, "GET", "/", "User", "ann")
	s.load(limit("window 2h\nevents 2")) // no key at all
	s.want(200, 2, "GET", "/")
	s.want(429, 1, "GET", "/", "User", "ann")
}

func TestClientAddresses(t *testing.T) {
	s := newTCPServer(t)
	s.load(limit("key {http.request.remote.host}\nwindow 1h\nevents 3\nipv4_prefix 24\nipv6_prefix 64"))
	s.want(200, 3, "GET", "/")
	s.want(429, 1, "GET", "/")
	s.load(limit("key {client_ip}\nwindow 2h\nevents 3"))
	s.want(200, 3, "GET", "/")
	s.want(429, 1, "GET", "/")
}

// The zone's name is there for the routes that handle errors, and so is Retry-After.
func TestHandleErrors(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	s.load(limit("key static\nwindow 1m\nevents 1\nalgorithm fixed") + `
handle_errors 429 {
	respond "zone {http.rate_limit.exceeded.name}, status {err.status_code}" 503
}`)
	s.want(200, 1, "GET", "/")
	response, body := s.ask("GET", "/")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "zone api, status 429", body)
	require.Equal(t, "60", response.Header.Get("Retry-After"))
}

func TestEventAndLog(t *testing.T) {
	setTime(t, minute)
	s := newTCPServer(t)
	s.load(limit("key {http.request.header.User}\nwindow 1m\nevents 1\nalgorithm fixed"))
	heard.events = nil
	s.want(200, 1, "GET", "/", "User", "ann")
	s.want(429, 1, "GET", "/", "User", "ann")
	require.Equal(t, []map[string]any{{"zone": "api", "wait": time.Minute, "remote_ip": "127.0.0.1"}}, heard.events)
	require.Contains(t, written.text(), "rate limit exceeded")
	require.NotContains(t, written.text(), "ann")

	s.load(limit("key {http.request.header.User}\nwindow 1m\nevents 1\nalgorithm fixed", "log_key"))
	s.want(429, 1, "GET", "/", "User", "ann")
	require.Contains(t, written.text(), `"key":"ann"`)
}

func TestJitter(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	s.load(limit("key static\nwindow 1h\nevents 1\nalgorithm fixed", "jitter 0.5"))
	s.want(200, 1, "GET", "/")
	seen := map[string]bool{}
	for range 20 {
		response, _ := s.ask("GET", "/")
		seen[response.Header.Get("Retry-After")] = true
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, seconds, 3600)
		require.LessOrEqual(t, seconds, 5400)
	}
	require.Greater(t, len(seen), 10) // of 1801 values; fewer come with a chance below 1e-20
}
