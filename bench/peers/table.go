package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sketchlimit/sketchlimit/bench/peers/internal/page"
)

// table renders the comparison as Markdown.
func (c comparison) table(s scale) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| limiter | %s keys | %s keys | one hot key | one hot key, denied | bytes a key at %s / %s keys | allocations a decision | full GC at %s keys |\n",
		count(s.few.keys), count(s.many.keys), count(s.few.keys), count(s.many.keys), count(s.many.keys))
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for i, few := range c.few {
		many := c.many[i]
		title := few.title()
		if i == 0 {
			title = "**" + title + "**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s (%s / %s) | %s | %s |\n", title,
			few.times(), many.times(), c.hot[i].times(), c.denied[i].times(),
			ratios(few.bytes/c.few[0].bytes, many.bytes/c.many[0].bytes), number(few.bytes), number(many.bytes),
			number(median(few.runs[0], func(r run) float64 { return r.allocs })), nanoseconds(float64(many.gc)))
	}
	fmt.Fprintf(&b, `
Cells: × this library (ns a decision), with 1 / 2 goroutines on 2 cores, medians of %d rounds in one process.

- A round is %s decisions (%s at %s keys) of each limiter in turns, on the same 16-byte keys.
  The limit is %d a key and window, and %s where the hot key is admitted.
- All keys were seen before, in the previous window too where that has memory of its own. %s of a window of %v
  had passed at %s keys, %s of %v at %s.
- sketchlimit has %s for %s keys and for the hot key, %s for %s.
- Bytes are the live heap after a collection, with the keys that a limiter keeps. Each limiter has the heap to itself.
- Collections happen between measurements only. The time in the last column comes on top.
- BoomFilters has a cell in each of four rows for every key, and never forgets.
`, s.rounds, page.Grouped(s.few.decisions), page.Grouped(s.many.decisions), count(s.many.keys), limit, page.Grouped(hotLimit),
		c.few[0].passed(), s.few.window, count(s.few.keys), c.many[0].passed(), s.many.window, count(s.many.keys),
		mebibytes(s.few.memory), count(s.few.keys), mebibytes(s.many.memory), count(s.many.keys))
	return b.String()
}

// passed is how much of the window had passed when the contestant was timed.
func (c *contestant) passed() string {
	runs := slices.Concat(c.runs[:]...)
	share := func(a, b run) int { return cmp.Compare(a.passed, b.passed) }
	return fmt.Sprintf("%.0f … %.0f %%", 100*slices.MinFunc(runs, share).passed, 100*slices.MaxFunc(runs, share).passed)
}

// times are the contestant's ratios and times a decision.
func (c *contestant) times() string {
	var ratio, ns [len(goroutines)]float64
	for g, runs := range c.runs {
		ratio[g] = median(runs, func(r run) float64 { return r.ratio })
		ns[g] = median(runs, func(r run) float64 { return r.ns })
	}
	return fmt.Sprintf("%s (%s / %s)", ratios(ratio[0], ratio[1]), number(ns[0]), number(ns[1]))
}

func ratios(a, b float64) string { return fmt.Sprintf("%s / %s ×", number(a), number(b)) }

// table renders the latencies as Markdown.
func (l latencies) table(s scale) string {
	var b strings.Builder
	b.WriteString("| memory, keys | p99.9, turning : not | p50 | p99 | p99.9 | max | turns |\n|---|---|---|---|---|---|---|\n")
	for _, c := range l.cases {
		fmt.Fprintf(&b, "| %s | %.2f × |", c.label(), c.ratio(99.9))
		for _, p := range []float64{50, 99, 99.9} {
			fmt.Fprintf(&b, " %s / %s |", nanoseconds(c.turning.at(p)), nanoseconds(c.still.at(p)))
		}
		fmt.Fprintf(&b, " %s / %s | %d |\n", nanoseconds(float64(c.turning.all.Max())), nanoseconds(float64(c.still.all.Max())), c.turns)
	}
	fmt.Fprintf(&b, "| the timer alone | | %s | %s | %s | %s | |\n", nanoseconds(l.timer.at(50)),
		nanoseconds(l.timer.at(99)), nanoseconds(l.timer.at(99.9)), nanoseconds(float64(l.timer.all.Max())))
	fmt.Fprintf(&b, `
Cells: a window of %v, which turns all the time / a window of an hour, which turned before the measurement.

- Each of %d rounds times %s decisions of both limiters one by one, on uniform keys, in one goroutine. The two
  limiters alternate ten times a round.
- Percentiles are medians over the rounds. Max is the maximum of all rounds. Turns are those of the window while
  decisions were timed.
- The last row is the same loop without a decision. All other rows contain it. Its tail is what the machine does to
  any program, and a longer decision meets more of that.
`, s.turning, s.passes, page.Grouped(s.timed))
	return b.String()
}

func (s size) label() string { return mebibytes(s.memory) + ", " + count(s.keys) + " keys" }

// number has two or three digits that matter.
func number(v float64) string {
	switch {
	case v < 0.005:
		return "0"
	case v < 0.95:
		return fmt.Sprintf("%.2f", v)
	case v < 20:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func nanoseconds(v float64) string {
	switch {
	case v < 1e3:
		return number(v) + " ns"
	case v < 1e6:
		return number(v/1e3) + " µs"
	case v < 1e9:
		return number(v/1e6) + " ms"
	}
	return number(v/1e9) + " s"
}

// count writes 1000000 as 1e6.
func count(n int) string {
	e := 0
	for n >= 10 && n%10 == 0 {
		n, e = n/10, e+1
	}
	return fmt.Sprintf("%de%d", n, e)
}

func mebibytes(n int) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.4g GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
