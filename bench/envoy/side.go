package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/load"
	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// side is one of the services that take turns.
type side struct {
	kind    servers.Kind
	service *servers.Service
	rounds  []round
	idle    servers.Usage // before the first request
	stored  int           // bytes in Redis then
}

// round is what a service did in one turn.
type round struct {
	rate     float64 // requests a second
	p50, p99 time.Duration
	cpu      time.Duration // a request
	store    time.Duration // a request, of redis-server
	rss      int           // bytes, at the end
}

// start starts the service in a folder of its own, with statistics on.
func (s *side) start(dir string) (err error) {
	dir = filepath.Join(dir, filepath.Base(s.kind.Name))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if s.service, err = s.kind.Start(dir, byAddress, "STATS_FLUSH_INTERVAL=10s"); err != nil {
		return err
	}
	if s.service.Store != nil {
		if s.stored, _, err = s.service.Stored(); err != nil {
			return err
		}
	}
	s.idle, err = s.service.Usage()
	return err
}

// turn asks the service for so long. What came before it began to count warms up.
func (s *side) turn(l load.Load, duration time.Duration) error {
	warm, cancel := context.WithTimeout(context.Background(), duration/5)
	defer cancel()
	if _, err := l.Run(warm, s.service.GRPC); err != nil {
		return err
	}
	before, storeBefore, err := s.usage()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	result, err := l.Run(ctx, s.service.GRPC)
	if err != nil {
		return err
	}
	after, storeAfter, err := s.usage()
	if err != nil {
		return err
	}
	n := time.Duration(result.Requests)
	s.rounds = append(s.rounds, round{rate: result.Rate(), p50: result.Quantile(0.5), p99: result.Quantile(0.99),
		cpu: (after.CPU - before.CPU) / n, store: (storeAfter.CPU - storeBefore.CPU) / n, rss: after.RSS})
	return nil
}

// usage is what the service and its store have used.
func (s *side) usage() (service, store servers.Usage, err error) {
	if service, err = s.service.Usage(); err == nil && s.service.Store != nil {
		store, err = s.service.Store.Usage()
	}
	return service, store, err
}

// median is that of one of the figures of the rounds.
func median[T cmp.Ordered](s *side, figure func(round) T) T {
	var all []T
	for _, r := range s.rounds {
		all = append(all, figure(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func micros(d time.Duration) string {
	return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func mebi(bytes int) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

// table says what the services did.
func table(sides []*side) (string, error) {
	var b strings.Builder
	b.WriteString("| | requests/s | median | 99th percentile | CPU a request | memory: idle, after the first turn, after the last |\n|---|---|---|---|---|---|\n")
	for _, s := range sides {
		cpu := micros(median(s, func(r round) time.Duration { return r.cpu }))
		if s.service.Store != nil {
			cpu += " + " + micros(median(s, func(r round) time.Duration { return r.store })) + " in Redis"
		}
		fmt.Fprintf(&b, "| %s | %.0f | %s | %s | %s | %s, %s, %s |\n", s.kind.Name, median(s, func(r round) float64 { return r.rate }),
			millis(median(s, func(r round) time.Duration { return r.p50 })), millis(median(s, func(r round) time.Duration { return r.p99 })),
			cpu, mebi(s.idle.RSS), mebi(s.rounds[0].rss), mebi(s.rounds[len(s.rounds)-1].rss))
	}
	for _, s := range sides {
		if s.service.Store == nil {
			continue
		}
		used, keys, err := s.service.Stored()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\nRedis holds %d keys in %s: %d bytes a key and window.\n", keys, mebi(used), (used-s.stored)/max(1, keys))
	}
	return b.String(), nil
}
