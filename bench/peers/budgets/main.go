// Command budgets measures what three ways to limit costs that show only afterwards
// overspend and deny, see accuracy.ReplayBudget:
//
//	make bench-budget
//
// writes notes/tables/budgets.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/bench/peers/internal/page"
)

func main() {
	err := execute(os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "budgets:", err)
		os.Exit(1)
	}
}

// traffic is a row of the table: answers, to the prompts of the trace or to made-up ones.
type traffic struct {
	name     string
	spec     string
	recorded bool
	limit    int // units a minute
}

// table is what is measured: where answers end at their cap nothing costs more than
// estimated, elsewhere some do.
var table = []traffic{
	{"answers of 300, end at 1000", "lognormal:1,cap=1000", false, 20_000},
	{"the same, one after another", "lognormal:1,cap=1000,burst=1", false, 20_000},
	{"the same, up to 16 at once", "lognormal:1,cap=1000,burst=16", false, 20_000},
	{"the same, end at 4000", "lognormal:1,cap=4000", false, 20_000},
	{"Pareto, end at 4000", "pareto:1.2,cap=4000", false, 20_000},
	{"estimated at 500, end at 8000", "lognormal:1.5,cap=500,most=8000", false, 20_000},
	{"Pareto, estimated at 1000, end at 16,000", "pareto:1.2,cap=1000,most=16000", false, 20_000},
	{"Mooncake, end at 1000", "lognormal:1,cap=1000", true, 200_000},
	{"Mooncake, end at 4000", "lognormal:1,cap=4000", true, 200_000},
	{"Mooncake, estimated at 500, end at 8000", "lognormal:1.5,cap=500,most=8000", true, 200_000},
	{"Mooncake, 1000 users, end at 1000", "lognormal:1,cap=1000,keys=1000", true, 50_000},
}

