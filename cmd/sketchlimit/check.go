package main

import (
	"errors"
	"fmt"
	"io"
	"math"
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
			`every rule with its limit, how many keys it expects, the memory of its counts, and the share of requests of `+
			`innocent keys that it is predicted to deny then.`, ""),
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
	table := grid{Head: []string{"rule", "limit", "algorithm", "mode", "keys", "memory", "false denials"}, Text: 4, Mark: -1}
	for _, r := range all {
		total += r.MemoryBytes()
		table.Rows = append(table.Rows, ruleRow(r))
	}
	text := fmt.Sprintf("%s, %s of counts\n", plural(len(all), "rule", "rules"), bytesText(total))
	if len(all) > 0 {
		text += "\n" + table.text() + "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

func ruleRow(r *rules.Rule) []string {
	var modes []string
	for _, m := range []struct {
		name string
		is   bool
	}{{"shadow", r.Shadow}, {"quota", r.Quota}} {
		if m.is {
			modes = append(modes, m.name)
		}
	}
	row := []string{r.Domain + "." + r.Path, "", "", strings.Join(modes, ", "), "", "", ""}
	switch {
	case r.Unlimited:
		row[1] = "unlimited"
	case r.Limit == 0:
		row[1] = "blocked"
	default:
		row[1], row[2] = integer(r.Limit)+" per "+span(r.Window), r.Algorithm.String()
		row[4], row[5], row[6] = "not said", bytesText(r.MemoryBytes()), predicted(r)
		if r.Keys > 0 {
			row[4] = integer(r.Keys)
		}
	}
	return row
}

// predicted is the false-denial rate that a rule's memory is good for.
func predicted(r *rules.Rule) string {
	switch {
	case !r.Keyed:
		return "none" // one counter has no neighbours
	case r.FalseDenialRate > 0:
		return shareText(r.FalseDenialRate)
	case r.Keys == 0:
		return "unknown"
	}
	// The size of a limiter falls as the rate rises, and stays where it is close to the
	// cliff at which everybody is denied.
	size := func(exponent float64) int {
		bytes, err := sketchlimit.Config{Limit: r.Limit, Window: r.Window, Algorithm: r.Algorithm, Keys: r.Keys,
			FalseDenialRate: math.Pow(10, exponent)}.Bytes()
		if err != nil {
			return math.MaxInt
		}
		return bytes
	}
	low, high := -12.0, -0.01
	switch {
	case size(low) <= r.MemoryBytes():
		return "< " + scientific(math.Pow(10, low))
	case size(high) > r.MemoryBytes():
		return "too many"
	}
	for high-low > 0.01 {
		if middle := (low + high) / 2; size(middle) <= r.MemoryBytes() {
			high = middle
		} else {
			low = middle
		}
	}
	return shareText(math.Pow(10, high))
}
