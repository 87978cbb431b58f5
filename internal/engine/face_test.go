package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/striped"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// face asks an engine as a Limiter does: by keys, at a time that the test sets.
type face struct {
	*Engine
	hasher keyhash.Hasher
	now    time.Time
}

// faceOf returns an engine of the dimensions at the Unix epoch.
func faceOf(t testing.TB, rule spec.Rule, d spec.Dimensions) *face {
	require.NoError(t, d.Check(&rule))
	const seed = 1
	e, err := New(rule, d, seed, new(striped.Counter))
	require.NoError(t, err)
	return &face{e, keyhash.Hasher{}.Reseeded(seed), time.Unix(0, 0)}
}

func (f *face) position() rotating.Position { return f.Timeline.Position(f.now.UnixNano()) }

func (f *face) word() int64 { return f.Timeline.Pack(f.position()) }

func (f *face) take(key string, n int) spec.Verdict {
	return f.Take(f.word(), f.hasher.String(key), n, f.Limit, Whole)
}

func (f *face) allow(key string, n int) bool {
	return f.Take(f.word(), f.hasher.String(key), n, f.Limit, Brief).Allowed
}

func (f *face) peek(key string, n int) spec.Verdict {
	return f.Peek(f.position(), f.hasher.String(key), n, f.Limit)
}

// sliding and fixed are the usual windows.
func sliding(limit int, window time.Duration) spec.Rule { return spec.NewWindow(limit, window, 2) }
func fixed(limit int, window time.Duration) spec.Rule   { return spec.NewWindow(limit, window, 1) }

// at returns the place of a key by its hash.
func (f *face) at(h uint64) request { return f.request(f.Shard(h), h) }

func (f *face) consume(word int64, h uint64, n int, limit int64, effort Effort) spec.Verdict {
	return f.Consume(f.Shard(h), word, h, n, limit, effort)
}
