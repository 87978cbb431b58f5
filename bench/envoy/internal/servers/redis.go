package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"
)

// startRedis starts a redis-server that keeps nothing on disk.
func startRedis(dir string) (*Process, string, error) {
	for try := 1; ; try++ { // somebody else may have taken the port
		addrs, err := freePorts(1)
		if err != nil {
			return nil, "", err
		}
		addr := addrs[0]
		cmd := exec.Command("redis-server", "--port", port(addr), "--bind", "127.0.0.1", "--save", "", "--dir", dir)
		p, err := start("redis-server", cmd, func() error {
			answer, err := askRedis(addr, "PING")
			if err == nil && answer != "+PONG" {
				err = fmt.Errorf("PING: %s", answer)
			}
			return err
		})
		if err == nil {
			return p, addr, nil
		}
		if !errors.Is(err, errExited) || try == tries {
			return nil, "", err
		}
	}
}

// Stored returns how many bytes the redis-server behind the service uses, and for how
// many keys.
func (s *Service) Stored() (bytes, keys int, err error) {
	info, err := askRedis(s.store, "INFO memory")
	if err != nil {
		return 0, 0, err
	}
	_, info, _ = strings.Cut(info, "used_memory:")
	if _, err := fmt.Sscan(info, &bytes); err != nil {
		return 0, 0, fmt.Errorf("INFO memory: %w", err)
	}
	size, err := askRedis(s.store, "DBSIZE")
	if err == nil {
		_, err = fmt.Sscanf(size, ":%d", &keys)
	}
	return bytes, keys, err
}

// askRedis sends a command without spaces in its words, and returns the answer.
func askRedis(addr, command string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	var length int
	if _, bulk := fmt.Sscanf(line, "$%d", &length); bulk == nil {
		content := make([]byte, length)
		_, err = io.ReadFull(in, content)
		line = string(content)
	}
	return strings.TrimSpace(line), err
}
