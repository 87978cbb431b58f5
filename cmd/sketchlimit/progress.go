package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"golang.org/x/term"
)

// stage is a part of the work: about what it takes for each request, and what for
// those that are judged, which of long streams is a sample.
type stage struct {
	name         string
	weight, more int
}

var (
	stageKeys       = stage{"counting keys", 1, 0}
	stageReplay     = stage{"replay", 4, 0}
	stageSweep      = stage{"memory sweep", 9, 5}
	stageAblation   = stage{"ablation", 3, 3}
	stageAlgorithms = stage{"algorithms", 1, 14}
	stageBudget     = stage{"budget", 1, 0}
)

// reporting is all that a report does.
var reporting = []stage{stageKeys, stageReplay, stageSweep, stageAblation, stageAlgorithms}

// work is what the stage takes in all.
func (s stage) work(requests int) int {
	return s.weight*requests + s.more*min(requests, 1_000_000) // above which accuracy samples
}

// sampleAbove is that of accuracy.Options. Tests lower it.
var sampleAbove = 0

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct {
	bar   *progressbar.ProgressBar // nil: none
	begin time.Time
	done  int // of the stages behind
	next  int
}

func newProgress(errOut io.Writer, requests int, stages ...stage) *progress {
	p := &progress{begin: time.Now()}
	if !onTerminal(errOut) {
		return p
	}
	total := 0
	for _, s := range stages {
		total += s.work(requests)
	}
	p.bar = progressbar.NewOptions(total,
		progressbar.OptionSetWriter(errOut),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
	)
	return p
}

// stage begins the next part of the work.
func (p *progress) stage(s stage) accuracy.Options {
	p.done = p.next
	return accuracy.Options{SampleAbove: sampleAbove, Progress: func(done, total int) {
		work := s.work(total)
		p.next = p.done + work
		// Work that is over in a moment needs no bar that flashes up.
		if p.bar == nil || time.Since(p.begin) < time.Second {
			return
		}
		p.bar.Describe(s.name)
		_ = p.bar.Set(p.done + int(float64(work)*float64(done)/float64(total)))
	}}
}

// showReplays counts the requests of replays on a terminal: how many they will be, nobody knows before. What it returns
// ends that.
func (t *tuning) showReplays(errOut io.Writer) (finish func()) {
	if t.traffic.Trace == nil || !onTerminal(errOut) {
		return func() {}
	}
	bar := progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(errOut),
		progressbar.OptionSetDescription("replaying for a plan"),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	t.traffic.Trace.Progress = func(requests int) { _ = bar.Set(requests) }
	return func() {
		t.traffic.Trace.Progress = nil
		_ = bar.Clear()
	}
}

func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
