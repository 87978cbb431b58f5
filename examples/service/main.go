// Command service is a small JSON API behind limits from a file:
//
//	go run -C examples ./service -rules service/rules.yaml
//	curl -i localhost:8080/search?q=ann
//
// A second address, for operators, has a page that shows what the limits do, /metrics
// for Prometheus, /debug/vars and /debug/pprof/heap. Rules are read again when their
// file changes, and on SIGHUP; a file that is wrong changes nothing. SIGINT and SIGTERM
// end the service when its requests are answered.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// run serves until the context ends.
func run(ctx context.Context, args []string, log io.Writer) error {
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.SetOutput(log)
	address := flags.String("address", "localhost:8080", "address of the API")
	operators := flags.String("operators", "localhost:8081", "address of the page and /metrics")
	file := flags.String("rules", "service/rules.yaml", "file of rules")
	bytes := flags.Int("bytes", 256<<20, "the most memory that all rules may take")
	proxies := flags.String("proxies", "", "networks, separated by commas, whose X-Forwarded-For is believed")
	unlimited := flags.Bool("unlimited", false, "serve the API without limits, to see what they cost")
	if err := flags.Parse(args); err != nil {
		return err
	}
	networks, err := parseNetworks(*proxies)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	s, err := newService(config{*file, *bytes, networks, *unlimited, time.Minute}, logger)
	if err != nil {
		return err
	}
	defer s.watch()()
	return serve(ctx, logger, []endpoint{{"api", *address, s.api}, {"operators", *operators, s.operators}})
}

func parseNetworks(list string) (networks []netip.Prefix, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("-proxies: %w", err)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

type endpoint struct {
	name, address string
	handler       http.Handler
}

// serve serves the endpoints until the context ends, and then answers the requests that
// have come.
func serve(ctx context.Context, logger *slog.Logger, endpoints []endpoint) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var servers []*http.Server
	for _, e := range endpoints {
		listener, err := net.Listen("tcp", e.address)
		if err != nil {
			cancel(err)
			break
		}
		server := &http.Server{Handler: e.handler, ReadHeaderTimeout: 5 * time.Second}
		servers = append(servers, server)
		logger.Info("listening", "endpoint", e.name, "address", listener.Addr())
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				cancel(err)
			}
		}()
	}
	<-ctx.Done()
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	grace, end := context.WithTimeout(context.Background(), 5*time.Second)
	defer end()
	for _, server := range servers {
		err = errors.Join(err, server.Shutdown(grace))
	}
	return err
}
