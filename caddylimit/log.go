package caddylimit

import (
	"context"
	"log/slog"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// log returns the logger of the config that is now Caddy's.
func log() *zap.Logger { return caddy.Log().Named("http.handlers.sketch_rate_limit") }

// logHandler writes to the log of the config that is Caddy's when there is something to
// tell: a zone may outlive the config that it began with.
type logHandler struct{ attrs []slog.Attr }

func (h *logHandler) current() slog.Handler {
	return zapslog.NewHandler(log().Core()).WithAttrs(h.attrs)
}

// Enabled implements [slog.Handler].
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.current().Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.current().Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements [slog.Handler]. Package redislimit has no groups.
func (h *logHandler) WithGroup(string) slog.Handler { return h }
