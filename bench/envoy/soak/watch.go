package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit/bench/envoy/internal/servers"
)

// watcher changes the rules of a service under load every second, and looks at it.
type watcher struct {
	out     io.Writer
	service *servers.Service
	idle    state // before the load
	early   state // the most of the first quarter, or while it warms up
	late    state // the most of the last quarter
	reloads int
}

// state is what a service uses.
type state struct{ rss, goroutines, files int }

func (s *state) raise(by state) {
	s.rss, s.goroutines, s.files = max(s.rss, by.rss), max(s.goroutines, by.goroutines), max(s.files, by.files)
}

func newWatcher(out io.Writer, s *servers.Service) (w *watcher, err error) {
	w = &watcher{out: out, service: s}
	w.idle, err = w.look()
	return w, err
}

func (w *watcher) look() (s state, err error) {
	usage, err := w.service.Usage()
	if err != nil {
		return s, err
	}
	s.rss, s.files = usage.RSS, usage.Files
	s.goroutines, err = w.service.Goroutines()
	return s, err
}

// watch goes on until the context ends.
func (w *watcher) watch(ctx context.Context) error {
	began := time.Now()
	end, _ := ctx.Deadline()
	fmt.Fprintln(w.out, "| s | memory, MiB | goroutines | file descriptors |\n|---|---|---|---|")
	for second := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
		}
		w.reloads++
		if err := w.service.Write(file, rules(w.reloads)[file]); err != nil {
			return err
		}
		now, err := w.look()
		if err != nil {
			return err
		}
		switch since, whole := time.Since(began), end.Sub(began); {
		case since < max(warmUp, whole/4):
			w.early.raise(now)
		case since > whole*3/4:
			w.late.raise(now)
		}
		if w.reloads%30 == 1 {
			fmt.Fprintf(w.out, "| %.0f | %.0f | %d | %d |\n", time.Since(began).Seconds(), float64(now.rss)/(1<<20), now.goroutines, now.files)
		}
	}
}

// warmUp is how long the service may take to use the memory that it is given.
const warmUp = 15 * time.Second

// These are what may differ by chance: by when the service collects its garbage, and by
// what its runtime and gRPC keep.
const (
	rssSlack        = 32 << 20
	goroutinesSlack = 8
	filesSlack      = 2
)

// verdict returns an error if the service has not loaded its rules, or used more in the
// end of the load than at its beginning, or after it more than before.
func (w *watcher) verdict() error {
	fmt.Fprintf(w.out, "memory, goroutines, file descriptors: at most %v at first, at most %v in the last quarter\n", w.early, w.late)
	errs := []error{w.loaded()}
	if w.late.rss > w.early.rss+rssSlack || w.late.goroutines > w.early.goroutines+goroutinesSlack ||
		w.late.files > w.early.files+filesSlack {
		errs = append(errs, errors.New("the service grows"))
	}
	return errors.Join(append(errs, servers.Eventually(20*time.Second, func() error {
		now, err := w.look()
		if err == nil && (now.goroutines > w.idle.goroutines+goroutinesSlack || now.files > w.idle.files+filesSlack) {
			err = fmt.Errorf("left behind: %v, before the load %v", now, w.idle)
		}
		return err
	}))...)
}

// loaded returns an error if the service does not have the last rules, or has failed to
// load any.
func (w *watcher) loaded() error {
	return servers.Eventually(20*time.Second, func() error {
		list, err := w.service.List()
		if err != nil {
			return err
		}
		failed, err := w.service.Metric("ratelimit_service_config_load_error")
		if last := fmt.Sprintf("requests_per_unit=%d,", clientsLimit(w.reloads)); err == nil && (failed > 0 || !strings.Contains(list, last)) {
			err = fmt.Errorf("%.0f loads failed; no %s in %s", failed, last, list)
		}
		return err
	})
}
