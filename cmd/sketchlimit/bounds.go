package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/sketchlimit/sketchlimit/accuracy"
)

// What a command may be asked for, so that none takes more than a minute of two cores
// or a gigabyte. A trace is replayed whatever its length.
const (
	minMemory   = 4 << 10   // the arrangements of the ablation need as much
	maxMemory   = 1 << 30   // of a plan
	maxCounts   = 512 << 20 // of whatif
	maxReplayed = 64 << 20  // of a limiter that is replayed: the sweep takes eleven sizes of it at once
	maxRequests = 2_000_000
	maxKeys     = 1_000_000 // which exact algorithms hold, each several times over
	maxParts    = 60        // of a window, each of which is a sketch and a count of every key
)

// limitHeap has garbage collected in time, unless GOMEMLIMIT says when: half of a
// replay's memory may be garbage.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(700 << 20)
	}
}

// atMost is the error for a part of --workload that would take too long or too much.
func atMost(field string, n, most int) error {
	if n <= most {
		return nil
	}
	return fmt.Errorf("--workload: %s %s, must be at most %s", field, integer(n), integer(most))
}

// counted finds what accuracy allows of the parts of --workload that are bounded here.
var counted = regexp.MustCompile(`\b(keys|crowd|abusers|requests) (".*"), must be a whole number 1 … .*`)

// badWorkload is accuracy's error for --workload, with the bounds of this program:
// accuracy's are higher.
func badWorkload(err error) error {
	text := strings.TrimPrefix(err.Error(), "accuracy: workload ")
	if m := counted.FindStringSubmatch(text); m != nil {
		most := maxKeys
		if m[1] == "requests" {
			most = maxRequests
		}
		allowed := fmt.Sprintf("%s %s, must be a whole number 1 … %s", m[1], m[2], integer(most))
		text = strings.Replace(text, m[0], allowed, 1)
	}
	return errors.New("--workload " + text)
}

func boundWorkload(w accuracy.Workload) error {
	keys, fields := w.Keys, "keys"
	switch w.Kind {
	case accuracy.Flash:
		keys, fields = keys+w.Crowd, "keys and crowd"
	case accuracy.Attack:
		keys, fields = keys+w.Abusers, "keys and abusers"
	case accuracy.Scan:
		keys, fields = keys+int(w.OneHit*float64(w.Requests)), "keys and one-hit keys"
	}
	return cmp.Or(atMost("requests", w.Requests, maxRequests), atMost(fields, keys, maxKeys))
}

func boundCosts(c accuracy.Costs) error {
	return cmp.Or(atMost("requests", c.Requests, maxRequests), atMost("keys", c.Keys, maxKeys))
}

// boundReplay is the error for a limiter that is too large to be replayed.
func boundReplay(memory int, why string) error {
	if memory <= maxReplayed {
		return nil
	}
	return fmt.Errorf("%s: takes %s, must be at most %s to be replayed", why, bytesText(memory), bytesText(maxReplayed))
}
