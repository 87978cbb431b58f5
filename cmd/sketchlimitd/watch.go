package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settled is how long nothing must happen before what has changed is read: a file is
// written in several steps. If something happens all the time, it is read patience
// after the first. Folders that are away are looked for every so often.
const (
	settled  = 50 * time.Millisecond
	patience = time.Second
	away     = time.Second
)

// watch calls changed once, and again when something has happened in one of the
// folders, until the context ends. The folders are asked for each time, because some
// may be new.
func watch(ctx context.Context, logger *slog.Logger, folders func() []string, matters func(fsnotify.Event) bool, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	addAll := func() error {
		for _, folder := range folders() {
			if err := watcher.Add(folder); err != nil {
				return fmt.Errorf("watch %s: %w", folder, err)
			}
		}
		return nil
	}
	if err := addAll(); err != nil {
		watcher.Close()
		return err
	}
	changed()
	go func() {
		defer watcher.Close()
		var quiet <-chan time.Time // nil: nothing has happened
		var latest time.Time       // at which it is read, whatever happens
		happened := func() {
			if quiet == nil {
				latest = time.Now().Add(patience)
			}
			quiet = time.After(min(settled, time.Until(latest)))
		}
		lost := false // a folder, which was told
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-watcher.Events:
				if matters(e) {
					happened()
				}
			case err := <-watcher.Errors: // some events are lost: look what there is
				logger.Warn("watching files", "error", err)
				happened()
			case <-quiet:
				quiet = nil
				err := addAll()
				if err != nil {
					quiet, latest = time.After(away), time.Now().Add(away)
				}
				if err != nil && !lost {
					logger.Warn("watching files", "error", err)
				}
				if err == nil || !lost {
					changed()
				}
				lost = err != nil
			}
		}
	}()
	return nil
}
