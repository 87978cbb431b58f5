package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"golang.org/x/term"
)

// stage is a part of the work. Its weight is about what it takes for a request.
type stage struct {
	name   string
	weight int
}

var (
	stageKeys       = stage{"counting keys", 1}
	stageReplay     = stage{"replay", 4}
	stageSweep      = stage{"memory sweep", 14}
	stageAblation   = stage{"ablation", 6}
	stageAlgorithms = stage{"algorithms", 15}
)

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct {
	bar   *progressbar.ProgressBar // nil: none
	begin time.Time
	done  int // of the stages behind
	next  int
}

func newProgress(errOut io.Writer, requests int) *progress {
	p := &progress{begin: time.Now()}
	if f, ok := errOut.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	total := 0
	for _, s := range []stage{stageKeys, stageReplay, stageSweep, stageAblation, stageAlgorithms} {
		total += s.weight * requests
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
	return accuracy.Options{Progress: func(done, total int) {
		p.next = p.done + s.weight*total
		// Work that is over in a moment needs no bar that flashes up.
		if p.bar == nil || time.Since(p.begin) < time.Second {
			return
		}
		p.bar.Describe(s.name)
		_ = p.bar.Set(p.done + s.weight*done)
	}}
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
