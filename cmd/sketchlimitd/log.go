package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// levels are the names that envoyproxy/ratelimit takes, in lower case.
var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
	"error": slog.LevelError, "fatal": slog.LevelError, "panic": slog.LevelError,
}

// newLogger returns a logger that writes text or, for machines, one JSON object a line
// with the keys @timestamp and @message.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	least, ok := levels[strings.ToLower(level)]
	if !ok {
		return nil, fmt.Errorf("LOG_LEVEL %q, must be trace, debug, info, warn, error, fatal or panic", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch strings.ToLower(format) {
	case "text", "":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			switch {
			case len(groups) > 0:
			case a.Key == slog.TimeKey:
				a.Key = "@timestamp"
			case a.Key == slog.MessageKey:
				a.Key = "@message"
			}
			return a
		}
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("LOG_FORMAT %q, must be text or json", format)
	}
}
