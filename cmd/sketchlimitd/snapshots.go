package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/sketchlimit/sketchlimit/rules"
)

// snapshots keep counts over a restart in a folder.
type snapshots struct {
	folder string // "": none are kept
	logger *slog.Logger
}

// check makes the folder, and tells whether files can be written there.
func (s *snapshots) check() error {
	if s.folder == "" {
		return nil
	}
	err := os.MkdirAll(s.folder, 0o700)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(s.folder, "probe"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("SNAPSHOT_DIR %q: %w", s.folder, err)
	}
	return nil
}

// restore gives rules the counts that were saved, before the first request is held
// against them.
func (s *snapshots) restore(limits *rules.Rules) {
	if s.folder == "" {
		return
	}
	switch err := limits.Restore(s.folder); {
	case err == nil:
		s.logger.Info("counts restored", "folder", s.folder)
	case !errors.Is(err, fs.ErrNotExist):
		s.logger.Error("counts not restored, or not all", "error", err)
	}
}

// keep saves the counts at every interval until the context ends.
func (s *snapshots) keep(ctx context.Context, every time.Duration, limits *rules.Rules) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.save(limits)
		case <-ctx.Done():
			return
		}
	}
}

// save saves the counts of all rules.
func (s *snapshots) save(limits *rules.Rules) {
	if s.folder == "" {
		return
	}
	if err := limits.Save(s.folder); err != nil {
		s.logger.Error("counts not saved", "error", err)
	}
}
