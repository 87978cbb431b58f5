// Package redistest starts redis-servers of a test's or a benchmark's own on free ports
// of the loopback, and stops them by their process ids.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTime is the most that a server may take to start or to load its data. Machines that
// run tests may be busy for minutes.
const startTime = 3 * time.Minute

// Server is a redis-server on the loopback. It is not safe for concurrent use.
type Server struct {
	Addr string // host and port, the same after a restart
	args []string
	cmd  *exec.Cmd // nil while it is stopped
}

// Start starts a server that keeps its files in dir. It snapshots nothing by itself:
// arguments, as of the command line, may change that ("--appendonly", "yes").
func Start(dir string, args ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", port)}
	s.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--logfile", filepath.Join(dir, "redis-"+port+".log")}, args...)
	return s, s.Restart()
}

// Restart starts a stopped server on its old port, with what its files hold.
func (s *Server) Restart() error {
	s.cmd = exec.Command("redis-server", s.args...)
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("redistest: %w", err)
	}
	if err := s.until(func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() }); err != nil {
		s.Kill()
		return fmt.Errorf("redistest: redis-server at %s: %w", s.Addr, err)
	}
	return nil
}

// PID returns the process id of a running server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the server at once, as kill -9 does. It does nothing to one that is stopped.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
}

// until asks again and again, until there is no error any more.
func (s *Server) until(ready func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer c.Close()
	for {
		err := ready(ctx, c)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// freePort returns a port that nobody listens at. Whoever is faster may take it before
// the server does.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("redistest: %w", err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// Installed tells whether there is a redis-server to start.
func Installed() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

// Required tells whether tests must fail where there is no redis-server.
func Required() bool { return os.Getenv("SKETCHLIMIT_REDIS_REQUIRED") == "1" }
