// Package redistest starts redis-servers of a test's or a benchmark's own on free ports
// of the loopback, and stops them by their process ids.
package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// The client prints a line for each try to reach a server that is not up, which here is often
// and on purpose: what failed would be lost among them.
func init() { logging.Disable() }

// Server is a redis-server on the loopback. It is not safe for concurrent use.
type Server struct {
	Addr   string // host and port, the same after a restart
	TLS    string // those for TLS, if the arguments have --tls-cert-file
	bus    string // the port at which nodes of a cluster talk to each other
	args   []string
	cmd    *exec.Cmd     // nil while it is stopped
	exited chan struct{} // closed when it has ended
}

// Start starts a server that keeps its files in dir. It snapshots nothing by itself:
// arguments, as of the command line, may change that ("--appendonly", "yes").
func Start(dir string, args ...string) (*Server, error) {
	return start(dir, args, freePort)
}

// start starts a server on ports that are free. Whoever is faster may take them before it
// does; then it takes others.
func start(dir string, args []string, freePort func() (string, error)) (*Server, error) {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s := &Server{Addr: net.JoinHostPort("127.0.0.1", port)}
		s.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "",
			"--logfile", filepath.Join(dir, "redis-"+port+".log")}, args...)
		if slices.Contains(args, "--cluster-enabled") {
			if s.bus, err = freePort(); err != nil {
				return nil, err
			}
			s.args = append(s.args, "--cluster-port", s.bus)
		}
		if slices.Contains(args, "--tls-cert-file") {
			port, err := freePort()
			if err != nil {
				return nil, err
			}
			s.TLS = net.JoinHostPort("127.0.0.1", port)
			s.args = append(s.args, "--tls-port", port)
		}
		if err = s.run(); err == nil || !errors.Is(err, errExited) || try == 5 {
			return s, err
		}
	}
}

// errExited is the error of a server that ended by itself, mostly because its port was
// taken.
var errExited = errors.New("redistest: the server has ended")

// Restart starts a stopped server on its old port, with what its files hold. Meanwhile a
// connection may have the port for its own end, also one to that very port: it waits until
// that is over.
func (s *Server) Restart() (err error) {
	for range 100 {
		if err = s.run(); !errors.Is(err, errExited) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// run starts a stopped server, and waits until it answers.
func (s *Server) run() error {
	s.cmd, s.exited = exec.Command("redis-server", s.args...), make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("redistest: %w", err)
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		cmd.Wait()
		close(exited)
	}(s.cmd, s.exited)
	ready := func(ctx context.Context, c *redis.Client) error {
		info, err := c.Info(ctx, "server").Result()
		if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.PID())) {
			return errors.New("another server answers")
		}
		return cmp.Or(err, c.Ping(ctx).Err()) // it may load its data still
	}
	if err := s.until(ready); err != nil {
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
	<-s.exited
	s.cmd = nil
}

// until asks again and again, until there is no error any more, or no server.
func (s *Server) until(ready func(context.Context, *redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer c.Close()
	return Retry(func() error {
		select {
		case <-s.exited:
			return errExited
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return ready(ctx, c)
	})
}

// Retry tries until there is no error any more, or none but that the server has ended, for a
// minute. That is counted in tries and the pauses between them, not by the clock, because
// machines that run tests may stand still for longer.
func Retry(try func() error) (err error) {
	const pause, tries = 2 * time.Millisecond, 240 // which grows by as much each time: 58 s
	for i := range time.Duration(tries) {
		if err = try(); err == nil || errors.Is(err, errExited) {
			return err
		}
		time.Sleep(i * pause)
	}
	return err
}

// freePort returns a port that nobody listens at.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("redistest: %w", err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// Installed reports whether there is a redis-server to start.
func Installed() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

// KnowsTLS reports whether the redis-server was built with TLS.
func KnowsTLS() bool {
	out, _ := exec.Command("redis-server", "--port", "0", "--tls-port", "0").CombinedOutput() // which listens nowhere and ends
	return !strings.Contains(string(out), "tls-port")
}

// Required reports whether tests must fail if there is no redis-server.
func Required() bool { return os.Getenv("SKETCHLIMIT_REDIS_REQUIRED") == "1" }
