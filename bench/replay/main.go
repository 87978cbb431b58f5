// Command replay decides random traffic by random configurations, and reports whether a
// commit decides otherwise: for a change that is to change nothing.
//
//	go run ./bench/replay [-base commit] [-configs 10000] [-seed 1]
//
// Of each configuration it keeps the memory, a hash of every decision, and the rates
// that the limiter states at the end. With -base it plays the same in a temporary
// worktree of that commit, and lists the first configurations that differ: in memory or
// any decision at all, in a rate by more than 1e-9 of it. It exits with 1 if there are
// any. Configurations that are refused must be refused by both.
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/bench/internal/basetree"
)

// rateError is by how much a stated rate may differ, relative to itself.
const rateError = 1e-9

// listed is how many configurations that differ are listed.
const listed = 20

// outcome is what a configuration did.
type outcome struct {
	config    string
	memory    int
	decisions uint64 // hash
	rates     []float64
}

func main() {
	log.SetFlags(0)
	base := flag.String("base", "", "commit to compare with")
	configs := flag.Int("configs", 10000, "configurations")
	seed := flag.Uint64("seed", 1, "of all that is random")
	prints := flag.Bool("print", false, "print what each configuration did, one a line")
	flag.Parse()
	if *prints {
		out := bufio.NewWriter(os.Stdout)
		defer out.Flush()
		for i := range *configs {
			fmt.Fprintln(out, play(*seed, i))
		}
		return
	}
	if err := compare(*base, *configs, *seed); err != nil {
		log.Fatal("bench/replay: ", err)
	}
}

// String is an outcome in one line, see parse.
func (o outcome) String() string {
	rates := make([]string, len(o.rates))
	for i, r := range o.rates {
		rates[i] = strconv.FormatFloat(r, 'g', -1, 64)
	}
	return fmt.Sprintf("%s\t%d\t%016x\t%s", o.config, o.memory, o.decisions, strings.Join(rates, " "))
}

func parse(line string) (o outcome, err error) {
	f := strings.Split(line, "\t")
	if len(f) != 4 {
		return o, fmt.Errorf("%d fields in %q, must be 4", len(f), line)
	}
	o.config = f[0]
	if o.memory, err = strconv.Atoi(f[1]); err != nil {
		return o, err
	}
	if o.decisions, err = strconv.ParseUint(f[2], 16, 64); err != nil {
		return o, err
	}
	for _, s := range strings.Fields(f[3]) {
		r, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return o, err
		}
		o.rates = append(o.rates, r)
	}
	return o, nil
}

// compare prints which configurations differ.
func compare(base string, configs int, seed uint64) error {
	now, err := played(".", configs, seed)
	if err != nil {
		return err
	}
	refused := 0
	for _, o := range now {
		if o.memory == 0 {
			refused++
		}
	}
	fmt.Printf("%d configurations, %d of them refused\n", len(now), refused)
	if base == "" {
		return nil
	}
	var before []outcome
	err = basetree.With(base, "bench/replay", func(tree string) error {
		before, err = played(tree, configs, seed)
		return err
	})
	if err != nil {
		return err
	}
	different := 0
	for i := range now {
		if what := difference(&before[i], &now[i]); what != "" {
			if different++; different <= listed {
				fmt.Printf("%d: %s\n   %s\n", i, what, now[i].config)
			}
		}
	}
	if different > 0 {
		return fmt.Errorf("%d configurations differ from %s", different, base)
	}
	fmt.Printf("all as at %s\n", base)
	return nil
}

// difference names what differs, if anything does.
func difference(before, now *outcome) string {
	switch {
	case before.config != now.config:
		return "other configurations: this program does not play them alike"
	case before.memory != now.memory:
		return fmt.Sprintf("%d bytes before, %d now", before.memory, now.memory)
	case before.decisions != now.decisions:
		return "decisions"
	case len(before.rates) != len(now.rates):
		return fmt.Sprintf("%d rates before, %d now", len(before.rates), len(now.rates))
	}
	for i, r := range now.rates {
		if b := before.rates[i]; math.Abs(r-b) > rateError*math.Abs(b) {
			return fmt.Sprintf("rate %d: %g before, %g now", i, b, r)
		}
	}
	return ""
}

// played builds the program in a tree of the repository, and returns what it prints.
func played(tree string, configs int, seed uint64) (all []outcome, err error) {
	out, err := basetree.Run(nil, "go", "run", "-C", tree, "./bench/replay",
		"-print", "-configs", strconv.Itoa(configs), "-seed", strconv.FormatUint(seed, 10))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		o, err := parse(strings.TrimRight(line, "\n"))
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	if len(all) != configs {
		return nil, fmt.Errorf("%d of %d configurations", len(all), configs)
	}
	return all, nil
}

// game is a configuration that is played.
type game struct {
	*rand.Rand
	digest xxhash.Digest
	now    time.Time
	config sketchlimit.Config
	keys   int
	step   time.Duration // in which time goes on, at most
}

