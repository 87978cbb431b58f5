package tests

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/inside"
)

const ms = time.Millisecond

var build = Build

// at returns a fixed clock.
func at(t time.Time) func() time.Time { return func() time.Time { return t } }

type step struct {
	at   time.Duration // since the epoch
	n    int
	want sketchlimit.Decision
}

func run(t *testing.T, l *sketchlimit.Limiter, steps []step) {
	t.Helper()
	for i, s := range steps {
		s.want.Limit = l.Do(sketchlimit.Request{Time: time.Unix(0, int64(s.at)), Key: "k", Peek: true}).Limit
		require.Equal(t, s.want, l.TakeAt(time.Unix(0, int64(s.at)), "k", s.n), "step %d at %v", i, s.at)
	}
}

// group returns the limiters as a Group.
func group(t testing.TB, limiters ...sketchlimit.Member) *sketchlimit.Group {
	t.Helper()
	g, err := sketchlimit.NewGroup(limiters...)
	require.NoError(t, err)
	return g
}

func fixed(t testing.TB, limit int, window time.Duration) *sketchlimit.Limiter {
	return build(t, sketchlimit.Config{Limit: limit, Window: window, Algorithm: sketchlimit.FixedWindow})
}

// resize replaces what decides by an engine of the given bytes, as growth does when the
// load asks for it, unless what was replaced before still matters. It reports whether
// it did.
func resize(l *sketchlimit.Limiter, bytes int) bool { return inside.Of(l).Growth.Resize(bytes) }

// generation returns the length of a generation of limiters with the configuration.
func generation(c sketchlimit.Config) time.Duration {
	if c.Keys == 0 && c.MemoryBytes == 0 && c.Plan == nil {
		c.Keys = 1
	}
	if c.Burst > 0 {
		c.Algorithm = sketchlimit.TokenBucket
	}
	l, err := sketchlimit.New(c)
	if err != nil {
		panic(err)
	}
	line := inside.Of(l).Line
	return time.Duration(line.Length())
}

// keyName returns the name of key i, 8 bytes that differ from those of all other keys.
func keyName(i int64) string {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(i)*0x9e3779b97f4a7c15)
	return string(b[:])
}