// execute runs the program with its arguments.
func execute(args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("budgets", flag.ContinueOnError)
	flags.SetOutput(progress)
	var (
		quick = flags.Bool("quick", false, "play a twentieth of the made-up requests, with one seed: to see that it works")
		seeds = flags.Int("seeds", 10, "play each row with so many `seeds`")
		trace = flags.String("trace", "../../cmd/sketchlimit/data/mooncake.tsv.gz", "the `file` with the blocks of prompts")
		write = flags.String("write", "", "write the results between the markers of this Markdown `file`")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *seeds < 1 {
		return fmt.Errorf("seeds %d, must be at least 1", *seeds)
	}
	record, err := page.Open(*write, "budgets")
	if err != nil {
		return err
	}
	prompts, err := accuracy.OpenTrace(*trace)
	if err != nil {
		return err
	}
	ctx, end := signal.NotifyContext(context.Background(), os.Interrupt)
	defer end()
	b := &bench{ctx: ctx, trace: prompts, seeds: *seeds, requests: 200_000, keys: 2000,
		progress: &page.Stamped{Writer: progress, Start: time.Now()}}
	if *quick {
		b.seeds, b.requests, b.keys = 1, 10_000, 100
	}
	command := strings.Join(append([]string{"go run -C bench/peers ./budgets"}, args...), " ")
	text := page.Provenance(command, time.Now()) + "\n"
	if text, err = b.play(text); err != nil {
		return err
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	return record.Write("budgets", text)
}

// bench is what the flags ask for.
type bench struct {
	ctx            context.Context
	trace          *accuracy.Trace
	seeds          int
	requests, keys int // made up
	progress       io.Writer
}

// play adds the table to a text.
func (b *bench) play(text string) (string, error) {
	text += fmt.Sprintf("Seeds: %d. Made-up traffic: %s requests of %s users in 10 windows of a minute.\n\n", b.seeds,
		page.Grouped(b.requests), page.Grouped(b.keys)) +
		"| traffic | way | overspent | users who did | worst, × limit | denied | would have fit | within limits | Overdraft |\n" +
		"|---|---|---|---|---|---|---|---|---|\n"
	for _, t := range table {
		var s [3]sums
		for seed := range b.seeds {
			r, err := b.measure(t, uint64(seed+1))
			if err != nil {
				return "", fmt.Errorf("%s: %w", t.name, err)
			}
			for i := range s {
				s[i].add(r, &r.Ways[i])
			}
		}
		for i, name := range []string{"**hold and settle**", accuracy.CheckThenDebit, accuracy.DebitAfterwards} {
			head, overdraft := "", ""
			if i == 0 {
				head, overdraft = t.name, s[i].overdraftText()
			}
			text += fmt.Sprintf("| %s | %s | %s | %s |\n", head, name, s[i].text(), overdraft)
		}
		fmt.Fprintln(b.progress, t.name)
	}
	return text, nil
}

// measure replays a row, and refuses what must not be.
func (b *bench) measure(t traffic, seed uint64) (*accuracy.BudgetResult, error) {
	base := accuracy.Costs{Seed: seed}
	if t.recorded {
		base.Trace = b.trace
	} else {
		base.Requests, base.Keys = b.requests, b.keys
	}
	costs, err := accuracy.ParseCosts(t.spec, base)
	if err != nil {
		return nil, err
	}
	src, err := costs.Source()
	if err != nil {
		return nil, err
	}
	c := sketchlimit.Config{Limit: t.limit, Window: time.Minute, Algorithm: sketchlimit.FixedWindow, Seed: seed}
	r, err := accuracy.ReplayBudget(b.ctx, src, c, accuracy.Options{})
	if err != nil {
		return nil, err
	}
	hold := &r.Ways[0]
	if r.AboveEstimate == 0 && hold.Overdraft > 0 || hold.Overspent > hold.OverHeld || hold.OverHeld > hold.Overdraft {
		return nil, fmt.Errorf("seed %d: overspent %d, must be at most %d by the books, and that at most Overdraft %d; "+
			"all of it 0 unless requests cost more than they hold, of which there are %d",
			seed, hold.Overspent, hold.OverHeld, hold.Overdraft, r.AboveEstimate)
	}
	return r, nil
}

// sums are those of a way over all seeds.
type sums struct {
	accuracy.BudgetWay
	requests, units uint64
	users           int
}

func (s *sums) add(r *accuracy.BudgetResult, w *accuracy.BudgetWay) {
	s.requests += r.Requests
	s.units += r.Units
	s.users += r.Keys
	s.DeniedRequests += w.DeniedRequests
	s.DeniedFitting += w.DeniedFitting
	s.ServedUnits += w.ServedUnits
	s.Overspent += w.Overspent
	s.OverspentKeys += w.OverspentKeys
	s.WorstLoad = max(s.WorstLoad, w.WorstLoad)
	s.OverHeld += w.OverHeld
	s.Overdraft += w.Overdraft
}

func (s *sums) text() string {
	return strings.Join([]string{
		share(s.Overspent, s.ServedUnits),
		share(uint64(s.OverspentKeys), uint64(s.users)),
		fmt.Sprintf("%.2f", s.WorstLoad),
		share(s.DeniedRequests, s.requests),
		share(s.DeniedFitting, s.requests),
		share(s.ServedUnits-s.Overspent, s.units),
	}, " | ")
}

// overdraftText is what Stats().Overdraft says, beside the books, as shares of what was
// served.
func (s *sums) overdraftText() string {
	if s.Overdraft == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (books: %s)", share(s.Overdraft, s.ServedUnits), share(s.OverHeld, s.ServedUnits))
}

// share is a share in percent, 0 where there is none at all.
func share(k, n uint64) string {
	switch p := 100 * float64(k) / float64(n); {
	case k == 0:
		return "0"
	case p < 0.01:
		return fmt.Sprintf("%.1g %%", p)
	case p < 10:
		return fmt.Sprintf("%.2f %%", p)
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}
