package corednslimit

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

var log = clog.NewWithPlugin(name)

func init() {
	plugin.Register(name, setup)
	// A CoreDNS built by plugin.cfg knows the name and its place. In any other one it
	// stands before all plugins that answer, and behind those that watch.
	if !slices.Contains(dnsserver.Directives, name) {
		first := max(0, slices.Index(dnsserver.Directives, firstToAnswer))
		dnsserver.Directives = slices.Insert(slices.Clone(dnsserver.Directives), first, name)
	}
}

// firstToAnswer is the first plugin that answers queries itself. What stands before
// sketch_rrl has no limit, and plugin chaos, which stands before the cache, answers
// with far more bytes than it is asked with.
const firstToAnswer = "local"

func setup(c *caddy.Controller) error {
	h, err := Parse(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	config := dnsserver.GetConfig(c)
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	var of block
	server := &served{handler: h, of: c.Context()}
	c.OnStartup(func() error {
		of = block{keys: strings.Join(c.ServerBlockKeys, " "), view: config.ViewName} // which a later plugin has set
		live.add(of, server)
		return nil
	})
	c.OnRestartFailed(func() error { // this server goes on, though those that failed may have taken its place
		live.restore(of, server)
		return nil
	})
	c.OnShutdown(func() error {
		live.remove(of, server)
		return h.Close()
	})
	return nil
}

const (
	defaultWindow = 15
	defaultV4     = 24
	defaultV6     = 56
	defaultMemory = 16 << 20

	mostWindow     = 3600
	leastAllowance = 1. / longestSpan
	mostAllowance  = 500_000
	mostSlipRatio  = 10
	leastMemory    = 64 << 10
	mostMemory     = 64 << 30
	mostKeys       = 1<<31 - 1
)

// Parse reads the block of a Corefile. CoreDNS does so by itself; it is for those who
// build a chain of handlers.
func Parse(c *caddy.Controller) (*Handler, error) { return parse(c, nil) }

// parse is Parse with a clock, or the usual one if that is nil.
func parse(c *caddy.Controller, clock func() time.Time) (*Handler, error) {
	h := &Handler{prefixes: prefixes{defaultV4, defaultV6}, seed: maphash.MakeSeed()}
	r := rates{window: defaultWindow, clock: clock}
	r.room = func(bytes int) error { return memory.take(c.Context(), bytes, live.bytes()) }
	var set [categories]bool
	seen := map[string]bool{}
	c.Next()
	zones := c.RemainingArgs()
	for _, zone := range zones {
		if len(plugin.Host(zone).NormalizeExact()) == 0 {
			return nil, c.Errf("zone %s, must be a name or a network", zone)
		}
	}
	h.zones = plugin.OriginsFromArgsOrServerBlock(zones, c.ServerBlockKeys)
	warnOfZones(c, zones)
	for c.NextBlock() {
		if option := c.Val(); seen[option] {
			log.Warningf("%s:%d: %s twice: the last one counts", c.File(), c.Line(), option)
		}
		seen[c.Val()] = true
		if err := h.option(c, &r, &set); err != nil {
			return nil, err
		}
	}
	if c.Next() {
		return nil, plugin.ErrOnce
	}
	for other := nodata; other <= failure; other++ {
		if !set[other] {
			r.perSecond[other] = r.perSecond[response]
		}
	}
	if r.perSecond == [categories]float64{} {
		log.Warningf("%s:%d: limits nothing: set responses-per-second or another allowance", c.File(), c.Line())
	}
	if r.keys == 0 && r.memory == 0 {
		r.memory = defaultMemory
	}
	var err error
	if h.accounts, err = newAccounts(r); err != nil {
		return nil, err
	}
	return h, nil
}

// warnOfZones logs zones that limit nothing here.
func warnOfZones(c *caddy.Controller, zones []string) {
	served := plugin.OriginsFromArgsOrServerBlock(nil, c.ServerBlockKeys)
	for _, zone := range zones {
		if _, err := strconv.ParseFloat(zone, 64); err == nil {
			log.Warningf("%s:%d: %s is taken for a zone: an allowance is an option of the block", c.File(), c.Line(), zone)
			continue
		}
		for _, normal := range plugin.Host(zone).NormalizeExact() {
			if len(served) > 0 && plugin.Zones(served).Matches(normal) == "" && !slices.ContainsFunc(served, plugin.Name(normal).Matches) {
				log.Warningf("%s:%d: zone %s is not of this server block (%s): it limits nothing",
					c.File(), c.Line(), zone, strings.Join(served, " "))
			}
		}
	}
}

// option reads one line of the block.
func (h *Handler) option(c *caddy.Controller, r *rates, set *[categories]bool) (err error) {
	switch option := c.Val(); option {
	case "window":
		r.window, err = number(c, 0, mostWindow)
	case "ipv4-prefix-length":
		h.prefixes.v4, err = whole(c, 1, 32)
	case "ipv6-prefix-length":
		h.prefixes.v6, err = whole(c, 1, 128)
	case "slip-ratio":
		h.slipRatio, err = whole(c, 0, mostSlipRatio)
	case "report-only":
		h.reportOnly = true
		err = none(c)
	case "max-table-size":
		if _, err = whole(c, 0, mostKeys); err == nil {
			log.Info("max-table-size does nothing here: there is no table, and memory is fixed")
		}
	case "keys":
		r.keys, err = whole(c, 1, mostKeys)
	case "memory":
		r.memory, err = bytes(c)
	default:
		i := slices.Index(options[:], option)
		if i < 0 {
			return c.Errf("unknown option %s", option)
		}
		set[i] = true
		r.perSecond[i], err = allowance(c)
	}
	if err == nil && r.keys > 0 && r.memory > 0 {
		err = c.Err("keys and memory, only one of them may be set")
	}
	return err
}

// value returns the option of the line and its only argument.
func value(c *caddy.Controller) (option, arg string, err error) {
	option = c.Val()
	args := c.RemainingArgs()
	if len(args) != 1 {
		return option, "", c.Errf("%s with %d values, must have one", option, len(args))
	}
	return option, args[0], nil
}

func none(c *caddy.Controller) error {
	option := c.Val()
	if n := len(c.RemainingArgs()); n > 0 {
		return c.Errf("%s with %d values, must have none", option, n)
	}
	return nil
}

func whole(c *caddy.Controller, least, most int) (int, error) {
	option, arg, err := value(c)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < least || n > most {
		return 0, c.Errf("%s %s, must be a whole number of %d … %d", option, arg, least, most)
	}
	return n, nil
}

func number(c *caddy.Controller, least, most float64) (float64, error) {
	option, arg, err := value(c)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(arg, 64)
	if err != nil || !(n >= least && n <= most) {
		return 0, c.Errf("%s %s, must be a number of %v … %v", option, arg, least, most)
	}
	return n, nil
}

// allowance is number for an allowance, which may be 0.
func allowance(c *caddy.Controller) (float64, error) {
	option, arg, err := value(c)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(arg, 64)
	if err != nil || n != 0 && !(n >= leastAllowance && n <= mostAllowance) {
		return 0, c.Errf("%s %s, must be 0 or a number of %v … %d", option, arg, leastAllowance, mostAllowance)
	}
	return n, nil
}

// bytes reads a number of bytes, with KiB, MiB or GiB.
func bytes(c *caddy.Controller) (int, error) {
	option, arg, err := value(c)
	if err != nil {
		return 0, err
	}
	number, shift := arg, 0
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if n, ok := strings.CutSuffix(arg, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < max(1, leastMemory>>shift) || n > mostMemory>>shift {
		return 0, c.Errf("%s %s, must be 64KiB … 64GiB", option, arg)
	}
	return n << shift, nil
}
