package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/rules"
)

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Validate files of rules, and print the rules with their memory and error",
		Long: wrap(`Validate files of rules, or all that end in .yaml in a directory, without taking their memory, and print `+
			`every rule with its limit, how many keys it expects, the memory of its counts, the share of requests of innocent `+
			`keys that it is predicted to deny then, and its breaking point: the multiple of those keys from which on it would deny more than `+
			`one in ten of these requests. It takes a second or so for each size of rule.`, ""),
		Example: "  sketchlimit check rules.yaml\n  sketchlimit check /etc/limits",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("check: FILE is missing, must be at least 1")
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"yaml"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(c *cobra.Command, args []string) error {
			all, err := rules.Check(args...)
			if err != nil {
				return failure{err}
			}
			warnings, err := rules.Options{}.CheckWarnings(args...)
			if err != nil {
				return failure{err}
			}
			sizes := sizesOf(all)
			bar := working(c.ErrOrStderr(), "predicting", len(sizes))
			predicted, err := interruptible(c.Context(), func() (forecasts, error) { return predict(sizes, bar), nil })
			bar.finish()
			if err != nil {
				return err
			}
			return writeRules(c.OutOrStdout(), all, warnings, predicted)
		},
	}
}

func writeRules(out io.Writer, all []*rules.Rule, warnings []string, forecasts forecasts) error {
	total := 0
	table := grid{Head: []string{"rule", "limit", "algorithm", "keys", "memory", "false denials", "breaking point"}, Text: 3, Mark: -1}
	for _, r := range all {
		total += r.MemoryBytes()
		table.Rows = append(table.Rows, ruleRow(r, forecasts))
	}
	text := fmt.Sprintf("%s, %s of counts\n", plural(len(all), "rule", "rules"), bytesText(total))
	if len(all) > 0 {
		text += "\n" + table.text() + "\n"
	}
	for _, warning := range warnings {
		text += "\n" + warning + "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

func ruleRow(r *rules.Rule, forecasts forecasts) []string {
	row := []string{r.String(), "", "", "", "", "", ""}
	switch {
	case r.Unlimited:
		row[1] = "unlimited"
	case r.Limit == 0:
		row[1] = "blocked"
	default:
		row[1], row[2] = integer(r.Limit)+" per "+span(r.Window), r.Algorithm.String()
		if r.Burst != 0 && r.Burst != r.Limit {
			row[1] += ", burst " + integer(r.Burst)
		}
		row[3], row[4] = "not said", bytesText(r.MemoryBytes())
		if r.Keys > 0 {
			row[3] = integer(r.Keys)
		}
		forecast := forecasts[sizeOf(r)]
		row[5], row[6] = forecast[0], forecast[1]
	}
	for _, m := range []struct {
		name string
		is   bool
	}{{"deny_proven", r.Overload == sketchlimit.DenyProven}, {"charge", r.Charge}, {"shadow", r.Shadow}, {"quota", r.Quota}} {
		if m.is {
			row[2] = strings.TrimPrefix(row[2]+", "+m.name, ", ")
		}
	}
	return row
}

// size is what a rule's forecast follows from.
type size struct {
	keyed                     bool
	limit, burst, keys, bytes int
	units                     float64
	algorithm                 sketchlimit.Algorithm
}

func sizeOf(r *rules.Rule) size {
	return size{r.Keyed, r.Limit, r.Burst, r.Keys, r.MemoryBytes(), r.UnitsPerKey, r.Algorithm}
}

// forecasts are the false-denial rate that is predicted of a rule, and its breaking
// point. Many rules are of one size.
type forecasts map[size][2]string

// sizesOf are the sizes of rules, with one rule of each.
func sizesOf(all []*rules.Rule) map[size]*rules.Rule {
	sizes := map[size]*rules.Rule{}
	for _, r := range all {
		if !r.Unlimited && r.Limit > 0 {
			sizes[sizeOf(r)] = r
		}
	}
	return sizes
}

// predict forecasts as many sizes at the same time as there are processors.
func predict(sizes map[size]*rules.Rule, bar *progress) forecasts {
	found := forecasts{}
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		free    = make(chan struct{}, runtime.GOMAXPROCS(0))
	)
	for s, r := range sizes {
		free <- struct{}{}
		running.Go(func() {
			forecast := predicted(r)
			mu.Lock()
			found[s] = forecast
			bar.set("predicting", len(found))
			mu.Unlock()
			<-free
		})
	}
	running.Wait()
	return found
}

// predicted are the rate and the breaking point of a rule.
func predicted(r *rules.Rule) [2]string {
	switch {
	case !r.Keyed:
		return [2]string{"none", "none"} // one counter has no neighbours
	case r.Keys == 0:
		return [2]string{"unknown", "unknown"}
	}
	forecast, err := r.Forecast()
	if err != nil {
		return [2]string{"unknown", "unknown"}
	}
	cliff := decimal(forecast.BreakingPoint) + " ×"
	if forecast.BreakingPoint >= farthest {
		cliff = "≥ " + cliff
	}
	return [2]string{expectedText(forecast.Stated().FalseDenialRate, 0), cliff}
}
