package waiting_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/exact"
	"github.com/sketchlimit/sketchlimit/waiting"
)

// What a place takes is what the package's doc says, in one line and in lines of their
// own; and it is given back.
func TestMemoryOfAPlace(t *testing.T) {
	const places = 10_000
	l := must(exact.NewGCRA(1, 1000*time.Hour, 1))
	live := func() int {
		for range 3 { // timers and what they refer to go one collection after the other
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for i := range places {
		l.Allow(strconv.Itoa(i))
	}
	for name, key := range map[string]func(int) string{
		"one line": func(int) string { return "0" }, "many lines": strconv.Itoa,
	} {
		q := must(waiting.New(l))
		list := make([]*waiting.Reservation, places)
		before := live()
		for i := range list {
			list[i] = must(q.Reserve(sketchlimit.Request{Key: key(i)}))
		}
		bytes := (live() - before) / places
		t.Log(name, bytes)
		require.Less(t, bytes, 700, name)
		for i := range list {
			require.True(t, list[places-1-i].Cancel())
		}
		require.Zero(t, waiting.Lines(q))
	}
}
