package redistest

import (
	"errors"
	"testing"
)

// New returns a server that is stopped when the test ends. Without a redis-server the test
// is skipped, or fails where [Required].
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	need(t)
	s, err := Start(t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// NewCluster is [New] for a cluster.
func NewCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	need(t)
	c, err := StartCluster(t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// Eventually is [Retry] for a test, which fails if what is to hold does not come to hold.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if err := Retry(func() error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	}); err != nil {
		t.Fatal(what, "does not come to hold")
	}
}

func need(t testing.TB) {
	t.Helper()
	switch {
	case Installed():
	case Required():
		t.Fatal("no redis-server in PATH, and SKETCHLIMIT_REDIS_REQUIRED=1")
	default:
		t.Skip("no redis-server in PATH")
	}
}
