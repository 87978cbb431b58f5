package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settled is how long nothing must happen before what has changed is read: a file is written in several steps.
const settled = 50 * time.Millisecond

// watch calls changed once, and again when something has happened in one of the folders, until the context ends. The folders are
// asked for each time, because some may be new.
func watch(ctx context.Context, logger *slog.Logger, folders func() []string, matters func(fsnotify.Event) bool, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	for _, folder := range folders() {
		if err := watcher.Add(folder); err != nil {
			watcher.Close()
			return fmt.Errorf("watch %s: %w", folder, err)
		}
	}
	changed()
	go func() {
		defer watcher.Close()
		var quiet <-chan time.Time // nil: nothing has happened
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-watcher.Events:
				if matters(e) {
					quiet = time.After(settled)
				}
			case err := <-watcher.Errors: // some events are lost: look what there is
				logger.Warn("watching files", "error", err)
				quiet = time.After(settled)
			case <-quiet:
				quiet = nil
				for _, folder := range folders() {
					if err := watcher.Add(folder); err != nil {
						logger.Warn("watching files", "folder", folder, "error", err)
					}
				}
				changed()
			}
		}
	}()
	return nil
}
