package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/spf13/cobra"
)

// report is everything that was measured. Its JSON form is what --json prints.
type report struct {
	Source     *stream                 `json:"source"`
	Config     config                  `json:"config"`
	Replay     *accuracy.Result        `json:"replay"`
	Sweep      []accuracy.SweepPoint   `json:"sweep"`
	Ablation   ablation                `json:"ablation"`
	Algorithms []accuracy.AlgorithmRow `json:"algorithms"`
}

// config is the limiter of Replay and, but for the memory, of Sweep.
type config struct {
	Limit           int              `json:"limit"` // units per key and window
	Window          time.Duration    `json:"window_ns"`
	Algorithm       string           `json:"algorithm"` // "sliding", "fixed" or "bucket"
	SubWindows      int              `json:"sub_windows"`
	Burst           int              `json:"burst,omitempty"`             // units in a full bucket
	MemoryBytes     int              `json:"memory_bytes"`                // as asked for, or as sized
	SizedForKeys    int              `json:"sized_for_keys,omitempty"`    // 0: the memory was given
	FalseDenialRate float64          `json:"false_denial_rate,omitempty"` // that it was sized for
	Seed            uint64           `json:"seed"`
	Plan            sketchlimit.Plan `json:"plan"`
}

type ablation struct {
	accuracy.Ablation
	Rows []accuracy.AblationRow `json:"rows"`
}

func newReport() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "report",
		Short: "Replay requests through a limiter and the exact algorithm, and compare",
		Long: wrap(`Replay a trace or made-up traffic through a sketch limiter and the exact algorithm, and print `+
			`what the limiter gets wrong, how that depends on its memory, and what each part of it is good for. `+
			`Without --trace and --workload, a recorded trace that the program carries along is replayed.`, "") +
			"\n\nWorkloads:\n  " + strings.Join(accuracy.Workloads(), "\n  ") +
			"\nWith --budget, answers that are estimated at cap and end at most, which is cap if not given:\n  " +
			strings.Join(accuracy.CostKinds(), "\n  "),
		Example: strings.Join([]string{
			"  sketchlimit report",
			"  sketchlimit report --trace access.log.gz --limit 60 --window 1m",
			"  zcat access.log.*.gz | sketchlimit report --trace - --html report.html",
			"  sketchlimit report --workload zipf:1.0,keys=1e6,requests=2e6 --memory 2MiB",
			"  sketchlimit report --budget --workload lognormal:1,cap=2000 --limit 40000",
		}, "\n"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("report %s, takes flags only; a trace is given as --trace %s", shown(args[0]), shown(args[0]))
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.report(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.register(c.Flags())
	return c
}

// report measures and prints. Everything is printed at the end, so that a run that
// fails leaves nothing half done.
func (o *options) report(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	o.defaults()
	if err := o.check(); err != nil {
		return err
	}
	if o.html != "" {
		if err := checkTarget(o.html, in, o.trace); err != nil {
			return failure{err}
		}
	}
	if o.budget {
		return o.reportBudget(ctx, in, out, errOut)
	}
	s, err := o.open(ctx, in, errOut)
	if err != nil {
		return err
	}
	bar := newProgress(errOut, s.Len(), reporting...)
	r, err := o.measure(ctx, s, bar)
	bar.finish()
	if err != nil {
		return err
	}
	return o.print(r, out)
}

// printed is what a report prints, beside its JSON form.
type printed interface {
	summary() string
	sections() []section
	page() (*page, error)
}

func (o *options) print(r printed, out io.Writer) error {
	var text bytes.Buffer
	if o.json {
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return failure{err}
		}
	} else {
		writeText(&text, r.summary(), r.sections())
	}
	if _, err := text.WriteTo(out); err != nil {
		return failure{err}
	}
	if o.html == "" {
		return nil
	}
	page, err := r.page()
	if err != nil {
		return failure{err}
	}
	return page.write(o.html)
}

// checkTarget finds before the work what would make it futile, or write the page over
// what is read: files, or in.
func checkTarget(file string, in io.Reader, inputs ...string) error {
	folder := filepath.Dir(file)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("--html %s: there is no folder %s", file, folder)
	}
	page, err := os.Stat(file)
	if err != nil {
		return nil
	}
	if page.IsDir() {
		return fmt.Errorf("--html %s: is a folder", file)
	}
	for _, input := range inputs {
		info, err := os.Stat(input)
		if stdin, ok := in.(*os.File); input == "-" && ok {
			info, err = stdin.Stat()
		}
		if err == nil && info.Mode().IsRegular() && os.SameFile(page, info) {
			return fmt.Errorf("--html %s: is what is read, must be another file", file)
		}
	}
	return nil
}

