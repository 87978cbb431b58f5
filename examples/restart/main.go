// Command restart is a service whose clients do not get a fresh quota when it restarts:
//
//	go run -C examples ./restart -state /tmp/state
//	curl -i -H 'X-API-Key: ann' localhost:8080
//
// It saves what they have used every minute, and on SIGINT and SIGTERM when the last
// request is answered. The snapshot holds the seed of the hash, so its folder must be
// secret: whoever knows the seed can find keys that count as one.
package main

import (
	"context"
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
)

func main() {
	address := flag.String("address", "localhost:8080", "address to listen at")
	state := flag.String("state", ".", "folder of the snapshot")
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
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Hour, Keys: 100_000,
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
