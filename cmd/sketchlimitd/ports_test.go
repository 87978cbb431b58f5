package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimitd/envoylimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// listened returns the addresses on which a process listens, as Linux knows them.
func listened(t *testing.T, pid int) (all []netip.AddrPort) {
	t.Helper()
	sockets := map[string]bool{}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	for _, e := range entries {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name())); err == nil {
			sockets[link] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !sockets["socket:["+f[9]+"]"] {
				continue
			}
			address, port, _ := strings.Cut(f[1], ":")
			bytes, err := hex.DecodeString(address)
			require.NoError(t, err)
			for i := 0; i < len(bytes); i += 4 { // words of the machine, which is little-endian wherever this runs
				binary.BigEndian.PutUint32(bytes[i:], binary.LittleEndian.Uint32(bytes[i:]))
			}
			ip, ok := netip.AddrFromSlice(bytes)
			require.True(t, ok)
			number, err := strconv.ParseUint(port, 16, 16)
			require.NoError(t, err)
			all = append(all, netip.AddrPortFrom(ip, uint16(number)))
		}
	}
	return all
}

// What others can reach is what they ask for limits, and the health. The rest is on
// this machine alone.
func TestPortsByDefault(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux's")
	}
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	variables := environment(root)
	for _, name := range []string{"HOST", "GRPC_HOST", "DEBUG_HOST"} {
		delete(variables, name)
	}
	l, c := command(t, variables)
	open := map[string]bool{} // by port, whether others reach it
	for _, what := range []string{"gRPC", "HTTP", "debugging"} {
		_, port, err := net.SplitHostPort(l.address(what))
		require.NoError(t, err)
		open[port] = what != "debugging"
	}
	all := listened(t, c.Process.Pid)
	require.Len(t, all, len(open))
	for _, a := range all {
		reachable, known := open[strconv.Itoa(int(a.Port()))]
		require.True(t, known, "%v", a)
		require.Equal(t, reachable, !a.Addr().IsLoopback(), "%v", a)
	}
}

// Bodies that stall, headers that do, and connections that are idle are closed.
func TestSlowClientsAreCutOff(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	variables := environment(root)
	variables["HTTP_READ_TIMEOUT"], variables["HTTP_IDLE_TIMEOUT"] = "200ms", "200ms"
	variables["USE_PROMETHEUS"], variables["DISABLE_STATS"], variables["PROMETHEUS_ADDR"] = "true", "false", "127.0.0.1:0"
	l, _ := command(t, variables)
	stalled := map[string]net.Conn{}
	for _, what := range []string{"HTTP", "debugging", "Prometheus"} {
		address := l.address(what)
		for _, sent := range []string{
			"", // idle from the start
			"GET /healthcheck HT",
			"POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{", // the answer comes, if any, and then the end
			"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",                       // idle after a request
		} {
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, sent)
			require.NoError(t, err)
			stalled[what+": "+sent] = conn
		}
	}
	for sent, conn := range stalled {
		_, err := io.Copy(io.Discard, conn) // ends with the connection
		require.NoError(t, err, sent)
	}
}

// Keys of clients are hidden where operators look, unless they ask for them.
func TestKeysAreHidden(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	s := start(t, environment(root))
	client, _ := dial(t, s.grpc)
	var body string
	require.Eventually(t, func() bool { // the keys are those of the present minute, which may have just begun
		allowed(t, client, "ann.secret")
		_, body = get(t, "http://"+s.ops+"/limits/status")
		return strings.Contains(body, `"key":"client=#`)
	}, 30*time.Second, time.Millisecond)
	for _, path := range []string{"/", "/rlconfig", "/stats", "/metrics", "/limits/", "/limits/status"} {
		_, body := get(t, "http://"+s.ops+path)
		require.NotContains(t, body, "secret", path)
	}
	mask := newMask()
	ann := mask(key(rules.Descriptor{{Key: "client", Value: "ann"}}))
	require.Regexp(t, `^client=#[0-9a-f]{8}$`, ann)
	require.Equal(t, ann, mask(key(rules.Descriptor{{Key: "client", Value: "ann"}})))
	require.NotEqual(t, ann, mask(key(rules.Descriptor{{Key: "client", Value: "bob"}})))
	require.NotEqual(t, ann, newMask()(key(rules.Descriptor{{Key: "client", Value: "ann"}})))
}

// One request cannot keep the rules busy for long.
func TestManyDescriptors(t *testing.T) {
	root := written(t, map[string]string{"ratelimit/config/api.yaml": clients})
	l, _ := command(t, environment(root))
	client, _ := dial(t, l.address("gRPC"))
	r := ask("api", "client", "ann")
	for len(r.Descriptors) < 80_000 {
		r.Descriptors = append(r.Descriptors, &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "client", Value: "b"}}})
	}
	_, err := client.ShouldRateLimit(t.Context(), r)
	require.ErrorContains(t, err, "rate limit request has 80000 descriptors, must be at most 1000")
	r.Descriptors = r.Descriptors[:envoylimit.MaxDescriptors]
	response, err := client.ShouldRateLimit(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, response.Statuses, envoylimit.MaxDescriptors)
	code, err := http.Post("http://"+l.address("HTTP")+"/json", "", strings.NewReader(
		`{"domain":"api","descriptors":[`+strings.Repeat(`{},`, envoylimit.MaxDescriptors)+`{}]}`))
	require.NoError(t, err)
	require.NoError(t, code.Body.Close())
	require.Equal(t, http.StatusBadRequest, code.StatusCode)
}
