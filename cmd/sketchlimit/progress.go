package main

import (
	"fmt"
	"io"
	"os"
	"sync"
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
	return s.weight*requests + s.more*min(requests, sampleAbove)
}

// sampleAbove is that of accuracy.Options: eleven limiters, and their judges, keep all
// keys that are measured. Tests lower it.
var sampleAbove = 300_000

// sayEvery is how often a line tells of progress where there is no terminal. Tests
// change it.
var sayEvery = 5 * time.Second

// progress shows how far the work is: as a bar on a terminal, otherwise as a line every
// few seconds.
type progress struct {
	bar     *progressbar.ProgressBar // nil: lines
	begin   time.Time
	behind  int // of the stages that are over
	next    int
	total   int // -1: nobody knows
	stop    chan struct{}
	stopped sync.WaitGroup

	mu   sync.Mutex
	name string
	done int
}

// working begins work that is so much in all, -1 if nobody knows.
func working(errOut io.Writer, name string, total int) *progress {
	p := &progress{begin: time.Now(), name: name, total: total, stop: make(chan struct{})}
	if onTerminal(errOut) {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(errOut),
			progressbar.OptionSetDescription(name),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetPredictTime(total > 0),
			progressbar.OptionClearOnFinish(),
		)
	}
	p.stopped.Go(func() { p.say(errOut) })
	return p
}

// newProgress begins stages over a stream of requests.
func newProgress(errOut io.Writer, requests int, stages ...stage) *progress {
	total := 0
	for _, s := range stages {
		total += s.work(requests)
	}
	return working(errOut, stages[0].name, total)
}

// say shows how far the work is until it is over: a line every sayEvery, or the bar five
// times a second.
func (p *progress) say(errOut io.Writer) {
	every := sayEvery
	if p.bar != nil {
		every = 200 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.mu.Lock()
			if p.bar == nil {
				fmt.Fprintln(errOut, "sketchlimit: "+p.line())
			} else if time.Since(p.begin) >= time.Second { // work that is over in a moment needs no bar that flashes up
				p.bar.Describe(p.name)
				_ = p.bar.Set(p.done)
			}
			p.mu.Unlock()
		}
	}
}

func (p *progress) line() string {
	text := p.name + ", " + time.Since(p.begin).Round(time.Second).String()
	if p.total > 0 {
		text += fmt.Sprintf(", %d %%", min(100, 100*p.done/p.total))
	}
	return text
}

// set says that so much is done.
func (p *progress) set(name string, done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.done = name, done
}

// stage begins the next part of the work.
func (p *progress) stage(s stage) accuracy.Options {
	p.behind = p.next
	return accuracy.Options{SampleAbove: sampleAbove, Progress: func(done, total int) {
		work := s.work(total)
		p.next = p.behind + work
		p.set(s.name, p.behind+int(float64(work)*float64(done)/float64(total)))
	}}
}

// finish ends the telling. Nothing is written after it.
func (p *progress) finish() {
	close(p.stop)
	p.stopped.Wait()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
