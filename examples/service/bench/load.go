package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load sends as many requests as are answered in a time, and returns how many a second.
type load func(ctx context.Context, address string, d time.Duration) (float64, error)

//go:embed clients.lua
var script []byte

// generator returns what loads the service, and what it is called.
func generator(directory string) (load, string) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return generate, "a generator in Go"
	}
	file := filepath.Join(directory, "clients.lua")
	return func(ctx context.Context, address string, d time.Duration) (float64, error) {
		if err := os.WriteFile(file, script, 0o600); err != nil {
			return 0, err
		}
		out, err := exec.CommandContext(ctx, wrk, "-t1", "-c"+strconv.Itoa(connections),
			"-d"+strconv.Itoa(int(d.Seconds()))+"s", "-s", file, "http://"+address).CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("%w: %s", err, out)
		}
		return rate(string(out))
	}, "wrk"
}

var (
	perSecond = regexp.MustCompile(`Requests/sec:\s+(\S+)`)
	failed    = regexp.MustCompile(`Non-2xx or 3xx responses: .*|Socket errors: .*`)
)

// rate reads what wrk prints. Requests that failed would be cheap: there may be none.
func rate(out string) (float64, error) {
	found := perSecond.FindStringSubmatch(out)
	if bad := failed.FindString(out); bad != "" || found == nil {
		return 0, fmt.Errorf("wrk: %s", out)
	}
	return strconv.ParseFloat(found[1], 64)
}

// generate does the same without wrk.
func generate(ctx context.Context, address string, d time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var answered atomic.Int64
	var mu sync.Mutex
	var failure error
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			err := converse(ctx, address, &answered)
			mu.Lock()
			defer mu.Unlock()
			failure = errors.Join(failure, err)
		})
	}
	wg.Wait()
	return float64(answered.Load()) / d.Seconds(), failure
}

// converse sends one request after the other over one connection.
func converse(ctx context.Context, address string, answered *atomic.Int64) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for ctx.Err() == nil {
		n := rand.IntN(1 << 20)
		_, err := fmt.Fprintf(conn, "GET /items/1 HTTP/1.1\r\nHost: service\r\nX-Forwarded-For: 11.%d.%d.%d\r\n\r\n", n>>16, n>>8&255, n&255)
		if err != nil {
			return err
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("answered %s", response.Status)
		}
		answered.Add(1)
	}
	return nil
}
