// Command restart is a service whose clients do not get a fresh quota when it restarts:
//
//	go run . -state /tmp/state
//	curl -i -H 'X-API-Key: ann' localhost:8080
//
// It saves what they have used every minute, and on SIGINT and SIGTERM when the last
// request is answered. Clients choose their keys here, so these are hashed under a secret, which is
// kept beside the snapshot: a hash that ends with its process could not be restored.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
	"github.com/sketchlimit/sketchlimit/siphash"
)

func main() {
	address := flag.String("address", "localhost:8080", "address to listen at")
	state := flag.String("state", ".", "folder of the snapshot and the secret")
	every := flag.Duration("every", time.Minute, "time between snapshots")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *address)
	if err == nil {
		err = serve(ctx, listener, *state, *every)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "restart:", err)
		os.Exit(1)
	}
}

// serve serves until the context ends.
func serve(ctx context.Context, listener net.Listener, state string, every time.Duration) error {
	key, err := secret(filepath.Join(state, "secret"))
	if err != nil {
		return err
	}
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Hour, Keys: 100_000, Hash: siphash.New(key),
	})
	if err != nil {
		return err
	}
	defer limiter.Close()
	snapshot := filepath.Join(state, "limiter")
	if err := limiter.Load(snapshot); err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("all clients begin with a fresh quota", "error", err)
	}
	limit, err := httplimit.New(limiter, httplimit.Header("X-API-Key"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: limit(http.HandlerFunc(hello)), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()

	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := limiter.Save(snapshot); err != nil {
				slog.Error("clients may get a fresh quota", "error", err)
			}
		case err := <-ended:
			return err
		case <-ctx.Done():
			grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			err := server.Shutdown(grace) // nobody is admitted after the last snapshot
			return errors.Join(err, limiter.Save(snapshot))
		}
	}
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

// secret reads the key of a hash, or makes one the first time.
func secret(path string) (key [16]byte, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		rand.Read(key[:])
		return key, os.WriteFile(path, key[:], 0o600)
	}
	if err == nil && len(b) != len(key) {
		err = fmt.Errorf("%s: %d bytes, must be %d", path, len(b), len(key))
	}
	copy(key[:], b)
	return key, err
}
