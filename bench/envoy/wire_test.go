package main

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// statsd is told statistics, and keeps what it was told under each name.
type statsd struct {
	mu       sync.Mutex
	counters map[string]int64 // sums
	others   map[string]bool  // gauges and timers, and counters of Go's runtime
	wrong    string           // a line that is not of statsd
}

// newStatsd listens until the test ends, and returns the settings that make a service
// tell it.
func newStatsd(t *testing.T, protocol string) (*statsd, []string) {
	t.Helper()
	s := &statsd{counters: map[string]int64{}, others: map[string]bool{}}
	var address net.Addr
	if protocol == "udp" {
		conn, err := net.ListenPacket(protocol, "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		go s.receive(conn)
		address = conn.LocalAddr()
	} else {
		listener, err := net.Listen(protocol, "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { listener.Close() })
		go s.accept(listener)
		address = listener.Addr()
	}
	host, port, err := net.SplitHostPort(address.String())
	require.NoError(t, err)
	return s, []string{"USE_STATSD=true", "USE_PROMETHEUS=false", "STATSD_HOST=" + host, "STATSD_PORT=" + port, "STATSD_PROTOCOL=" + protocol}
}

func (s *statsd) receive(conn net.PacketConn) {
	packet := make([]byte, 1<<16)
	for {
		n, _, err := conn.ReadFrom(packet)
		if err != nil {
			return
		}
		for line := range bytes.Lines(packet[:n]) {
			s.told(string(line))
		}
	}
}

func (s *statsd) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				s.told(lines.Text())
			}
		}()
	}
}

var wireLine = regexp.MustCompile(`^([^:|]+):([0-9.]+)\|(c|g|ms)$`)

func (s *statsd) told(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := wireLine.FindStringSubmatch(strings.TrimSpace(line))
	switch {
	case parts == nil:
		s.wrong = line
	case parts[3] == "c" && !strings.HasPrefix(parts[1], "ratelimit.go."):
		n, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			s.wrong = line
		}
		s.counters[parts[1]] += n
	default:
		s.others[parts[1]+" "+parts[3]] = true
	}
}

// theirsAlone are statistics of what is not in ours: connections to Redis, a cache of
// what is refused, and the library that reads files there.
var theirsAlone = regexp.MustCompile(`redis_pool|^ratelimit\.localcache\.|\.over_limit_with_local_cache |^runtime\.`)

// all returns what was told, a name a line, with the values of counters.
func (s *statsd) all() (text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong != "" {
		err = fmt.Errorf("not of statsd: %q", s.wrong)
	}
	lines := slices.Collect(maps.Keys(s.others))
	for name, n := range s.counters {
		lines = append(lines, fmt.Sprint(name, " ", n))
	}
	lines = slices.DeleteFunc(lines, theirsAlone.MatchString)
	slices.Sort(lines)
	return strings.Join(lines, "\n"), err
}

// TestStatsd holds what both services tell statsd against each other, line by line,
// after the same requests.
func TestStatsd(t *testing.T) {
	for _, protocol := range []string{"tcp", "udp"} {
		t.Run(protocol, func(t *testing.T) {
			awayFromTurns(30*time.Second, day)
			told := map[string]*statsd{}
			for _, kind := range kinds {
				listener, settings := newStatsd(t, protocol)
				told[kind.Name] = listener
				askCounted(dial(t, kind.New(t, counted, settings...).GRPC, nil))
			}
			require.NoError(t, servers.Eventually(10*time.Second, func() error {
				want, wrong := told[servers.Reference.Name].all()
				got, err := told[servers.Sketchlimit.Name].all()
				if err == nil && wrong == nil && got != want {
					err = fmt.Errorf("want\n%s\ngot\n%s", want, got)
				}
				return err
			}))
		})
	}
}

// TestStatsdOfOverrides: ours has one name for all limits of a unit that come with
// requests.
func TestStatsdOfOverrides(t *testing.T) {
	awayFromTurns(30*time.Second, day)
	names := map[string]string{servers.Reference.Name: "counted.any_thing", servers.Sketchlimit.Name: "override.day"}
	for _, kind := range kinds {
		listener, settings := newStatsd(t, "tcp")
		c := dial(t, kind.New(t, counted, settings...).GRPC, nil)
		r := request("counted", "any=thing")
		r.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: types.RateLimitUnit_DAY}
		for range 5 {
			_, err := c.try(r)
			require.NoError(t, err)
		}
		require.NoError(t, servers.Eventually(10*time.Second, func() error {
			got, err := listener.all()
			for _, line := range []string{".total_hits 5", ".within_limit 3", ".over_limit 2"} {
				if line = "ratelimit.service.rate_limit." + names[kind.Name] + line; err == nil && !strings.Contains(got, line+"\n") {
					err = fmt.Errorf("no %q in\n%s", line, got)
				}
			}
			return err
		}))
	}
}
