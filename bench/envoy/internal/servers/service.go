package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Kind is one of the rate limit services.
type Kind struct {
	Name  string
	build func() (string, error)
	redis bool // whether it needs a redis-server
}

// The rate limit services take the same environment variables and files.
var (
	Reference   = Kind{"envoyproxy/ratelimit", func() (string, error) { return Tool(referenceService) }, true}
	Sketchlimit = Kind{"sketchlimitd", sketchlimitd, false}
)

// Service is a rate limit service that runs.
type Service struct {
	*Process
	Store             *Process // the redis-server behind the reference, or nil
	GRPC, HTTP, Debug string   // addresses
	metrics, store    string
	rules             string // folder
}

// Rules are the contents of rule files by their names.
type Rules map[string]string

// Start starts a service that keeps its files in dir and serves rules. Settings are its
// environment variables, such as SHADOW_MODE=true.
func (k Kind) Start(dir string, rules Rules, settings ...string) (*Service, error) {
	binary, err := k.build()
	if err != nil {
		return nil, err
	}
	s := &Service{rules: filepath.Join(dir, "runtime", "ratelimit", "config")}
	if err := os.MkdirAll(s.rules, 0o755); err != nil {
		return nil, err
	}
	for name, content := range rules {
		if err := s.Write(name, content); err != nil {
			return nil, err
		}
	}
	if k.redis {
		if s.Store, s.store, err = startRedis(dir); err != nil {
			return nil, err
		}
		settings = append([]string{"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + s.store}, settings...)
	}
	for try := 1; ; try++ { // somebody else may have taken a port
		if err = s.run(k.Name, binary, settings); !errors.Is(err, errExited) || try == tries {
			break
		}
	}
	if err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (s *Service) run(name, binary string, settings []string) error {
	addrs, err := freePorts(4)
	if err != nil {
		return err
	}
	s.GRPC, s.HTTP, s.Debug, s.metrics = addrs[0], addrs[1], addrs[2], addrs[3]
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "HOST=127.0.0.1", "PORT="+port(s.HTTP), "GRPC_HOST=127.0.0.1", "GRPC_PORT="+port(s.GRPC),
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+port(s.Debug), "LOG_LEVEL=error",
		"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=false", // the reference's default: tests start without rules
		"USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+s.metrics, "STATS_FLUSH_INTERVAL=100ms",
		"RUNTIME_ROOT="+filepath.Dir(filepath.Dir(s.rules)), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false")
	cmd.Env = append(cmd.Env, settings...)
	s.Process, err = start(name, cmd, func() error {
		if _, err := get("http://" + s.HTTP + "/healthcheck"); err != nil {
			return err
		}
		conn, err := net.DialTimeout("tcp", s.GRPC, time.Second) // theirs may be healthy before it listens
		if err == nil {
			conn.Close()
		}
		return err
	})
	return err
}

// Write writes a rule file, which the service then loads. It is a rename, so that the
// service never sees half of it.
func (s *Service) Write(name, content string) error {
	whole := filepath.Join(filepath.Dir(s.rules), name+".new")
	if err := os.WriteFile(whole, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(whole, filepath.Join(s.rules, name))
}

// Remove removes a rule file.
func (s *Service) Remove(name string) error { return os.Remove(filepath.Join(s.rules, name)) }

// Stop asks the service to end, and ends its redis-server.
func (s *Service) Stop() error {
	defer s.killStore()
	return s.Process.Stop()
}

// Kill ends the service and its redis-server at once.
func (s *Service) Kill() {
	defer s.killStore()
	if s.Process != nil {
		s.Process.Kill()
	}
}

func (s *Service) killStore() {
	if s.Store != nil {
		s.Store.Kill()
	}
}

// Metrics returns what the service exports to Prometheus.
func (s *Service) Metrics() (string, error) { return get("http://" + s.metrics + "/metrics") }

// Metric returns the sum of a metric of Prometheus over all labels that begin with
// those given, as in `name{a="b"`. One that is not there is 0.
func (s *Service) Metric(series string) (sum float64, err error) {
	body, err := s.Metrics()
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		rest, found := strings.CutPrefix(lines.Text(), series)
		if !found || !strings.ContainsAny(rest[:1], " {,}") {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return sum, nil
}

// Loads returns how often the service has loaded its rules.
func (s *Service) Loads() (float64, error) { return s.Metric("ratelimit_service_config_load_success") }

// List returns the service's list of rules, a rule a line.
func (s *Service) List() (string, error) { return get("http://" + s.Debug + "/rlconfig") }

// Goroutines returns how many goroutines the service has.
func (s *Service) Goroutines() (n int, err error) {
	profile, err := get("http://" + s.Debug + "/debug/pprof/goroutine?debug=1")
	if err == nil {
		_, err = fmt.Sscanf(profile, "goroutine profile: total %d", &n)
	}
	return n, err
}

func get(url string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return string(body), err
}
