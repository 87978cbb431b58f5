package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sketchlimit/sketchlimit/rules"
)

// loader is where rules come from, and what became of them.
type loader struct {
	rules  *rules.Rules
	logger *slog.Logger

	good                *goodRules
	successes, failures atomic.Uint64
	current             atomic.Bool   // the latest that came are in force
	limits              atomic.Bool   // there have been rules without an error
	tried               chan struct{} // closed when rules have come for the first time, also wrong ones
	once                sync.Once

	first   func(*rules.Rules) // called with the first rules, before any request is held against them
	changed func(some bool)    // called each time, with whether there are rules
}

func newLoader(limits *rules.Rules, good *goodRules, logger *slog.Logger) *loader {
	return &loader{rules: limits, good: good, logger: logger, tried: make(chan struct{})}
}

// load puts rules in the place of those before. If they could not be read or are wrong,
// those before stay.
func (l *loader) load(files []rules.File, err error) error {
	defer l.once.Do(func() { close(l.tried) })
	if err == nil {
		err = l.rules.Replace(files...)
	}
	if err != nil {
		err = inVariables(err)
		l.failures.Add(1)
		l.current.Store(false)
		l.logger.Error("rules stay as they are", "error", err)
		if !l.loaded() {
			l.fallBack()
		}
		return err
	}
	l.successes.Add(1)
	l.current.Store(true)
	some := len(l.rules.All())
	l.use(some > 0)
	if some > 0 { // a folder that was emptied is as likely to be a mistake
		l.good.keep(files)
	}
	debug.FreeOSMemory() // what the limiters before have held: the collector alone lets the process grow by as much again
	if some == 0 {
		l.logger.Warn("rules loaded, and there are none: nothing is limited")
	} else {
		l.logger.Info("rules loaded", "files", len(files), "rules", some, "bytes", l.rules.MemoryBytes())
	}
	for _, warning := range l.rules.Warnings() {
		l.logger.Warn("a rule is not as its file says", "why", warning)
	}
	return nil
}

// use lets requests be held against the rules that were loaded.
func (l *loader) use(some bool) {
	if !l.loaded() {
		l.first(l.rules)
	}
	l.limits.Store(true) // from here on requests are answered
	l.changed(some)
}

// fallBack uses the last rules that were good, until others come that are.
func (l *loader) fallBack() {
	files, since := l.good.read()
	if len(files) == 0 {
		return
	}
	defer l.once.Do(func() { close(l.tried) })
	if err := l.rules.Replace(files...); err != nil {
		l.logger.Error("the last good rules cannot be used", "error", inVariables(err))
		return
	}
	l.use(true)
	l.logger.Warn("using the last good rules", "loaded", since, "files", len(files), "rules", len(l.rules.All()))
}

// inVariables returns an error of rules that names variables.
func inVariables(err error) error { return errors.New(inEnvironment.Replace(err.Error())) }

// inEnvironment has the names of variables in place of those of options.
var inEnvironment = strings.NewReplacer("rules: SharedBytes", "half of MEMORY,", "bytes in all, must be at most", "bytes in all, must be at most MEMORY,")

// loaded reports whether rules were ever loaded without an error.
func (l *loader) loaded() bool { return l.limits.Load() }

// wait waits for the first rules.
func (l *loader) wait(ctx context.Context) {
	select {
	case <-l.tried:
	case <-ctx.Done():
	}
}
