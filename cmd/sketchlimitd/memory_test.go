package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// Twenty edits of all limits, with clients that come meanwhile, leave the process at
// what it takes without. The page of the service says 93 MiB; where the garbage of
// edits was left to the collector, this was 137 MiB.
func TestMemoryAfterEdits(t *testing.T) {
	testkit.Weighs(t)
	if runtime.GOOS != "linux" {
		t.Skip("/proc is Linux's")
	}
	file := func(limit int) string {
		var b strings.Builder
		b.WriteString("domain: api\ndescriptors:\n")
		for i := range 20 {
			fmt.Fprintf(&b, "  - {key: k%d, rate_limit: {unit: day, requests_per_unit: %d}}\n", i, limit)
		}
		return b.String()
	}
	root := written(t, map[string]string{"ratelimit/config.api.yaml": file(100)})
	variables := environment(root)
	delete(variables, "MEMORY")
	variables["RUNTIME_WATCH_ROOT"] = "true" // of a folder in which nothing happens
	l, c := command(t, variables)
	client, _ := dial(t, l.address("gRPC"))
	load := func(round, requests int) {
		for n := range requests {
			r := ask("api", "k0", fmt.Sprint(round, n))
			for i := range 900 {
				r.Descriptors = append(r.Descriptors, &commonv3.RateLimitDescriptor{
					Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: fmt.Sprintf("k%d", i%20), Value: fmt.Sprint(round, n, i)}},
				})
			}
			_, err := client.ShouldRateLimit(t.Context(), r)
			require.NoError(t, err)
		}
	}
	load(0, 50)
	for edit := 1; edit <= 20; edit++ {
		write(t, filepath.Join(root, "ratelimit/config.api.yaml"), file([]int{100, 500, 20, 1000}[edit%4]+edit))
		require.NoError(t, c.Process.Signal(syscall.SIGHUP))
		l.wait("rules loaded")
		load(edit, 5)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	require.NoError(t, err)
	most, err := strconv.Atoi(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)[1]))
	require.NoError(t, err)
	t.Logf("%d MiB at most", most>>10)
	require.Less(t, most, 110<<10)
}
