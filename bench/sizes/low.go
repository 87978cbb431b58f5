package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// lowUse is how much of a low limit keys use: an equal share each, or one unit by 85 % of
// them and the whole limit by 15 %, as log-ins are.
type lowUse struct {
	name   string
	share  float64
	logins bool
	load   int // multiple of the stated keys
}

var lowUses = []lowUse{
	{"a fifth, or one unit", 0.2, false, 2}, {"log-ins, as stated", 0, true, 1}, {"half", 0.5, false, 2}, {"all", 1, false, 2},
}

const (
	lowKeys    = 30_000
	lowWindows = 5
	lowLate    = 2 // windows before requests count
	lowAbusers = 0.01
)

// writeLow prints the fewest bytes a stated key that hold a rate at low limits, which
// sizing/low.go has with a seventh more: ten minutes at 1e-4, hours at 1e-6.
func writeLow(w io.Writer, rate float64) error {
	for _, algorithm := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow} {
		for _, limit := range []int{2, 3, 5, 8, 16} {
			fmt.Fprintf(w, "%v, limit %d, rate %g:", algorithm, limit, rate)
			for _, use := range lowUses {
				bytes, err := leastLow(algorithm, limit, use, rate)
				if err != nil {
					return err
				}
				fmt.Fprintf(w, " %s %.2f;", use.name, bytes)
			}
			fmt.Fprintln(w)
		}
	}
	return nil
}

// leastLow returns the fewest bytes a stated key that hold the rate, to a twentieth.
func leastLow(algorithm sketchlimit.Algorithm, limit int, use lowUse, rate float64) (float64, error) {
	few, enough := 0.5, 120.
	for enough/few > 1.05 {
		middle := (few + enough) / 2
		light, denied := 0, 0
		for seed := uint64(1); float64(light)*rate < 10 && float64(denied) <= 20; seed++ {
			l, d, err := playLow(algorithm, limit, use, int(middle*lowKeys), seed)
			if err != nil {
				return 0, err
			}
			light, denied = light+l, denied+d
		}
		if float64(denied) <= rate*float64(light) {
			enough = middle
		} else {
			few = middle
		}
	}
	if enough == 120 {
		return 0, errors.New("120 bytes a key do not hold the rate")
	}
	return enough, nil
}

// playLow sends windows of requests, each from other keys but for the abusers, who ask
// for three times the limit, and returns how many of light keys there were, and how
// many of these the limiter denied though the exact algorithm admits them.
func playLow(algorithm sketchlimit.Algorithm, limit int, use lowUse, memory int, seed uint64) (light, denied int, err error) {
	l, err := lowLimiter(algorithm, limit, memory, seed)
	if err != nil {
		return 0, 0, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	keys := use.load * lowKeys
	abusers := int(lowAbusers * float64(keys))
	type counts struct{ current, previous, window int }
	known := make([]counts, lowWindows*keys)
	var requests []int
	for window := range lowWindows {
		requests = requests[:0]
		for i := range keys {
			key, units := window*keys+i, 0
			switch mean := max(1, use.share*float64(limit)); {
			case i < abusers:
				key, units = i, 3*limit
			case use.logins && random.Float64() < 0.15:
				units = limit
			default:
				units = int(mean + random.Float64())
			}
			for range units {
				requests = append(requests, key)
			}
		}
		random.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		for i, key := range requests {
			part := float64(i) / float64(len(requests))
			c := &known[key]
			if c.window < window {
				c.previous = 0
				if c.window == window-1 && algorithm == sketchlimit.SlidingWindow {
					c.previous = c.current
				}
				c.current, c.window = 0, window
			}
			admitted := l.Do(sketchlimit.Request{
				Bytes: binary.LittleEndian.AppendUint64(nil, keyhash.Mix(uint64(key), seed)),
				Time:  time.Unix(1_700_000_040, 0).Add(time.Duration((float64(window) + part) * float64(time.Minute))),
			}).Allowed
			used := float64(c.current) + float64(c.previous)*(1-part)
			if used+1 > float64(limit) {
				continue
			}
			c.current++
			if 2*used < float64(limit) && window >= lowLate {
				light++
				if !admitted {
					denied++
				}
			}
		}
	}
	return light, denied, nil
}

// lowLimiter makes a limiter of so many bytes that has the shape which Keys gives it.
func lowLimiter(algorithm sketchlimit.Algorithm, limit, memory int, seed uint64) (*sketchlimit.Limiter, error) {
	generations := 2
	if algorithm == sketchlimit.FixedWindow {
		generations = 1
	}
	need := sizing.Need{Rule: spec.NewWindow(limit, time.Minute, generations), Lowest: limit, Keys: lowKeys, Headroom: 2, MemoryBytes: memory}
	d, err := need.Spend(memory, need.Shape(memory))
	if err != nil {
		return nil, err
	}
	return sketchlimit.New(sketchlimit.Config{
		Limit: limit, Window: time.Minute, Algorithm: algorithm, Seed: seed, AuditBytes: -1,
		Clock: func() time.Time { return time.Unix(0, 0) },
		Plan: &sketchlimit.Plan{
			Shards: d.Shards, BloomBytes: d.BloomBytes, BloomProbes: d.BloomProbes, Depth: d.Depth, Width: d.Width, CellBits: d.CellBits,
		},
	})
}
