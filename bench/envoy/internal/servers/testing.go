package servers

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// New returns a service that serves rules until the test ends. Where it needs a
// redis-server and there is none the test is skipped, or fails if
// SKETCHLIMIT_REDIS_REQUIRED=1.
func (k Kind) New(t testing.TB, rules Rules, settings ...string) *Service {
	t.Helper()
	if k.redis {
		need(t, "redis-server", "SKETCHLIMIT_REDIS_REQUIRED")
	}
	s, err := k.Start(t.TempDir(), rules, settings...)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("%s has printed: %s", k.Name, s.Log())
		}
	})
	return s
}

// NewRedis returns the address of a redis-server that runs until the test ends.
func NewRedis(t testing.TB) string {
	t.Helper()
	need(t, "redis-server", "SKETCHLIMIT_REDIS_REQUIRED")
	p, addr, err := startRedis(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return addr
}

// NeedEnvoy skips the test where there is no Envoy, or fails it if
// SKETCHLIMIT_ENVOY_REQUIRED=1.
func NeedEnvoy(t testing.TB) {
	t.Helper()
	need(t, "envoy", "SKETCHLIMIT_ENVOY_REQUIRED")
}

// NewEnvoy is [StartEnvoy] for a test, at whose end Envoy is stopped.
func NewEnvoy(t testing.TB, config func(listener, admin string) string) *Envoy {
	t.Helper()
	e, err := StartEnvoy(t.TempDir(), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		e.Kill()
		if t.Failed() {
			t.Logf("envoy has printed: %s", e.Log())
		}
	})
	return e
}

func need(t testing.TB, program, required string) {
	t.Helper()
	switch _, err := exec.LookPath(program); {
	case err == nil:
	case os.Getenv(required) == "1":
		t.Fatalf("no %s in PATH, and %s=1", program, required)
	default:
		t.Skipf("no %s in PATH", program)
	}
}

// Reloads changes rules, and waits until the service's list of rules holds a text, or
// does not.
func (s *Service) Reloads(t testing.TB, change func() error, text string, holds bool) {
	t.Helper()
	require.NoError(t, change())
	require.NoError(t, Eventually(30*time.Second, func() error {
		list, err := s.List()
		if err == nil && strings.Contains(list, text) != holds {
			err = fmt.Errorf("%q in the list of rules is not %t:\n%s", text, holds, list)
		}
		return err
	}))
}
