package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

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
			`keys that it is predicted to deny then, and the multiple of those keys from which it would deny everybody. It takes `+
			`a second or so for each size of rule.`, ""),
		Example: "  sketchlimit check rules.yaml\n  sketchlimit check /etc/limits",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("check: FILE is missing, must be at least 1")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			all, err := rules.Check(args...)
			if err != nil {
				return failure{err}
			}
			return writeRules(c.OutOrStdout(), all)
		},
	}
}

func writeRules(out io.Writer, all []*rules.Rule) error {
	total := 0
	forecasts := forecasts{}
	table := grid{Head: []string{"rule", "limit", "algorithm", "keys", "memory", "false denials", "cliff"}, Text: 3, Mark: -1}
	for _, r := range all {
		total += r.MemoryBytes()
		table.Rows = append(table.Rows, ruleRow(r, forecasts))
	}
	text := fmt.Sprintf("%s, %s of counts\n", plural(len(all), "rule", "rules"), bytesText(total))
	if len(all) > 0 {
		text += "\n" + table.text() + "\n"
	}
	for _, r := range all {
		if r.Warning != "" {
			text += "\n" + r.Warning + "\n"
		}
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
		row[5], row[6] = forecasts.of(r)
	}
	for _, m := range []struct {
		name string
		is   bool
	}{{"spare", r.Overload == sketchlimit.Spare}, {"charge", r.Charge}, {"shadow", r.Shadow}, {"quota", r.Quota}} {
		if m.is {
			row[2] = strings.TrimPrefix(row[2]+", "+m.name, ", ")
		}
	}
	return row
}

// size is what a rule's forecast follows from.
type size struct {
	limit, burst, keys, bytes int
	algorithm                 sketchlimit.Algorithm
}

// forecasts remembers what was predicted, since many rules are of one size.
type forecasts map[size][2]string

// of returns the false-denial rate that is predicted of a rule, and its cliff.
func (f forecasts) of(r *rules.Rule) (rate, cliff string) {
	at := size{r.Limit, r.Burst, r.Keys, r.MemoryBytes(), r.Algorithm}
	if _, known := f[at]; !known {
		f[at] = predicted(r)
	}
	return f[at][0], f[at][1]
}

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
	cliff := decimal(forecast.Cliff) + " ×"
	if forecast.Cliff >= farthest {
		cliff = "≥ " + cliff
	}
	return [2]string{expectedText(forecast.Stated().FalseDenialRate, 0), cliff}
}
