package main

import (
	"context"
	"fmt"
	"log/slog"
)

// alarms is a log handler. A limiter whose own audit finds a unit too many writes an
// error to the log, in the background, and so maybe when its episode has ended.
type alarms struct{ *bench }

func (a alarms) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (a alarms) WithAttrs([]slog.Attr) slog.Handler           { return a }
func (a alarms) WithGroup(string) slog.Handler                { return a }

// Handle counts the alarm as a violation, and prints it with the latest episodes.
func (a alarms) Handle(_ context.Context, r slog.Record) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bench.alarms++
	text := r.Message
	r.Attrs(func(attr slog.Attr) bool {
		text += " " + attr.String()
		return true
	})
	_, err := fmt.Fprintf(a.out, "\nVIOLATION alarm: %s\n  in one of %q\n", text, a.latest)
	return err
}
