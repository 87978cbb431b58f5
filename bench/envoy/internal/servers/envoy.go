package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Envoy is a proxy that runs.
type Envoy struct {
	*Process
	Listener, Admin string // addresses
}

// StartEnvoy starts an Envoy that keeps its files in dir. Config returns the
// configuration for the addresses of its listener and of its administration.
func StartEnvoy(dir string, config func(listener, admin string) string) (*Envoy, error) {
	for try := 1; ; try++ { // somebody else may have taken a port
		addrs, err := freePorts(2)
		if err != nil {
			return nil, err
		}
		e := &Envoy{Listener: addrs[0], Admin: addrs[1]}
		file := filepath.Join(dir, "envoy.yaml")
		if err := os.WriteFile(file, []byte(config(e.Listener, e.Admin)), 0o600); err != nil {
			return nil, err
		}
		cmd := exec.Command("envoy", "--config-path", file, "--concurrency", "2", "--log-level", "warning",
			"--disable-hot-restart")
		e.Process, err = start("envoy", cmd, func() error {
			_, err := get("http://" + e.Admin + "/ready")
			return err
		})
		if err == nil {
			return e, nil
		}
		if !errors.Is(err, errExited) || try == tries {
			return nil, err
		}
	}
}

// Stat returns one of Envoy's counters, by its full name. One that has not counted yet
// is 0.
func (e *Envoy) Stat(name string) (value int, err error) {
	body, err := get("http://" + e.Admin + "/stats?filter=^" + name + "$")
	if err == nil && body != "" {
		_, err = fmt.Sscanf(body, name+": %d", &value)
	}
	return value, err
}
