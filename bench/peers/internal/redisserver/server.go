// Package redisserver starts redis-server on the loopback.
package redisserver

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// The client prints a line for each try to reach a server that is not up yet.
func init() { logging.Disable() }

// Start starts a redis-server on a free port of the loopback, and waits until it
// answers. The server keeps its files in dir and snapshots nothing by itself. stop ends
// it.
func Start(dir string) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--logfile", filepath.Join(dir, "redis.log"))
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		server.Process.Kill()
		server.Wait()
	}
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	for range 1000 { // 10 s
		if err = client.Ping(context.Background()).Err(); err == nil {
			return addr, stop, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	return "", nil, fmt.Errorf("redis-server at %s: %w", addr, err)
}
