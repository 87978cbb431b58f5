package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
)

// completions are what a shell offers for the values of flags, beside files.
var completions = map[string][]string{
	"algorithm": {"sliding", "fixed", "bucket"},
	"format":    formats(),
	"workload":  kindsOf(append(accuracy.Workloads(), accuracy.CostKinds()...)),
	"trace":     nil,
	"html":      nil,
	"rules":     nil,
	"against":   nil,
}

// formats are the names of the formats of logs.
func formats() []string {
	names := []string{string(accesslog.Auto)}
	for _, f := range accesslog.Formats {
		names = append(names, string(f))
	}
	return names
}

// kindsOf are the beginnings of specifications, for the user to go on.
func kindsOf(examples []string) (kinds []string) {
	for _, e := range examples {
		kind, _, _ := strings.Cut(e, ",")
		kinds = append(kinds, kind)
	}
	return kinds
}

// completeFlags has shells offer values: files for those flags that name one, and
// nothing where only the user knows.
func completeFlags(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		values, known := completions[f.Name]
		directive := cobra.ShellCompDirectiveNoFileComp
		switch {
		case known && values == nil:
			directive = cobra.ShellCompDirectiveDefault
		case f.Name == "workload":
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, directive)); err != nil {
			panic(err) // the flag is there, and this is the first time
		}
	})
}

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the manual pages, one for each command, into a directory",
		Example: "  sketchlimit man ~/.local/share/man/man1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("man: %d directories, must be 1", len(args))
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return failure{errors.New("man: " + oneLine(err))}
			}
			c.Root().DisableAutoGenTag = true
			header := doc.GenManHeader{Section: "1", Source: "sketchlimit", Manual: "sketchlimit"}
			if err := doc.GenManTree(c.Root(), &header, args[0]); err != nil {
				return failure{err}
			}
			return nil
		},
	}
}
