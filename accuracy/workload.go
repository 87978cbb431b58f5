package accuracy

import (
	"time"
)

// Kind names the shape of a [Workload].
type Kind string

const (
	Uniform Kind = "uniform" // every key equally often
	Zipf    Kind = "zipf"    // the r-th most frequent key in proportion to r^−exponent
	Flash   Kind = "flash"   // Zipf, and for a while a crowd of many other keys
	Attack  Kind = "attack"  // a few abusers far above the limit over many light keys
	Scan    Kind = "scan"    // endless keys that come once each, over Zipf
)

// Workload describes made-up traffic. The zero value of a field means its
// default. Equal workloads make equal requests, on every machine.
type Workload struct {
	Kind     Kind          `json:"kind"`
	Keys     int           `json:"keys"`      // distinct keys, crowd, abusers and one-hit keys not included: 1 … 1e8; 0 = 1e5
	Requests int           `json:"requests"`  // in all: 1 … 1e12; 0 = 1e6 (Attack: 3 a light key a window, and what the abusers send)
	Windows  int           `json:"windows"`   // they are spread evenly over this many windows: 1 … 1e6; 0 = 4
	Window   time.Duration `json:"window_ns"` // length of one window, at least 1ms; 0 = 1 minute
	Cost     int           `json:"cost"`      // costs are drawn evenly from 1 … Cost: 1 … 1e6; 0 = 1
	Exponent float64       `json:"exponent"`  // Zipf, Flash, Scan: 0 … 10; NaN and unset in ParseWorkload = 1
	Seed     uint64        `json:"seed"`

	// Flash: Factor × the usual rate comes on top, from Crowd keys, from the start
	// of window Start (counted from 0, fractions allowed) for Length windows.
	// Attack: each abuser sends Factor × Limit units a window.
	Factor   float64 `json:"factor,omitempty"`    // 0 = 3; up to 1e6
	Crowd    int     `json:"crowd,omitempty"`     // 0 = Keys
	Start    float64 `json:"start,omitempty"`     // 0 … Windows; ParseWorkload: unset = the middle
	Length   float64 `json:"length,omitempty"`    // 0 = 1
	Abusers  int     `json:"abusers,omitempty"`   // 0 = Keys/100, at least 1
	Limit    int     `json:"limit,omitempty"`     // units per key per window; 0 = 100
	OneShare float64 `json:"one_share,omitempty"` // Scan: share of the requests that come from one-hit keys, 0 … 1; 0 = 0.9
}

// Workloads lists one example specification for every kind, for help texts.
func Workloads() []string { return nil }

// ParseWorkload reads a specification as given on a command line:
//
//	name[:main][,field=value…]      zipf:1.0,keys=1e6,requests=1e7
//
// The main parameter is the exponent of zipf, the factor of flash and attack,
// and the share of one-hit requests of scan; uniform has none. Fields are those of
// [Workload] in lower case (keys, requests, windows, window, cost, exponent, seed,
// factor, crowd, start, length, abusers, limit, share). Numbers may be written as
// 1e6, windows as durations (10m). What the specification does not name is taken
// from base, and then from the defaults. The error names the field, the value and
// what is allowed.
func ParseWorkload(spec string, base Workload) (Workload, error) { panic("todo") }

// Source checks w, fills in the defaults and prepares its requests, which takes
// about 20 bytes of memory a key (one-hit keys none).
func (w Workload) Source() (Source, error) { panic("todo") }
