package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// bench plays episodes until its time is over.
type bench struct {
	make     maker
	kinds    []string
	seed     uint64
	time     time.Duration
	episodes int
	steps    int64
	workers  int
	lanes    int  // episodes at a time, 2 if not set
	brief    bool // findings are only counted
	out      io.Writer

	probeKeys int     // new keys that a rate is held against; probes if 0
	deviation float64 // that a rate may have; likely if 0

	mu    sync.Mutex
	next  int
	tally map[string]*tally
	total int64

	latest []string // episodes that have begun
	alarms int      // of limiters' own audits, in the log
}

// tally is what became of the episodes of a kind.
type tally struct {
	episodes, steps int64
	rules           map[string]int // findings
	reported        map[string]int // episodes with findings of a rule, for which those were told
}

const toldInFull = 3 // episodes of a kind and rule; other findings are counted

func (b *bench) run(ctx context.Context) {
	start := time.Now()
	b.tally = map[string]*tally{}
	for _, kind := range b.kinds {
		b.tally[kind] = &tally{rules: map[string]int{}, reported: map[string]int{}}
	}
	fmt.Fprintf(b.out, "seed %d\n", b.seed)
	var wg sync.WaitGroup
	lanes := b.lanes
	if lanes == 0 {
		lanes = 2
	}
	for range lanes {
		wg.Go(func() {
			for ctx.Err() == nil && (b.time == 0 || time.Since(start) < b.time) {
				kind, seed, ok := b.take()
				if !ok {
					return
				}
				b.plays(kind, seed)
				b.episode(kind, seed)
			}
		})
	}
	wg.Wait()
	b.summary(time.Since(start))
}

// plays notes that an episode begins. A few of the latest are known where an alarm comes.
func (b *bench) plays(kind string, seed uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest = append(b.latest, fmt.Sprintf("-kind %s -seed %d", kind, seed))
	b.latest = b.latest[max(0, len(b.latest)-4):]
}

// take returns the next episode.
func (b *bench) take() (kind string, seed uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.episodes > 0 && b.next >= b.episodes || b.steps > 0 && b.total >= b.steps {
		return "", 0, false
	}
	kind, seed = b.turn(b.next), b.seed+uint64(b.next)
	b.next++
	return kind, seed, true
}

// turn returns whose turn it is: the rates' once in so many rounds, because new keys take
// longer to ask about than all else.
func (b *bench) turn(i int) string {
	const rounds = 16
	var rates, others []string
	for _, kind := range b.kinds {
		if slices.Contains(probed, kind) || slices.Contains(rare, kind) {
			rates = append(rates, kind)
		} else {
			others = append(others, kind)
		}
	}
	if i %= len(rates) + rounds*len(others); i < len(rates) {
		return rates[i]
	}
	return others[(i-len(rates))%len(others)]
}

func (b *bench) episode(kind string, seed uint64) {
	switch {
	case trials[kind] != nil:
		b.trial(kind, seed)
	case slices.Contains(probed, kind):
		b.probe(kind, seed)
	case kind == forged:
		b.forge(seed)
	case slices.Contains(concurrent, kind):
		b.threads(kind, seed)
	default:
		b.sequence(kind, seed)
	}
}

