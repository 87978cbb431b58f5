package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit statuses. What a failure does not mark as something else is the user's
// mistake: flags and arguments are checked in many places, work is done in one.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells count it
)

// failure is an error of the work itself, not of how it was asked for.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// exitStatus says in one line what went wrong, if anything did.
func exitStatus(errOut io.Writer, err error) int {
	var failed failure
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(errOut, "sketchlimit: interrupted")
		return exitInterrupted
	case errors.As(err, &failed):
		fmt.Fprintln(errOut, "sketchlimit: "+oneLine(err))
		return exitFailure
	}
	fmt.Fprintln(errOut, "sketchlimit: "+oneLine(err))
	return exitUsage
}

// oneLine is the text of an error without the names of the packages it came from.
func oneLine(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "accuracy: "), "sketchlimit: ")
	return strings.Join(strings.Fields(text), " ")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sketchlimit",
		Short: "Measure a rate limiter that counts millions of keys in fixed memory",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return nil
		},
		RunE:               func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPostRunE: sayWritten,
		Version:            version(),
		SilenceErrors:      true,
		SilenceUsage:       true,
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetUsageTemplate(wrapped(root.UsageTemplate()))
	root.AddCommand(newReport())
	root.AddCommand(newCheck())
	root.AddCommand(newTune())
	root.AddCommand(newWhatIf())
	root.AddCommand(newMan())
	root.SuggestionsMinimumDistance = 2
	for _, c := range root.Commands() {
		completeFlags(c)
	}
	return root
}

// refuseUnknown has help and completion refuse names of nothing: cobra, whose commands
// they are, prints help then. The scripts of completion are written to where root
// writes at the time of this call.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error { return known(root.Find(args)) }
		case "completion":
			c.SuggestionsMinimumDistance = root.SuggestionsMinimumDistance
			c.Args = func(c *cobra.Command, args []string) error { return known(c, args, nil) }
			// Arguments of a command that does not run are not looked at.
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// known refuses the rest of what has led to a command.
func known(found *cobra.Command, rest []string, err error) error {
	switch {
	case err != nil || len(rest) == 0:
		return err
	case !found.HasSubCommands():
		return fmt.Errorf("unknown command %q, %s has none", rest[0], found.Name())
	}
	return unknownCommand(found, rest[0])
}

// unknownCommand names the command of parent that may have been meant, and all there are.
func unknownCommand(parent *cobra.Command, name string) error {
	var names []string
	for _, c := range parent.Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			names = append(names, c.Name())
		}
	}
	all := "must be " + strings.Join(names, " or ")
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		return fmt.Errorf("unknown command %q, did you mean %s? It %s", name, near[0], all)
	}
	return fmt.Errorf("unknown command %q, %s", name, all)
}

// unknownFlag names the flag that may have been meant.
func unknownFlag(c *cobra.Command, name string) error {
	flags := &cobra.Command{SuggestionsMinimumDistance: 2} // commands are what cobra has suggestions for
	c.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if near := flags.SuggestionsFor(name); len(near) > 0 {
		return fmt.Errorf("--%s: no such flag, did you mean --%s? See --help", name, near[0])
	}
	return fmt.Errorf("--%s: no such flag, see --help", name)
}

// sayWritten names the file that --html has written. The path is absolute: go run -C
// starts the program in another folder than the user's.
func sayWritten(c *cobra.Command, _ []string) error {
	html := c.Flags().Lookup("html")
	if html == nil || !html.Changed {
		return nil
	}
	file, err := filepath.Abs(html.Value.String())
	if err != nil {
		return failure{err}
	}
	fmt.Fprintln(c.ErrOrStderr(), "sketchlimit: wrote "+file)
	return nil
}

// wrapped makes flags and their texts fit the width of the tables.
func wrapped(template string) string {
	return regexp.MustCompile(`\.(LocalFlags|InheritedFlags)\.FlagUsages`).
		ReplaceAllString(template, fmt.Sprintf(".$1.FlagUsagesWrapped %d", pageWidth))
}

// flagError names the flag, the value and what is allowed.
func flagError(c *cobra.Command, err error) error {
	var (
		invalid *pflag.InvalidValueError
		missing *pflag.ValueRequiredError
		unknown *pflag.NotExistError
	)
	switch {
	case errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "bool":
		return fmt.Errorf("--%s=%s, must be true or false", invalid.GetFlag().Name, invalid.GetValue())
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s %s, %w", invalid.GetFlag().Name, shown(invalid.GetValue()), invalid.Unwrap())
	case errors.As(err, &missing):
		return fmt.Errorf("--%s: its value is missing", missing.GetSpecifiedName())
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("-%s: no such flag, see --help", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		return unknownFlag(c, unknown.GetSpecifiedName())
	}
	return err
}

// shown is a value as typed, or in quotes if that would be hard to see.
func shown(value string) string {
	if quoted := fmt.Sprintf("%q", value); value == "" || strings.ContainsAny(value, " \t") || quoted != `"`+value+`"` {
		return quoted
	}
	return value
}
