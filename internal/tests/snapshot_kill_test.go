package tests

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

var kills = flag.Int("kills", 5, "how often TestSnapshotKilled kills a process")

const (
	killedPath     = "SKETCHLIMIT_SNAPSHOT" // of the snapshot, in a process that is to be killed
	killedInterval = 100 * time.Millisecond // between its saves
)

func killedLimiter(t *testing.T) *sketchlimit.Limiter {
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: 1 << 30, Window: 1 << 60, Algorithm: sketchlimit.FixedWindow, MemoryBytes: 8 << 20,
	})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// A process that saves again and again is killed at any moment, also in the midst of a
// save. The file always restores, and is never older than the last save that was done:
// as one begins every interval, than two intervals, as long as a save takes no longer
// than one.
func TestSnapshotKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("processes that are killed for seconds: without -short")
	}
	path := filepath.Join(t.TempDir(), "limiter")
	oldest, used := time.Duration(0), 0
	for range *kills {
		begun, done := killed(t, path)
		l := killedLimiter(t)
		require.NoError(t, l.Load(path))
		used = 1<<30 - l.Peek("k").Remaining
		require.GreaterOrEqual(t, used, done, "older than the last save that was done")
		oldest = max(oldest, begun(used))
	}
	t.Logf("%d kills, saves every %v: the file always restores, is at most %v old, with %d units", *kills, killedInterval, oldest, used)
}

// killed runs a process, kills it, and returns the units that its last save has which was
// done, and how long before its end the last save began that has so many units at most.
func killed(t *testing.T, path string) (age func(units int) time.Duration, done int) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestSnapshotSaver$")
	cmd.Env = append(os.Environ(), killedPath+"="+path)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan time.Time, 1)
	begun := map[int]time.Time{}
	lines := bufio.NewScanner(out)
	saves := 0
	for lines.Scan() {
		var what string
		var units int
		var at int64
		if n, _ := fmt.Sscan(lines.Text(), &what, &units, &at); n < 3 {
			continue
		}
		if what == "begun" {
			begun[units] = time.Unix(0, at)
			continue
		}
		done = units
		if saves++; saves == 1 {
			time.AfterFunc(rand.N(4*killedInterval), func() { ended <- time.Now(); cmd.Process.Kill() })
		}
	}
	cmd.Wait()
	require.NotZero(t, saves, "it ended by itself")
	end := <-ended
	return func(units int) time.Duration {
		last := time.Time{}
		for u, at := range begun {
			if u <= units && at.After(last) {
				last = at
			}
		}
		return end.Sub(last)
	}, done
}

// TestSnapshotSaver is the process that is killed.
func TestSnapshotSaver(t *testing.T) {
	path := os.Getenv(killedPath)
	if path == "" {
		t.Skip("TestSnapshotKilled runs it")
	}
	l := killedLimiter(t)
	if _, err := os.Stat(path); err == nil {
		require.NoError(t, l.Load(path))
	}
	var units atomic.Int64
	units.Store(int64(1<<30 - l.Peek("k").Remaining))
	go func() {
		for l.Allow("k") {
			units.Add(1)
			time.Sleep(10 * time.Microsecond)
		}
	}()
	for {
		n := units.Load()
		fmt.Println("begun", n, time.Now().UnixNano())
		require.NoError(t, l.Save(path))
		fmt.Println("done", n, time.Now().UnixNano())
		time.Sleep(time.Until(time.Now().Truncate(killedInterval).Add(killedInterval)))
	}
}