// sequence plays an episode step by step.
func (b *bench) sequence(kind string, seed uint64) {
	r := newRand(seed)
	s := draw(r, kind)
	w, err := newWorld(s, b.make)
	if err != nil {
		b.report(kind, seed, violation{rule: "setup", text: err.Error() + "\n" + s.String()}, nil, nil)
		return
	}
	defer func() { w.close() }()
	g := newGenerator(r, w)
	var ops []op
	seen := map[string]bool{}
	for range 300 + r.IntN(1500) {
		o := g.next()
		ops = append(ops, o)
		w.run(o)
		if strings.HasSuffix(kind, "grow") {
			settle()
		}
		for _, v := range w.found {
			if seen[v.rule] {
				b.count(kind, v.rule)
				continue
			}
			seen[v.rule] = true
			b.report(kind, seed, v, &s, ops)
		}
		panicked := slices.ContainsFunc(w.found, func(v violation) bool { return v.rule == "panic" })
		w.found = w.found[:0]
		if panicked {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tally[kind]
	t.episodes++
	t.steps += int64(w.step)
	b.total += int64(w.step)
}

// settle lets a limiter that grows do so, which it does in the background.
func settle() {
	for range 4 {
		runtime.Gosched()
	}
}

func (b *bench) count(kind, rule string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally[kind].rules[rule]++
}

// tells counts an episode with a finding, and returns whether it is to be told.
func (b *bench) tells(kind, rule string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally[kind].reported[rule]++
	return !b.brief && b.tally[kind].reported[rule] <= toldInFull
}

// replay plays operations anew and returns what the first finding of the rule says.
func (b *bench) replay(s setup, ops []op, rule string, silent bool) (v violation, ok bool) {
	w, err := newWorld(s, b.make)
	if err != nil {
		return v, false
	}
	defer func() { w.close() }()
	w.silent = silent
	for _, o := range ops {
		w.run(o)
		for _, v := range w.found {
			if v.rule == rule {
				return v, true
			}
		}
		w.found = w.found[:0]
	}
	return v, false
}

// shrink leaves out operations as long as the rule is still broken.
func (b *bench) shrink(s setup, ops []op, rule string) []op {
	v, ok := b.replay(s, ops, rule, true)
	if !ok {
		return nil // a limiter that grows, in the background
	}
	ops = slices.Clone(ops[:v.step])
	began := time.Now()
	for size := max(1, len(ops)/2); ; size /= 2 {
		for from := 0; from < len(ops) && time.Since(began) < 3*time.Second; {
			few := slices.Concat(ops[:from], ops[min(from+size, len(ops)):])
			if v, ok := b.replay(s, few, rule, true); ok {
				ops = few[:min(v.step, len(few))]
			} else {
				from += size
			}
		}
		if size <= 1 {
			return ops
		}
	}
}

// report counts the first finding of an episode and rule, and tells it with the
// operations that led there, or as few of them as will do.
func (b *bench) report(kind string, seed uint64, v violation, s *setup, ops []op) {
	b.count(kind, v.rule)
	if !b.tells(kind, v.rule) {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nVIOLATION %s: %s, seed %d, step %d, limiter %d, key %d\n  %s\n", v.rule, kind, seed, v.step, v.node, v.key, v.text)
	fmt.Fprintf(&text, "  again: go run -C stress ./adversary -kind %s -seed %d -episodes 1\n", kind, seed)
	if s != nil {
		text.WriteString(s.String())
	}
	if ops != nil {
		few := b.shrink(*s, ops, v.rule)
		if last, ok := b.replay(*s, few, v.rule, false); ok {
			fmt.Fprintf(&text, "  %d operations show it: %s\n", len(few), last.text)
		}
		if few == nil {
			few = ops
		}
		const most = 40
		if skipped := len(few) - most; skipped > 0 {
			fmt.Fprintf(&text, "    … %d operations before\n", skipped)
			few = few[skipped:]
		}
		for _, o := range few {
			fmt.Fprintf(&text, "    %v\n", o)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	io.WriteString(b.out, text.String())
}

func (b *bench) violations() (sum int) {
	sum = b.alarms
	for _, t := range b.tally {
		for _, n := range t.rules {
			sum += n
		}
	}
	return sum
}

// summary prints a table of what was done and found.
func (b *bench) summary(took time.Duration) {
	table := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(b.out, "\nseed %d, %v\n", b.seed, took.Round(time.Second))
	fmt.Fprintln(table, "kind\tepisodes\tsteps\tviolations\t")
	var sum tally
	for _, kind := range b.kinds {
		t := b.tally[kind]
		found := 0
		for _, n := range t.rules {
			found += n
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t\n", kind, t.episodes, t.steps, found)
		sum.episodes += t.episodes
		sum.steps += t.steps
	}
	fmt.Fprintf(table, "all\t%d\t%d\t%d\t\n", sum.episodes, sum.steps, b.violations())
	table.Flush()
	for _, kind := range b.kinds {
		for _, rule := range slices.Sorted(maps.Keys(b.tally[kind].rules)) {
			fmt.Fprintf(b.out, "%s: %s: %d in %d episodes\n", kind, rule, b.tally[kind].rules[rule], b.tally[kind].reported[rule])
		}
	}
}
