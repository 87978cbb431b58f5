package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/accesslog"
	"github.com/sketchlimit/sketchlimit/cmd/sketchlimit/whatif"
)

// whatIf is what the command line of whatif asks for.
type whatIf struct {
	log     accesslog.Options
	count   whatif.Options
	rules   string
	against string
	json    bool
	html    string
}

func newWhatIf() *cobra.Command {
	var w whatIf
	c := &cobra.Command{
		Use:   "whatif FILE...",
		Short: "Tell from an access log what limits would have refused, and whom",
		Long: wrap(`Read an access log once, and tell for a range of limits and windows how many requests and keys they would have `+
			`refused, which share of that belongs to the few heaviest keys, which limit to choose, and what memory it takes. `+
			`Several files are one log: they are read in the order of their first times. - is standard input. gzip and zstd are `+
			`recognised.`, "") +
			"\n\nFormats:\n" + indented(
			"json", "objects, one a line or in an array; fields of objects in them are named with dots",
			"envoy", "Envoy's default format; the client is the last address of X-Forwarded-For",
			"combined", "the default of nginx, and of Apache; words before the client are passed over",
			"common", "the same without referrer and user agent",
			"tsv", "unix_seconds TAB key [TAB cost]",
			"csv", "columns that a header names, by commas, semicolons or tabs",
			"w3c", "columns that a #Fields: line names, as IIS and CloudFront write them",
			"words", "words or columns without names: the time and the addresses tell which are which",
			"a pattern", "as nginx, Apache, Envoy, HAProxy, Squid and gunicorn have it in their configurations") +
			"\n\n" + wrap(`Times are Unix seconds, milliseconds, microseconds or nanoseconds, RFC 3339 (UTC if it has no zone), RFC 1123, or `+
			`those of the common format. The client is an address, or the name of a host; what is neither is skipped, and a log that `+
			`has mostly such lines is refused, unless --key names a field to take as it is. The fields of the server formats are `+
			`remote_addr, ident, user, request, method, path, protocol, status, bytes, referer, user_agent and x_forwarded_for; ip, user, `+
			`path, method, status, bytes and host also find the usual names of such fields in other formats.`, ""),
		Example: strings.Join([]string{
			"  sketchlimit whatif access.log",
			"  sketchlimit whatif access.log.*.gz access.log --windows 10s,1m --html whatif.html",
			"  zcat access.log.gz | sketchlimit whatif - --key user,path",
			`  sketchlimit whatif own.log --format '$remote_addr [$time_local] "$request" $status'`,
			"  sketchlimit whatif events.json --key request.headers.token --time ts --cost bytes",
			"  sketchlimit whatif access.log --rules today.yaml --against new.yaml",
		}, "\n"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("whatif: FILE is missing, must be at least 1, or - for standard input")
			}
			for i, name := range args {
				if slices.Contains(args[:i], name) {
					return fmt.Errorf("whatif %s, is given twice", shown(name))
				}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return w.run(c.Context(), args, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	w.register(c.Flags())
	return c
}

// indented sets names and what they mean in two columns.
func indented(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "  %-9s %s\n", pairs[i], pairs[i+1])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (w *whatIf) register(f *pflag.FlagSet) {
	f.SortFlags = false
	registerLog(f, &w.log)

	f.Var(parsed(&w.count.Windows, "", list(parseSpan(whatif.MinWindow, whatif.MaxWindow))), "windows", "`SPANS` of limits to try (default 1s,10s,1m,10m,1h)\n"+
		"e.g. --windows 10s,1m")
	f.Var(parsed(&w.count.Limits, "", list(count(1, 1<<30))), "limits", "`UNITS` of limits to try (default 1,2,5,10 … 100000)\n"+
		"e.g. --limits 50,60,80,100")
	f.BoolVar(&w.count.Exact, "exact", false, "follow every key, whatever memory that takes\ne.g. --exact")
	f.Var(parsed(&w.count.Memory, "", parseMemory(8<<20, maxCounts, "256MiB")), "memory", "`SIZE` of the counts (default 64MiB)\ne.g. --memory 256MiB")
	f.Var(parsed(&w.count.Sample, "", count(16, 1<<24)), "sample", "tell the use of so `MANY` keys, drawn at random (default 8192)\n"+
		"e.g. --sample 1e5")

	f.Var(parsed(&w.rules, "", parseText), "rules", "also hold the requests against the rules of `FILE` as those of today; "+
		"the keys of its descriptors are fields of the log\ne.g. --rules today.yaml --against new.yaml")
	f.Var(parsed(&w.against, "", parseText), "against", "and against new rules of `FILE`\ne.g. --against new.yaml")
	f.BoolVar(&w.json, "json", false, "print one JSON object\ne.g. --json | jq .suggestion")
	f.Var(parsed(&w.html, "", parseText), "html", "also write a page with tables and pictures to `FILE`, which needs no other\n"+
		"e.g. --html whatif.html")
}

// countFlags puts the words of the command line into the errors of package whatif.
var countFlags = strings.NewReplacer("whatif: ", "", "Windows", "--windows", "Limits", "--limits", "Memory", "--memory", "Sample", "--sample")

// list parses values separated by commas.
func list[T any](parse func(string) (T, error)) func(string) ([]T, error) {
	return func(text string) (all []T, err error) {
		const most = 32
		for one := range strings.SplitSeq(text, ",") {
			v, err := parse(strings.TrimSpace(one))
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		if len(all) > most {
			return nil, fmt.Errorf("must be at most %d", most)
		}
		return all, nil
	}
}

// exactBelow so many requests every key is followed, unless memory or a sample is asked
// for.
const exactBelow = 1_000_000

// answer is all that whatif tells. Its JSON form is what --json prints.
type answer struct {
	Files []*accesslog.File `json:"files"`
	*whatif.Report
	Size  *sizing     `json:"size,omitempty"`  // for the suggested limit, or the lowest that nobody reaches
	Rules *comparison `json:"rules,omitempty"` // for --rules
}

func (w *whatIf) run(ctx context.Context, paths []string, in io.Reader, out, errOut io.Writer) error {
	for flag, given := range map[string]bool{"memory": w.count.Memory > 0, "sample": w.count.Sample > 0} {
		if w.count.Exact && given {
			return fmt.Errorf("--exact with --%s, only one of them may be given", flag)
		}
	}
	if w.html != "" {
		if err := checkTarget(w.html, in, append(slices.Clone(paths), w.rules, w.against)...); err != nil {
			return failure{err}
		}
	}
	if w.count.Memory == 0 && w.count.Sample == 0 {
		w.count.ExactBelow = exactBelow
	}
	a, err := whatif.New(w.count)
	if err != nil {
		return errors.New(countFlags.Replace(err.Error()))
	}
	rules, err := w.openRules()
	if err != nil {
		return err
	}
	if rules != nil {
		w.log.Others = rules.fields
	}
	log, err := interruptible(ctx, func() (*accesslog.Log, error) { return accesslog.Open(paths, in, w.log) })
	if err != nil {
		return failureOrInterrupt(err)
	}
	if rules != nil {
		if err := rules.found(log); err != nil {
			return failure{err}
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // most of what is live stays so, and there is little to collect
	total := int(log.Size())
	or(&total, -1)
	progress := working(errOut, "reading", total)
	err = log.Read(ctx, func(b accesslog.Batch) error {
		a.Add(b.Requests)
		if rules != nil {
			rules.add(b)
		}
		progress.set("reading", int(log.BytesRead()))
		return nil
	})
	progress.finish()
	if err != nil {
		return failureOrInterrupt(err)
	}
	tellSkipped(errOut, log)
	r := &answer{Files: log.Files, Report: a.Report()}
	if rules != nil {
		r.Rules = rules.result()
	}
	debug.FreeOSMemory() // of the counts, which planning would take as much on top of
	if r.Size, err = r.size(ctx); err != nil {
		return err
	}
	return w.print(r, out)
}

func failureOrInterrupt(err error) error {
	var unreadable accesslog.Unreadable // another command line may read it
	if errors.Is(err, context.Canceled) || errors.As(err, &unreadable) {
		return err
	}
	return failure{err}
}
