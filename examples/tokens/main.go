// Command tokens is a reverse proxy in front of an API that speaks as OpenAI's chat
// completions do. It limits the tokens of each API key, by the minute and by the day:
//
//	go run -C examples ./tokens -upstream https://api.openai.com -minute 100000 -day 2000000 -state /tmp/state
//	curl localhost:8080/v1/chat/completions -H "Authorization: Bearer $KEY" -d @request.json
//
// A request holds what it may cost at the most, and settles what the upstream says that
// it has used. One that does not fit gets 429 before the upstream spends a token on it.
//
// What was used is saved every minute, and on SIGINT and SIGTERM when the last request
// has ended: it then agrees with the upstream to the token. If the process is killed,
// requests that were open in the last snapshot count in full, and what came later is
// forgotten.
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
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

func main() {
	address := flag.String("address", "localhost:8080", "address to listen at")
	upstream := flag.String("upstream", "https://api.openai.com", "URL of the API, without /v1")
	minute := flag.Int("minute", 100_000, "tokens of an API key in a minute")
	day := flag.Int("day", 2_000_000, "tokens of an API key in a day")
	generate := flag.Int("generate", 4096, "tokens that an answer may have if the request does not say")
	state := flag.String("state", ".", "folder of the snapshot")
	every := flag.Duration("every", time.Minute, "time between snapshots")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err1 := net.Listen("tcp", *address)
	to, err2 := url.Parse(*upstream)
	snapshot := filepath.Join(*state, "tokens")
	b, err3 := open(snapshot, *minute, *day)
	err := errors.Join(err1, err2, err3)
	if err == nil {
		fmt.Println("listening on", listener.Addr())
		err = serve(ctx, listener, newProxy(b, to, *generate), func() error { return b.Save(snapshot) }, *every)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tokens:", err)
		os.Exit(1)
	}
}

// open returns the budget, with what was used before. A snapshot that cannot be read is
// an error, or all users would begin with a fresh quota.
func open(snapshot string, minute, day int) (*budget.Budget, error) {
	const keys = 100_000 // API keys that are used in a day
	b, err := budget.New(budget.Config{
		Limits: []sketchlimit.Config{
			{Limit: minute, Window: time.Minute, Keys: keys},
			{Limit: day, Window: 24 * time.Hour, Keys: keys},
		},
		InFlight: 10_000,
		HoldFor:  10 * time.Minute, // without a sign of life from the upstream
	})
	if err != nil {
		return nil, err
	}
	if err := b.Load(snapshot); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return b, nil
}

// serve serves until the context ends, and saves what was used.
func serve(ctx context.Context, l net.Listener, h http.Handler, save func() error, every time.Duration) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := save(); err != nil {
				slog.Error("what was used may be forgotten", "error", err)
			}
		case err := <-ended:
			return err
		case <-ctx.Done():
			grace, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := server.Shutdown(grace)
			return errors.Join(err, save()) // what is still open counts in full
		}
	}
}
