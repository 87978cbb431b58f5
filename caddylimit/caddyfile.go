package caddylimit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
)

func init() {
	const directive = "sketch_rate_limit"
	httpcaddyfile.RegisterHandlerDirective(directive, unmarshal)
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "basic_auth")
}

func unmarshal(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	return h, h.UnmarshalCaddyfile(helper.Dispenser)
}

// options read the values of the options of a block, by their names.
type options map[string]func(*caddyfile.Dispenser) error

// read reads a block. An option may come once, unless it is in many.
func (o options) read(d *caddyfile.Dispenser, many ...string) error {
	seen := map[string]bool{}
	for _, option := range many {
		seen[option] = false
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		option := d.Val()
		set := o[option]
		if set == nil {
			return d.Errf("unknown option %s", option)
		}
		if seen[option] {
			return d.Errf("%s twice, must be once", option)
		}
		if _, ok := seen[option]; !ok {
			seen[option] = true
		}
		if err := set(d); err != nil {
			return err
		}
	}
	return nil
}

// value returns an option that has one argument.
func value[T any](to *T, parse func(string) (T, error)) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		option := d.Val()
		if !d.NextArg() {
			return d.ArgErr()
		}
		v, err := parse(d.Val())
		if err != nil {
			return d.Errf("%s %q: %v", option, d.Val(), err)
		}
		*to = v
		if d.NextArg() {
			return d.ArgErr()
		}
		return nil
	}
}

func text(s string) (string, error) { return s, nil }

func number(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return 0, errors.New("must be a number")
	}
	return f, err
}

func duration(s string) (caddy.Duration, error) {
	d, err := caddy.ParseDuration(s)
	return caddy.Duration(d), err
}

// size reads bytes, such as 16MiB.
func size(s string) (int, error) {
	n, err := humanize.ParseBytes(s)
	if err == nil && n > math.MaxInt {
		return 0, fmt.Errorf("must be %d or less", math.MaxInt)
	}
	return int(n), err
}

// interval reads a duration, or that there is none.
func interval(s string) (caddy.Duration, error) {
	if s == "off" {
		return never, nil
	}
	d, err := above0(duration)(s)
	if err != nil {
		return 0, fmt.Errorf("%w, or off", err)
	}
	return d, nil
}

// above0 reads what must be more than 0: whoever writes a 0 does not mean the default.
func above0[T cmp.Ordered](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		var zero T
		v, err := parse(s)
		if err == nil && v <= zero {
			err = errors.New("must be above 0")
		}
		return v, err
	}
}

// flag returns an option that has no argument.
func flag(to *bool) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		if d.NextArg() {
			return d.ArgErr()
		}
		*to = true
		return nil
	}
}

// UnmarshalCaddyfile implements [caddyfile.Unmarshaler]. docs/caddy.md of the
// repository has the syntax.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	h.Zones = map[string]*Zone{}
	for d.Next() {
		if d.NextArg() {
			return d.ArgErr()
		}
		if err := (options{
			"zone":              h.unmarshalZone,
			"distributed":       h.unmarshalDistributed,
			"redis":             h.unmarshalRedis,
			"storage":           h.unmarshalStorage,
			"jitter":            value(&h.Jitter, number),
			"log_key":           flag(&h.LogKey),
			"disable_metrics":   flag(&h.DisableMetrics),
			"sweep_interval":    value(&h.SweepInterval, duration),
			"snapshot_interval": value(&h.SnapshotInterval, interval),
		}).read(d, "zone"); err != nil {
			return err
		}
	}
	return nil
}

func (h *Handler) unmarshalZone(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	name := d.Val()
	if h.Zones[name] != nil {
		return d.Errf("zone %s twice, must be once", name)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	z := new(Zone)
	h.Zones[name] = z
	return (options{
		"match":       z.unmarshalMatch,
		"limit":       z.unmarshalLimit,
		"key":         value(&z.Key, text),
		"window":      value(&z.Window, above0(duration)),
		"events":      value(&z.MaxEvents, above0(strconv.Atoi)),
		"ipv4_prefix": value(&z.IPv4Prefix, strconv.Atoi),
		"ipv6_prefix": value(&z.IPv6Prefix, strconv.Atoi),
		"algorithm":   value(&z.Algorithm, text),
		"burst":       value(&z.Burst, above0(strconv.Atoi)),
		"keys":        value(&z.Keys, above0(count)),
		"headroom":    value(&z.Headroom, above0(number)),
		"memory":      value(&z.Memory, above0(size)),
		"overload":    value(&z.Overload, text),
	}).read(d, "match", "limit")
}

// count reads a number of keys, such as 5e6.
func count(s string) (int, error) {
	f, err := number(s)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return 0, fmt.Errorf("must be a whole number of up to %d", math.MaxInt32)
	}
	return int(f), nil
}

func (z *Zone) unmarshalMatch(d *caddyfile.Dispenser) error {
	set, err := caddyhttp.ParseCaddyfileNestedMatcherSet(d)
	z.MatcherSetsRaw = append(z.MatcherSetsRaw, set)
	return err
}

func (z *Zone) unmarshalLimit(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.Errf("limit of %d values, must be events and a window, such as 100 1m", len(args))
	}
	events, err := strconv.Atoi(args[0])
	if err != nil {
		return d.Errf("limit: events %q: %v", args[0], err)
	}
	window, err := caddy.ParseDuration(args[1])
	if err != nil {
		return d.Errf("limit: window %q: %v", args[1], err)
	}
	z.Limits = append(z.Limits, Limit{events, caddy.Duration(window)})
	return nil
}

func (h *Handler) unmarshalDistributed(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	h.Distributed = new(Distributed)
	return (options{
		"write_interval": value(&h.Distributed.WriteInterval, duration),
		"read_interval":  value(&h.Distributed.ReadInterval, duration),
		"purge_age":      value(&h.Distributed.PurgeAge, duration),
	}).read(d)
}

func (h *Handler) unmarshalRedis(d *caddyfile.Dispenser) error {
	h.Redis = new(Redis)
	if err := value(&h.Redis.Address, text)(d); err != nil {
		return err
	}
	return (options{
		"seed":     value(&h.Redis.Seed, seed),
		"interval": value(&h.Redis.Interval, above0(duration)),
	}).read(d)
}

func (h *Handler) unmarshalStorage(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	id := "caddy.storage." + d.Val()
	module, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return err
	}
	storage, ok := module.(caddy.StorageConverter)
	if !ok {
		return d.Errf("module %s is no storage", id)
	}
	h.StorageRaw = caddyconfig.JSONModuleObject(storage, "module", module.(caddy.Module).CaddyModule().ID.Name(), nil)
	return nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
