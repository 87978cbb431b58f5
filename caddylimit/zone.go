package caddylimit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/sketchlimit/sketchlimit"
)

// Zone is what limits the requests that its matchers match: each key gets so many
// events in a window.
type Zone struct {
	// The requests that count; all, if there are no matchers.
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// What is limited, with placeholders: "{http.request.remote.host}" gives each
	// address a limit of its own, and a text without placeholders one limit to all.
	// Requests whose placeholders are empty share the key "".
	Key string `json:"key,omitempty"`

	// At most so many requests of a key in the window.
	MaxEvents int            `json:"max_events,omitempty"`
	Window    caddy.Duration `json:"window,omitempty"`

	// More limits of the same key. A request must be within all of them, or it counts
	// in none.
	Limits []Limit `json:"limits,omitempty"`

	// If the key is an IP address, it counts as its network of so many bits. 0 leaves
	// addresses as they are.
	IPv4Prefix int `json:"ipv4_prefix,omitempty"`
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`

	// "sliding" (the default), "fixed" or "bucket".
	Algorithm string `json:"algorithm,omitempty"`
	// The events that a bucket holds; max_events if not set.
	Burst int `json:"burst,omitempty"`

	// The distinct keys in a window, for which memory is taken; of the longest window,
	// if there are several. 100,000 if neither this nor memory is set, and 1 if the key
	// has no placeholder. The log tells if there are more.
	Keys int `json:"keys,omitempty"`
	// The multiple of these keys up to which ordinary clients are not denied; 2 if not
	// set.
	Headroom float64 `json:"headroom,omitempty"`
	// The bytes that the zone takes, instead.
	Memory int `json:"memory,omitempty"`
	// What happens when more comes than the memory is for: "deny" (the default) or
	// "deny_proven".
	Overload string `json:"overload,omitempty"`

	name     string
	matchers caddyhttp.MatcherSets
	redis    *Redis
	kept     kept
	configs  []sketchlimit.Config
	settings settings
	before   *state // that the name has in the config before, until the zone has begun
	state    *state
	identity string // under which the state is in the pool; empty: it is not
	first    int    // of its limiters in the group of the handler
	counters counters
}

// Limit is at most so many events in a window.
type Limit struct {
	MaxEvents int            `json:"max_events"`
	Window    caddy.Duration `json:"window"`
}

const (
	usualKeys = 100_000
	// syncedKeys is how many times the keys a limiter is made for that exchanges its
	// counts, see docs/redis-synced.md.
	syncedKeys = 3
)

var algorithms = []string{
	sketchlimit.SlidingWindow: "sliding",
	sketchlimit.FixedWindow:   "fixed",
	sketchlimit.TokenBucket:   "bucket",
}

var overloads = []string{sketchlimit.Deny: "deny", sketchlimit.DenyProven: "deny_proven"}

// limits returns all limits of the zone.
func (z *Zone) limits() ([]Limit, error) {
	all := z.Limits
	if z.MaxEvents != 0 || z.Window != 0 {
		all = append([]Limit{{z.MaxEvents, z.Window}}, all...)
	}
	if len(all) == 0 {
		return nil, errors.New("no limit, must have window and events, or limit")
	}
	for i, l := range all {
		switch {
		case l.MaxEvents < 1 || l.MaxEvents > math.MaxInt32:
			return nil, fmt.Errorf("events %d, must be 1 … %d", l.MaxEvents, math.MaxInt32)
		case l.Window < caddy.Duration(time.Millisecond):
			return nil, fmt.Errorf("window %v, must be 1ms or more", time.Duration(l.Window))
		case slices.ContainsFunc(all[:i], func(o Limit) bool { return o.Window == l.Window }):
			return nil, fmt.Errorf("window %v twice, must be different ones", time.Duration(l.Window))
		}
	}
	return all, nil
}

// configsOf returns those of the limiters, one for each limit. Shared ones exchange
// their counts.
func (z *Zone) configsOf(shared bool) ([]sketchlimit.Config, error) {
	limits, err := z.limits()
	if err != nil {
		return nil, err
	}
	algorithm, err := choice("algorithm", z.Algorithm, algorithms)
	if err != nil {
		return nil, err
	}
	overload, err := choice("overload", z.Overload, overloads)
	if err != nil {
		return nil, err
	}
	switch {
	case z.IPv4Prefix < 0 || z.IPv4Prefix > 32:
		return nil, fmt.Errorf("ipv4_prefix %d, must be 0 … 32", z.IPv4Prefix)
	case z.IPv6Prefix < 0 || z.IPv6Prefix > 128:
		return nil, fmt.Errorf("ipv6_prefix %d, must be 0 … 128", z.IPv6Prefix)
	case z.Keys < 0 || z.Keys > math.MaxInt32/syncedKeys:
		return nil, fmt.Errorf("keys %d, must be 1 … %d", z.Keys, math.MaxInt32/syncedKeys)
	case z.Memory < 0:
		return nil, fmt.Errorf("memory %d, must be above 0", z.Memory)
	case z.Burst < 0:
		return nil, fmt.Errorf("burst %d, must be above 0", z.Burst)
	case z.Headroom != 0 && z.Memory != 0:
		return nil, errors.New("headroom and memory, must be one of them: headroom says how much memory keys take")
	case z.Burst != 0 && algorithm != int(sketchlimit.TokenBucket):
		return nil, fmt.Errorf("burst %d, must be with algorithm bucket", z.Burst)
	case shared && algorithm == int(sketchlimit.TokenBucket):
		return nil, errors.New("algorithm bucket, must be sliding or fixed to be shared through redis")
	case shared && overload == int(sketchlimit.DenyProven):
		return nil, errors.New("overload deny_proven, must be deny to be shared through redis")
	}
	keys := z.keys()
	if shared {
		keys *= syncedKeys
	}
	var all []sketchlimit.Config
	for _, l := range limits {
		c := sketchlimit.Config{
			Limit: l.MaxEvents, Window: time.Duration(l.Window),
			Algorithm: sketchlimit.Algorithm(algorithm), Burst: z.Burst,
			Keys: keys, Headroom: z.Headroom, MemoryBytes: z.Memory / len(limits),
			Overload: sketchlimit.Overload(overload), Clock: clock,
		}
		if _, _, err := c.Size(); err != nil {
			return nil, z.inWords(l, len(limits), err)
		}
		all = append(all, c)
	}
	return all, nil
}

// keys returns the distinct keys that the zone is made for; 0 if it is made for a memory.
func (z *Zone) keys() int {
	switch {
	case z.Keys != 0 || z.Memory != 0:
		return z.Keys
	case strings.Contains(z.Key, "{"):
		return usualKeys
	}
	return 1
}

// words are those of a Caddyfile for the names in package sketchlimit's errors.
var words = strings.NewReplacer(
	"sketchlimit: ", "", "MemoryBytes", "memory", "Keys", "keys", "Headroom", "headroom", "Overload", "overload",
	"Burst", "burst", "Window", "window", "Limit", "events", "TokenBucket", "bucket",
)

// inWords returns an error about one of the zone's limits in the words of its options.
func (z *Zone) inWords(l Limit, limits int, err error) error {
	share := ""
	if z.Memory != 0 && limits > 1 {
		share = fmt.Sprintf("memory %d, shared by %d limits: ", z.Memory, limits)
	}
	return fmt.Errorf("%sevents %d, window %v: %s", share, l.MaxEvents, time.Duration(l.Window), words.Replace(err.Error()))
}

// choice returns the index of what an option may be; of the first, if it is not set.
func choice(option, value string, of []string) (int, error) {
	if value == "" {
		return 0, nil
	}
	if i := slices.Index(of, value); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%s %q, must be %s", option, value, strings.Join(of, " or "))
}

// prepare reads the zone's settings, and finds the state that it has in the config
// before.
func (z *Zone) prepare(ctx caddy.Context, name string, shared *Redis, kept kept) (err error) {
	z.name, z.redis, z.kept = name, shared, kept
	if len(z.MatcherSetsRaw) > 0 {
		sets, err := ctx.LoadModule(z, "MatcherSetsRaw")
		if err != nil {
			return fmt.Errorf("match: %w", err)
		}
		if err := z.matchers.FromInterface(sets); err != nil {
			return fmt.Errorf("match: %w", err)
		}
	}
	if z.configs, err = z.configsOf(shared != nil); err != nil {
		return err
	}
	z.settings = z.settingsOf()
	z.before = current()[name]
	if z.before != nil && z.before.kept.Load().config == kept.config { // of another handler of this config
		return z.before.sameAs(z)
	}
	return nil
}

// begin takes the state of a zone that is prepared, or makes one. Zones may begin at
// the same time.
func (z *Zone) begin() error {
	value, loaded, err := states.LoadOrNew(z.settings.identity(), func() (caddy.Destructor, error) { return newState(z) })
	if err != nil {
		return err
	}
	z.identity, z.state = z.settings.identity(), value.(*state)
	z.state.kept.Store(&z.kept)
	if !loaded {
		z.state.succeed(z.before)
	}
	z.before = nil
	return nil
}

// cleanup lets go of what the zone has counted, unless another config goes on with it.
func (z *Zone) cleanup() error {
	if z.identity == "" {
		return nil
	}
	_, err := states.Delete(z.identity)
	z.identity = ""
	return err
}
