package tune

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// Goal is what a limiter shall do for its traffic. At least one of FalseDenialRate,
// LostShare and MemoryBytes must be set.
type Goal struct {
	Limit       int                   // as in sketchlimit.Config
	LowestLimit int                   // as in sketchlimit.Config
	Algorithm   sketchlimit.Algorithm // as in sketchlimit.Config
	SubWindows  int                   // as in sketchlimit.Config
	Burst       int                   // as in sketchlimit.Config

	// FalseDenialRate is the greatest share, 1e-12 … 0.5, of the requests of light keys
	// that may be denied wrongly. Light keys have used less than half of their limit.
	// With LowestLimit every key is judged at that limit; in a TokenBucket abusers have
	// it as well.
	FalseDenialRate float64
	// LostShare is the greatest share, 1e-12 … 0.5, of the units that the exact
	// algorithm admits and the limiter does not. If only one of the two rates is set,
	// the other one may be the greater of that and 1e-3, or as LostShare 3e-2 unless
	// the traffic is Even and Steady.
	LostShare float64
	// MemoryBytes is the most memory to take, everything included. Without the two
	// others all of it is used.
	MemoryBytes int
	// Headroom is the multiple of the traffic up to which the goal shall hold, 1 …
	// 1000; 0 is 1, and 1.5 for a Trace, because tomorrow differs from it.
	Headroom float64
}

const minRate = 1e-12 // of FalseDenialRate and LostShare

func (g *Goal) check() error {
	c := g.config()
	switch {
	case g.FalseDenialRate == 0 && g.LostShare == 0 && g.MemoryBytes == 0:
		return fmt.Errorf("tune: Goal.FalseDenialRate 0, must be %g … 0.5, unless LostShare or MemoryBytes is set", minRate)
	case g.FalseDenialRate != 0 && !(g.FalseDenialRate >= minRate && g.FalseDenialRate <= 0.5):
		return fmt.Errorf("tune: Goal.FalseDenialRate %v, must be %g … 0.5", g.FalseDenialRate, minRate)
	case g.LostShare != 0 && !(g.LostShare >= minRate && g.LostShare <= 0.5):
		return fmt.Errorf("tune: Goal.LostShare %v, must be %g … 0.5", g.LostShare, minRate)
	case g.Headroom != 0 && !(g.Headroom >= 1 && g.Headroom <= 1000):
		return fmt.Errorf("tune: Goal.Headroom %v, must be 1 … 1000", g.Headroom)
	case g.MemoryBytes < 0 || g.MemoryBytes > spec.MaxMemory:
		return fmt.Errorf("tune: Goal.MemoryBytes %d, must be 0 … %d", g.MemoryBytes, spec.MaxMemory)
	}
	c.Keys = 1 // any size will do to check the rest
	_, _, err := c.Size()
	if err == nil && g.MemoryBytes > 0 {
		if least := g.need().Smallest(); g.MemoryBytes < least {
			err = fmt.Errorf("MemoryBytes %d, must be at least %d", g.MemoryBytes, least)
		}
	}
	if err != nil {
		return fmt.Errorf("tune: Goal.%s", strings.TrimPrefix(err.Error(), "sketchlimit: "))
	}
	return nil
}

// unasked is what a plan may do of what nobody has set a goal for. Heavy keys that are
// new or come in bursts lose what others have left in their cells: to withhold less of
// theirs takes up to three times the memory.
const (
	unasked      = 1e-3
	unaskedOfNew = 3e-2
)

// rates returns the two rates: what is set, or what one may be where only the other is.
func (g *Goal) rates(calm bool) (denied, lost float64) {
	denied, lost = g.FalseDenialRate, g.LostShare
	if denied == 0 {
		denied = max(unasked, lost)
	}
	if lost == 0 {
		lost = max(unaskedOfNew, denied)
		if calm {
			lost = max(unasked, denied)
		}
	}
	return denied, lost
}

// config returns a limiter for the goal, without a size. Its generations are a second
// long; a bucket's units take whole nanoseconds of a minute.
func (g *Goal) config() sketchlimit.Config {
	window := time.Duration(max(g.SubWindows, 1)) * time.Second
	if g.Algorithm == sketchlimit.TokenBucket {
		window = time.Minute
	}
	return sketchlimit.Config{
		Limit: g.Limit, LowestLimit: g.LowestLimit, Window: window,
		Algorithm: g.Algorithm, SubWindows: g.SubWindows, Burst: g.Burst,
	}
}

// rule returns the arithmetic of a checked goal, see config.
func (g *Goal) rule() spec.Rule { return g.ruleOf(g.config().Window) }

// ruleOf is rule for a window.
func (g *Goal) ruleOf(window time.Duration) spec.Rule {
	switch g.Algorithm {
	case sketchlimit.TokenBucket:
		return spec.NewBucket(g.Limit, cmp.Or(g.Burst, g.Limit), window)
	case sketchlimit.FixedWindow:
		return spec.NewWindow(g.Limit, window, 1)
	}
	parts := max(g.SubWindows, 1)
	return spec.NewWindow(g.Limit, window/time.Duration(parts), parts+1)
}

// need returns what memory is to be spent for, but for the number of keys. Rates are
// the search's own business.
func (g *Goal) need() *sizing.Need {
	return &sizing.Need{Rule: g.rule(), Lowest: cmp.Or(g.LowestLimit, g.Limit), Rate: unasked, MemoryBytes: max(g.MemoryBytes, 1)}
}
