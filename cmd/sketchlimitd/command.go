package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/sketchlimit/sketchlimit/rules"
)

// failure is an error of a command that was called as it should be.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// logged returns an error of the service, or writes it itself if all lines are to be
// JSON.
func logged(log io.Writer, err error) error {
	if err == nil || !strings.EqualFold(os.Getenv("LOG_FORMAT"), "json") {
		return err
	}
	logger, loggerErr := newLogger(log, "error", "json")
	if loggerErr != nil {
		return err
	}
	logger.Error("sketchlimitd ends", "error", err.Error())
	return errLogged
}

// errLogged stands for an error that was written.
var errLogged = errors.New("logged")

// newCommand returns the command line. Whatever is no flag and no file of --check is an
// error: the settings are variables.
func newCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "sketchlimitd",
		Short: "Envoy's rate limit service, with counts in its own memory",
		Long: `sketchlimitd is Envoy's rate limit service, with counts in its own memory. Without flags it serves, as variables of the
environment say. SIGHUP reads rules and certificates again. SIGTERM and SIGINT end it.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !check {
				return fmt.Errorf("unknown argument %q: settings are variables, and files go with --check", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if check {
				return failed(checkRules(c.OutOrStdout(), args))
			}
			return failed(logged(c.ErrOrStderr(), run(c.Context(), c.ErrOrStderr())))
		},
	}
	c.SetUsageTemplate(`Usage:
  sketchlimitd                    serve
  sketchlimitd --check [FILE…]    check files and folders of rules, or those that it would serve
  sketchlimitd refused            list the keys that a service refuses the most
  sketchlimitd forgive …          give a key back what it has used

Flags:
{{.LocalFlags.FlagUsages}}
Variables, and what they are if not set:
` + variableList())
	c.SetVersionTemplate("sketchlimitd {{.Version}}\n")
	c.Flags().BoolVar(&check, "check", false, "read settings and rules as at the start, tell what is wrong, and end")
	c.CompletionOptions.DisableDefaultCmd = true
	for _, command := range operatorCommands() {
		command.SetUsageTemplate((&cobra.Command{}).UsageTemplate())
		c.AddCommand(command)
	}
	return c
}

// version is that of the module or, of a build in a clone, the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(text, s.Value[:min(12, len(s.Value))]) {
			text += " " + s.Value
		}
	}
	return strings.TrimSpace(text) + " " + runtime.Version()
}

// variableList has all variables with their defaults.
func variableList() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fields(reflect.TypeFor[settings](), func(f reflect.StructField) {
		fmt.Fprintf(w, "  %s\t%s\n", f.Tag.Get("envconfig"), f.Tag.Get("default"))
	})
	w.Flush()
	return b.String()
}

// checkRules reads settings and rules as the service does, and tells what it would do
// with them.
func checkRules(out io.Writer, paths []string) error {
	set, err := readSettings()
	if err != nil {
		return err
	}
	var texts []rules.File
	switch {
	case len(paths) > 0:
		texts, err = readPaths(paths)
	case set.ConfigType == "FILE":
		texts, err = (&files{settings: set}).read()
	default:
		err = fmt.Errorf("--check without files: CONFIG_TYPE %q, the rules come from elsewhere", set.ConfigType)
	}
	if err != nil {
		return err
	}
	limits, err := set.options().New(texts...)
	if err != nil {
		return inVariables(err)
	}
	domains := map[string]bool{}
	for _, rule := range limits.All() {
		domains[rule.Domain] = true
	}
	for _, warning := range limits.Warnings() {
		fmt.Fprintln(out, "warning:", warning)
	}
	if len(domains) == 0 {
		return errors.New("no rules: nothing would be limited")
	}
	fmt.Fprintf(out, "ok: %d files, %d domains, %d rules, %d bytes, MEMORY is %d\n",
		len(texts), len(domains), len(limits.All()), limits.MemoryBytes(), set.Memory)
	return nil
}

// readPaths reads files, and folders as the service does.
func readPaths(paths []string) (all []rules.File, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			all = append(all, rules.File{Name: path, Data: data})
			continue
		}
		some, err := readFolder(path, func(name string) bool { return strings.HasPrefix(name, ".") })
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// run serves as the environment says until the context ends.
func run(ctx context.Context, log io.Writer) error {
	set, err := readSettings()
	if err != nil {
		return err
	}
	logger, err := newLogger(log, set.LogLevel, set.LogFormat)
	if err != nil {
		return err
	}
	slog.SetDefault(logger) // also what libraries write by package log
	redis.SetLogger(redisLog{logger})
	tellWithoutEffect(logger)
	s, err := newServer(ctx, set, logger)
	if err != nil {
		return err
	}
	return s.serve(ctx)
}
