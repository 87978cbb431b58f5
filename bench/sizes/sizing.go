package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// The sizing table of docs/sizing.md.
var (
	sizingLimits = []int{1, 5, 10, 100, 1000, 10_000}
	sizingKeys   = []int{10_000, 100_000, 1_000_000, 10_000_000, 100_000_000}
	sizingRates  = []float64{1e-4, 1e-6}
)

const begin, end = "<!-- sizing -->\n", "<!-- end of sizing -->"

func writeSizing(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s: no markers %q and %q", file, strings.TrimSpace(begin), end)
	}
	table, err := sizingTable()
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+begin+table+end+after), 0o644)
}

// sizingTable is what New takes for a sliding window, at the two rates, and what that
// is for each of a million keys.
func sizingTable() (string, error) {
	var b strings.Builder
	b.WriteString("| limit | 10 k keys | 100 k | 1 M | 10 M | 100 M | bytes a key |\n|---|---|---|---|---|---|---|\n")
	for _, limit := range sizingLimits {
		cells := []string{fmt.Sprint(limit)}
		var perKey [2]string
		for _, keys := range sizingKeys {
			var sizes [2]string
			for i, rate := range sizingRates {
				_, n, err := sketchlimit.Config{Limit: limit, Window: time.Minute, Keys: keys, FalseDenialRate: rate}.Size()
				if err != nil {
					return "", err
				}
				sizes[i] = inUnits(n)
				if keys == 1_000_000 {
					perKey[i] = fmt.Sprintf("%.2g", float64(n)/float64(keys))
				}
			}
			cells = append(cells, pair(sizes))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(append(cells, pair(perKey)), " | "))
	}
	return b.String(), nil
}

// pair is both values, or one if they are alike.
func pair(of [2]string) string {
	if of[0] == of[1] {
		return of[0]
	}
	return of[0] + " / " + of[1]
}

// inUnits is a size in two or three digits.
func inUnits(bytes int) string {
	size := float64(bytes) / 1024
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if size < 1000 {
			digits := 0
			if size < 10 {
				digits = 1
			}
			return fmt.Sprintf("%.*f %s", digits, size, unit)
		}
		size /= 1024
	}
	return fmt.Sprintf("%.1f TiB", size)
}
