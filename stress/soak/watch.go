package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// watcher looks at a limiter under load once a second.
type watcher struct {
	l       *sketchlimit.Limiter
	judge   *judge
	load    *load
	scraper *scraper
	file    string

	seen        int           // seconds
	bytes       span          // of the limiter
	goroutines  span          //
	rates       float64       // sum of Stats' false-denial rates
	worst       float64       // of them
	outside     int           // seconds in which Stats told OutsidePlan
	snapshots   int           //
	longest     time.Duration // of a snapshot
	heapsBeside []int         // heap in use beside the limiter at the end of each cycle, bytes
	decisions   int64         // when it printed last
	before      tally         // of then
}

// span is the least and the most of what was seen, and how often it was another one than
// before.
type span struct{ least, most, last, changes int }

func (s *span) see(v int) {
	if s.most == 0 {
		s.least, s.last = v, v
	}
	if v != s.last {
		s.last, s.changes = v, s.changes+1
	}
	s.least, s.most = min(s.least, v), max(s.most, v)
}

func (w *watcher) second(n int) error {
	if err := w.scraper.scrape(); err != nil {
		return err
	}
	if n%5 == 0 {
		began := time.Now()
		if err := w.l.Save(w.file); err != nil {
			return err
		}
		w.snapshots++
		w.longest = max(w.longest, time.Since(began))
	}
	stats := w.l.Stats()
	w.seen++
	w.rates += stats.FalseDenialRate
	w.worst = max(w.worst, stats.FalseDenialRate)
	if stats.OutsidePlan {
		w.outside++
	}
	w.bytes.see(w.l.MemoryBytes())
	w.goroutines.see(runtime.NumGoroutine())
	if n%cycle == 0 {
		w.heapsBeside = append(w.heapsBeside, heapBeside(w.l))
	}
	if n%30 == 0 {
		w.print(n, stats)
	}
	return nil
}

// heapBeside returns the bytes in use that are not the limiter's. One that has let a
// predecessor go meanwhile is looked at again.
func heapBeside(l *sketchlimit.Limiter) int {
	for {
		own := l.MemoryBytes()
		if all := heap(); l.MemoryBytes() == own {
			return all - own
		}
	}
}

// heap returns the bytes in use after a collection.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }

func (w *watcher) print(n int, s sketchlimit.Stats) {
	if n == 30 {
		fmt.Println("| s | keys sent | distinct in the last window | decisions, million | limiter, MiB | heap, MiB | goroutines | live false-denial rate | judged | over-admitted | innocent | of these denied wrongly |")
		fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	}
	t, decisions := w.judge.sum(), w.load.decisions.Load()
	fmt.Printf("| %d | %d | %.0f | %.1f | %.1f | %.1f | %d | %.1e | %d | %d | %d | %d |\n", n, w.load.keys.Load(), s.PreviousDistinctKeys,
		float64(decisions-w.decisions)/1e6, mib(w.l.MemoryBytes()), mib(heap()), runtime.NumGoroutine(), s.FalseDenialRate,
		t.requests-w.before.requests, t.overAdmitted-w.before.overAdmitted, t.innocent-w.before.innocent, t.falselyDenied-w.before.falselyDenied)
	w.decisions, w.before = decisions, t
}

// restore saves the limiter, which is idle, and restores it in another one. Both are
// closed, so that none of them turns while they are compared.
func (w *watcher) restore(c sketchlimit.Config) error {
	if err := w.l.Save(w.file); err != nil {
		return err
	}
	info, err := os.Stat(w.file)
	if err != nil {
		return err
	}
	restored, err := sketchlimit.New(c)
	if err != nil {
		return err
	}
	if err := errors.Join(restored.Load(w.file), restored.Close(), w.l.Close()); err != nil {
		return err
	}
	differ, less := w.judge.compare(w.l, restored)
	fmt.Printf("\nRestored from a snapshot of %.1f MiB: %d of %d keys differ from the limiter that was saved, %d have more left than the exact algorithm says.\n",
		mib(int(info.Size())), differ, judged, less)
	if differ+less > 0 {
		return fmt.Errorf("restored: %d keys differ, %d have too much left", differ, less)
	}
	return nil
}

// summary prints what came out, and returns what should not have.
func (w *watcher) summary() error {
	t := w.judge.sum()
	fmt.Printf("\n- %d s, %.0f million decisions, %d snapshots, the longest %v\n",
		w.seen, float64(w.load.decisions.Load())/1e6, w.snapshots, w.longest.Round(time.Millisecond))
	fmt.Printf("- the limiter: %.1f … %.1f MiB, of another size %d times\n- goroutines: %d … %d\n- heap beside the limiter at the end of each cycle, MiB:",
		mib(w.bytes.least), mib(w.bytes.most), w.bytes.changes, w.goroutines.least, w.goroutines.most)
	for _, bytes := range w.heapsBeside {
		fmt.Printf(" %.2f", mib(bytes))
	}
	fmt.Printf("\n- over-admitted: %d of %d judged requests (%d more were not judged: a window may have turned meanwhile; %d denied)\n",
		t.overAdmitted, t.requests-t.unjudged, t.unjudged, t.denied)
	fmt.Printf("- light requests denied wrongly: %d of %d, %.1e; by Stats %.1e on average, %.1e in the worst second; outside the plan in %d\n",
		t.falselyDenied, t.innocent, float64(t.falselyDenied)/float64(max(t.innocent, 1)), w.rates/float64(max(w.seen, 1)), w.worst, w.outside)
	// Five standard deviations above the goal: a limiter that just meets it is above by
	// chance once in three million runs.
	most := goal*float64(t.innocent) + 5*math.Sqrt(goal*float64(t.innocent))
	switch last := len(w.heapsBeside) - 1; {
	case t.overAdmitted > 0:
		return fmt.Errorf("%d requests were admitted beyond the limit", t.overAdmitted)
	case float64(t.falselyDenied) > most:
		return fmt.Errorf("%d light requests of %d were denied wrongly, must be at most %.0f", t.falselyDenied, t.innocent, most)
	case w.goroutines.most > w.goroutines.least+4: // a connection has its own
		return fmt.Errorf("goroutines went from %d to %d", w.goroutines.least, w.goroutines.most)
	case last > 0 && w.heapsBeside[last] > w.heapsBeside[0]+1<<20:
		return fmt.Errorf("the heap beside the limiter went from %d to %d bytes", w.heapsBeside[0], w.heapsBeside[last])
	}
	return nil
}
