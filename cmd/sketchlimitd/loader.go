package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sketchlimit/sketchlimit/rules"
)

// loader is where rules come from, and what became of them.
type loader struct {
	rules  *rules.Rules
	logger *slog.Logger

	successes, failures atomic.Uint64
	tried               chan struct{} // closed when rules have come for the first time, also wrong ones
	once                sync.Once

	first   func(*rules.Rules) // called with the first rules, before any request is held against them
	changed func(domains bool) // called each time, with whether there are domains
}

func newLoader(limits *rules.Rules, logger *slog.Logger) *loader {
	return &loader{rules: limits, logger: logger, tried: make(chan struct{})}
}

// load puts rules in the place of those before. If they could not be read or are wrong, those before stay.
func (l *loader) load(files []rules.File, err error) error {
	defer l.once.Do(func() { close(l.tried) })
	if err == nil {
		err = l.rules.Replace(files...)
	}
	if err != nil {
		err = errors.New(inEnvironment.Replace(err.Error()))
		l.failures.Add(1)
		l.logger.Error("rules stay as they are", "error", err)
		return err
	}
	if !l.loaded() {
		l.first(l.rules)
	}
	l.successes.Add(1) // from here on requests are answered
	l.changed(len(files) > 0)
	if len(files) == 0 {
		l.logger.Warn("rules loaded, and there are none: nothing is limited")
	} else {
		l.logger.Info("rules loaded", "files", len(files), "rules", len(l.rules.All()), "bytes", l.rules.MemoryBytes())
	}
	for _, rule := range l.rules.All() {
		if rule.Warning != "" {
			l.logger.Warn("a rule is not as its file says", "why", rule.Warning)
		}
	}
	return nil
}

// inEnvironment has the names of variables in place of those of options.
var inEnvironment = strings.NewReplacer("rules: SharedBytes", "half of MEMORY,", "bytes in all, must be at most", "bytes in all, must be at most MEMORY,")

// loaded tells whether there ever were rules without an error.
func (l *loader) loaded() bool { return l.successes.Load() > 0 }

// wait waits for the first rules.
func (l *loader) wait(ctx context.Context) {
	select {
	case <-l.tried:
	case <-ctx.Done():
	}
}