// play plays the i-th configuration.
func play(seed uint64, i int) outcome {
	g := &game{Rand: rand.New(rand.NewPCG(seed, uint64(i))), now: time.Unix(1_700_000_000, 0)}
	g.choose()
	o := outcome{config: describe(&g.config)}
	limiter, err := sketchlimit.New(g.config)
	if err != nil {
		return o
	}
	defer limiter.Close()
	for range 3 {
		for range 300 + g.IntN(2000) {
			g.ask(limiter)
		}
		if limiter = g.restored(limiter); limiter == nil {
			return o
		}
		s := limiter.Stats()
		g.put(s.Admitted, s.Denied, s.Overdraft, s.Rotations)
		o.rates = append(o.rates, s.FalseDenialRate, s.DistinctKeys, s.PreviousDistinctKeys, s.BloomFill, s.SketchFill,
			s.MeanCost, limiter.FalseDenialRate(1, g.config.Limit))
	}
	o.memory, o.decisions = limiter.MemoryBytes(), g.digest.Sum64()
	return o
}

// upTo returns a number from 1 on, of any magnitude up to a power of two.
func (g *game) upTo(bits int) int { return 1 + g.IntN(1<<g.IntN(bits+1)) }

// choose makes a configuration up. What spares keys draws as it decides, and is left
// out.
func (g *game) choose() {
	g.digest.Reset()
	c := &g.config
	*c = sketchlimit.Config{Limit: g.upTo(17), Seed: 1 + g.Uint64N(1<<62), Clock: func() time.Time { return g.now }}
	c.Window = []time.Duration{time.Second, 7 * time.Second, time.Minute, 90 * time.Minute, 24 * time.Hour}[g.IntN(5)]
	switch g.IntN(4) {
	case 0:
		c.Algorithm = sketchlimit.FixedWindow
	case 1:
		c.Algorithm = sketchlimit.TokenBucket
		if g.IntN(2) == 0 {
			c.Burst = g.upTo(10)
		}
	case 2:
		c.SubWindows = []int{2, 3, 4, 6}[g.IntN(4)]
	}
	if g.IntN(4) == 0 {
		c.LowestLimit = 1 + g.IntN(c.Limit)
	}
	g.keys = 1 + g.upTo(12)
	g.step = c.Window / time.Duration(4<<g.IntN(8))
	switch g.IntN(3) {
	case 0:
		c.MemoryBytes = 4096 << g.IntN(5)
	case 1:
		c.MemoryBytes = 2048 + g.IntN(1<<15)
	default:
		c.Keys = g.keys
		if g.IntN(2) == 0 {
			c.UnitsPerKey = float64(c.Limit) * g.Float64()
		}
		if g.IntN(3) == 0 {
			c.Headroom = 1 + 3*g.Float64()
		}
	}
	c.Coarse = g.IntN(8) == 0
}

func describe(c *sketchlimit.Config) string {
	d := *c
	d.Clock = nil
	return strings.Join(strings.Fields(fmt.Sprintf("%+v", d)), " ")
}

// ask makes one call, and hashes its answer.
func (g *game) ask(l *sketchlimit.Limiter) {
	if g.IntN(4) == 0 {
		g.now = g.now.Add(time.Duration(g.Float64() * float64(g.step)))
	}
	key := strconv.Itoa(g.IntN(1 + g.IntN(g.keys)))
	n := 1
	if g.IntN(3) == 0 {
		n = g.upTo(1) * (1 + g.IntN(1+g.config.Limit/4))
	}
	r := sketchlimit.Request{Key: key, N: n}
	if g.IntN(3) == 0 {
		r.Limit = max(g.config.LowestLimit, 1+g.IntN(g.config.Limit))
	}
	switch g.IntN(12) {
	case 0:
		g.put(yes(l.AllowN(key, n)))
	case 1:
		g.put(uint64(l.Charge(key, n)))
	case 2:
		r.Peek = true
		g.decided(l.Do(r))
	case 3:
		r.Time = g.now.Add(-time.Duration(g.Float64() * float64(g.config.Window)))
		g.decided(l.Do(r))
	case 4:
		g.decided(l.Peek(key))
	case 5:
		g.put(uint64(l.DoCharge(r)))
	case 6:
		if wait, err := l.Reserve(r); err == nil {
			g.put(uint64(wait))
		}
	default:
		g.decided(l.Do(r))
	}
}

func (g *game) decided(d sketchlimit.Decision) {
	g.put(yes(d.Allowed), uint64(d.Remaining), uint64(d.RetryAfter), uint64(d.ResetAfter), uint64(d.Limit))
}

func yes(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (g *game) put(words ...uint64) {
	var b [8]byte
	for _, w := range words {
		binary.LittleEndian.PutUint64(b[:], w)
		g.digest.Write(b[:])
	}
}

// restored returns a limiter that goes on from a snapshot, or the same one.
func (g *game) restored(l *sketchlimit.Limiter) *sketchlimit.Limiter {
	if g.IntN(4) > 0 {
		return l
	}
	var b strings.Builder
	next, err := sketchlimit.New(g.config)
	if err == nil {
		_, err = l.WriteTo(&b)
	}
	if err == nil {
		_, err = next.ReadFrom(strings.NewReader(b.String()))
	}
	if err != nil {
		log.Fatalf("%s: %v", describe(&g.config), err)
	}
	g.digest.WriteString(b.String())
	l.Close()
	return next
}
