package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
)

// budgetReport is what --budget measures. Its JSON form is what --json prints.
type budgetReport struct {
	Source *stream                `json:"source"`
	Config config                 `json:"config"` // of the limiters
	Costs  accuracy.Costs         `json:"costs"`
	Budget *accuracy.BudgetResult `json:"budget"`
}

// blockLines is what --budget reads.
const blockLines = "a line for each block of a prompt"

// recorded reports whether a trace is replayed.
func (o *options) recorded() bool { return o.given("trace") || !o.given("workload") }

// budgetDefaults puts in what suits tokens.
func (o *options) budgetDefaults() {
	o.algorithm = sketchlimit.FixedWindow
	limit := 20_000
	if o.recorded() {
		limit = 200_000
	}
	or(&o.limit, limit)
	or(&o.window, time.Minute)
}

// checkBudget refuses what does not go with --budget.
func (o *options) checkBudget() error {
	switch {
	case o.given("algorithm"), o.given("sub-windows"), o.given("burst"):
		return errors.New("--budget with --algorithm, --sub-windows or --burst, its windows are fixed")
	case o.log.Format != accesslog.Auto && o.log.Format != accesslog.TSV:
		return fmt.Errorf("--format %s, must be tsv with --budget: %s", shown(string(o.log.Format)), blockLines)
	}
	return nil
}

func (o *options) reportBudget(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	r, src, err := o.openCosts(ctx, in, errOut)
	if err != nil {
		return err
	}
	c := o.config()
	if c.Keys > 0 {
		if _, memory, err := c.Size(); err != nil || boundReplay(memory, "") != nil {
			return cmp.Or(inFlags(err), boundReplay(memory, "--keys "+integer(c.Keys)))
		}
	}
	bar := newProgress(errOut, 3*src.Len(), stageBudget)
	r.Budget, err = accuracy.ReplayBudget(ctx, src, c, bar.stage(stageBudget))
	bar.finish()
	if err != nil {
		return failure{err}
	}
	if c.MemoryBytes == 0 {
		or(&c.Keys, r.Budget.PeakKeys)
		or(&c.FalseDenialRate, 1e-5)
	}
	l, err := sketchlimit.New(c)
	if err != nil {
		return inFlags(err)
	}
	r.Config = config{
		Limit: c.Limit, Window: c.Window, Algorithm: c.Algorithm.String(), SubWindows: 1, MemoryBytes: l.MemoryBytes(),
		SizedForKeys: c.Keys, FalseDenialRate: c.FalseDenialRate, Seed: c.Seed, Plan: l.Plan(),
	}
	return o.print(r, out)
}

// openCosts reads the trace, if there is one, and prepares the requests.
func (o *options) openCosts(ctx context.Context, in io.Reader, errOut io.Writer) (*budgetReport, accuracy.Spendings, error) {
	r := &budgetReport{Source: &stream{Kind: "workload"}}
	base := accuracy.Costs{Seed: o.seed}
	if o.recorded() {
		var err error
		if r.Source, err = o.openTrace(ctx, in, errOut); err != nil {
			return nil, nil, err
		}
		base.Trace = r.Source.Source.(*accuracy.Trace)
		if f := base.Trace.Info.Format; f != string(accesslog.TSV) {
			return nil, nil, fmt.Errorf("--trace %s: is %s, must be tsv with --budget: %s", shown(o.trace), f, blockLines)
		}
		if r.Source.About != "" {
			r.Source.About = "an hour of prompts to a language model service; the answers are made up. " + embeddedOrigin
		}
	} else {
		base.Window = o.window
	}
	spec := string(accuracy.LogNormal)
	if o.given("workload") {
		spec = o.workload
	}
	costs, err := accuracy.ParseCosts(spec, base)
	if err != nil {
		return nil, nil, badWorkload(err)
	}
	if err := boundCosts(costs); err != nil {
		return nil, nil, err
	}
	src, err := costs.Source()
	if err != nil {
		return nil, nil, failure{err}
	}
	r.Costs, r.Source.Workload = costs, costs.String()
	if !o.recorded() {
		r.Source.Title = r.Source.Workload
	}
	return r, src, nil
}

// ways are those of the replay, by their order.
func (r *budgetReport) ways() (hold, check, debit *accuracy.BudgetWay) {
	w := r.Budget.Ways
	return &w[0], &w[1], &w[2]
}

// within is the units that a way served within the limits.
func within(w *accuracy.BudgetWay) uint64 { return w.ServedUnits - w.Overspent }

func (r *budgetReport) summary() string {
	hold, check, debit := r.ways()
	text := "Who holds estimates "
	if hold.Overspent == 0 {
		text += "overspent nothing"
	} else {
		text += "overspent " + overText(hold)
	}
	text += fmt.Sprintf("; who checks estimates and debits afterwards overspent %s, and who only debits afterwards "+
		"%s.", overText(check), overText(debit))
	if w, best := within(hold), max(within(check), within(debit)); w < best {
		text += fmt.Sprintf(" The price of holding was %s of the units that could be served within the limits.",
			shareText(1-float64(w)/float64(best)))
	}
	return text
}