// measure runs all measurements over the stream, one after the other.
func (o *options) measure(ctx context.Context, s *stream, bar *progress) (*report, error) {
	c, sized, err := o.size(ctx, s, bar)
	if err != nil {
		return nil, err
	}
	r := &report{Source: s, Config: sized}
	if r.Replay, err = accuracy.Replay(ctx, s, c, bar.stage(stageReplay)); err != nil {
		return nil, failure{err}
	}
	if r.Sweep, err = accuracy.Sweep(ctx, s, c, sweepSizes(c), bar.stage(stageSweep)); err != nil {
		return nil, failure{err}
	}
	r.Ablation.Ablation = accuracy.Ablation{
		Limit: c.Limit, Window: c.Window, MemoryBytes: max(c.MemoryBytes, minMemory), Seed: c.Seed,
	}
	if r.Ablation.Rows, err = accuracy.Ablate(ctx, s, r.Ablation.Ablation, bar.stage(stageAblation)); err != nil {
		return nil, failure{err}
	}
	if r.Algorithms, err = accuracy.Compare(ctx, s, c.Limit, c.Window, bar.stage(stageAlgorithms)); err != nil {
		return nil, failure{err}
	}
	return r, nil
}

// size settles the memory. What is sized for a number of keys is from then on a
// limiter of the memory it took, so that it stands in the sweep as it is.
func (o *options) size(ctx context.Context, s *stream, bar *progress) (sketchlimit.Config, config, error) {
	c := o.config()
	if c.MemoryBytes == 0 && c.Keys == 0 {
		var err error
		if c.Keys, err = peakKeys(ctx, s, c.Window, bar.stage(stageKeys)); err != nil {
			return c, config{}, failure{err}
		}
	}
	_, memory, err := c.Size()
	if err != nil {
		return c, config{}, inFlags(err)
	}
	if err := boundReplay(memory, fmt.Sprintf("a limiter for %s", plural(c.Keys, "key", "keys"))); err != nil {
		return c, config{}, err
	}
	sized := config{
		Limit: c.Limit, Window: c.Window, Algorithm: c.Algorithm.String(), SubWindows: max(c.SubWindows, 1), Burst: c.Burst,
		MemoryBytes: c.MemoryBytes, SizedForKeys: c.Keys, FalseDenialRate: c.FalseDenialRate, Seed: c.Seed,
	}
	if c.Algorithm == sketchlimit.TokenBucket {
		or(&sized.Burst, c.Limit)
	}
	if c.MemoryBytes == 0 {
		sized.MemoryBytes = memory
		or(&sized.FalseDenialRate, 1e-5)
	}
	c.MemoryBytes, c.FalseDenialRate = sized.MemoryBytes, 0
	sized.Plan, _, err = c.Size()
	return c, sized, inFlags(err)
}

// peakKeys counts the distinct keys of the fullest window.
func peakKeys(ctx context.Context, s accuracy.Source, window time.Duration, o accuracy.Options) (int, error) {
	seen := make(map[string]struct{})
	current, peak, done := int64(math.MinInt64), 0, 0
	for r := range s.Requests() {
		if n := r.Time.UnixNano() / int64(window); n != current {
			peak, current = max(peak, len(seen)), n
			clear(seen)
		}
		seen[r.Key] = struct{}{}
		if done++; done%(64<<10) == 0 {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			o.Progress(done, s.Len())
		}
	}
	return max(peak, len(seen)), nil
}

// sweepSizes are half steps of a power of two around the memory of c, from an eighth
// to four times as much, as far as a limiter can be built and replayed.
func sweepSizes(c sketchlimit.Config) []int {
	var sizes []int
	for i := -6; i <= 4; i++ {
		sizes = append(sizes, int(math.Round(float64(c.MemoryBytes)*math.Pow(2, float64(i)/2))))
	}
	return slices.DeleteFunc(sizes, func(bytes int) bool {
		c.MemoryBytes = bytes
		_, _, err := c.Size()
		return err != nil || bytes > maxReplayed
	})
}