// overText is "5,227,327 units, up to 5.7 × the limit".
func overText(w *accuracy.BudgetWay) string {
	if w.Overspent == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%s, up to %.2f × the limit", plural(w.Overspent, "unit", "units"), w.WorstLoad)
}

func (r *budgetReport) sections() []section {
	return []section{r.replayed(), r.compared(), r.overdraft()}
}

func (r *budgetReport) replayed() section {
	b, c, k := r.Budget, r.Config, r.Costs
	wrapped := func(spec string) string { return strings.ReplaceAll(spec, ",", ", ") }
	rows := [][]string{{"source", wrapped(r.Source.Title)}}
	if r.Source.About != "" {
		rows = append(rows, []string{"about", r.Source.About})
	}
	if k.Trace != nil {
		rows = append(rows,
			[]string{"prompts", fmt.Sprintf("%d units for each block; a prompt is the lines of one time, "+
				"from where the first key of the trace comes again", accuracy.BlockUnits)},
			[]string{"users", integer(k.Keys) + ", drawn for each conversation, which is told by its second block"},
			[]string{"answers", wrapped(r.Source.Workload)})
	}
	limiter := bytesText(c.MemoryBytes)
	if c.SizedForKeys > 0 {
		limiter += fmt.Sprintf(" for %s in a window", plural(c.SizedForKeys, "key", "keys"))
	}
	rows = append(rows,
		[]string{"requests", fmt.Sprintf("%s of %s in %s",
			integer(b.Requests), plural(b.Keys, "user", "users"), plural(b.Windows, "window", "windows"))},
		[]string{"costs", fmt.Sprintf("%s, estimated at %s; %s cost more than estimated, and %s estimated above the limit",
			plural(b.Units, "unit", "units"), integer(b.EstimatedUnits),
			plural(b.AboveEstimate, "request", "requests"), integer(b.AboveLimit))},
		[]string{"at the same time", fmt.Sprintf("up to %s, of one user up to %s, of up to %s",
			plural(b.PeakInFlight, "request", "requests"), integer(b.PeakInFlightOfKey), span(b.Longest))},
		[]string{"limit", fmt.Sprintf("%s per user in %s, fixed window", plural(c.Limit, "unit", "units"), span(c.Window))},
		[]string{"limiters", limiter},
		[]string{"seed", fmt.Sprint(c.Seed)},
	)
	return section{
		ID:    "replayed",
		Title: "What was replayed",
		Prose: "What a request costs shows when it ends. It comes with an estimate: its prompt, and the most that its answer " +
			"is expected to take. All figures follow from this table alone, on any machine.",
		Table: grid{Rows: rows, Mark: -1},
	}
}

func (r *budgetReport) compared() section {
	rows := [][]string{}
	for i := range r.Budget.Ways {
		w := &r.Budget.Ways[i]
		rows = append(rows, []string{
			w.Way, integer(w.Overspent), shareText(float64(w.OverspentKeys) / float64(r.Budget.Keys)),
			fmt.Sprintf("%.2f ×", w.WorstLoad), integer(w.DeniedRequests), integer(w.DeniedFitting),
			integer(w.ServedUnits), integer(within(w)),
		})
	}
	return section{
		ID:    "compared",
		Title: "Three ways to limit what shows its cost afterwards",
		Prose: "Hold and settle holds the estimate when a request comes, and settles what it did cost at its end. Check, then " +
			"debit admits a request if its estimate is free, and consumes its cost at the end, if all of it is free then. " +
			"Debit afterwards admits while a unit is free, and charges the cost at the end, free or not. Exact books tell " +
			"what each of them let users spend: units count in the window in which their request ends. A request would " +
			"have fit if what the request costs was free beside what had been spent and what requests under way were going " +
			"to cost, which nobody knew. Not all of those would have fit together.",
		Table: grid{
			Head: []string{"", "units\noverspent", "users\nwho did", "worst,\n× limit", "requests\ndenied", "would\nhave fit",
				"units\nserved", "within\nlimits"},
			Text: 1, Rows: rows, Mark: -1,
		},
	}
}

func (r *budgetReport) overdraft() section {
	hold, check, _ := r.ways()
	s := section{
		ID:    "overdraft",
		Title: "What the budget knows of it",
		Prose: "Stats().Overdraft is what requests cost above what they held and did not fit then, beside what other requests " +
			"held. It may be more than users overspent in the end, because the others may have cost less than they held; " +
			"and where keys share cells a little more again. It is never less. Where no request costs more than it holds, " +
			"all of it is 0.",
		Table: grid{Rows: [][]string{
			{"Stats().Overdraft", plural(hold.Overdraft, "unit", "units")},
			{"by exact books", plural(hold.OverHeld, "unit", "units")},
			{"overspent in the end", plural(hold.Overspent, "unit", "units")},
		}, Mark: -1},
	}
	if check.Uncounted > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("Of what check, then debit served, its limiter never counted %s: AllowN is "+
			"all or nothing, and at the end it was nothing.",
			plural(check.Uncounted, "unit", "units")))
	}
	return s
}
