package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sketchlimit/sketchlimit/topkeys"
)

func ofKey(name, help string, value func(topkeys.Count) float64) Of[topkeys.Count] {
	return Of[topkeys.Count]{Metric{"top_keys." + name, help, "{refusal}", Gauge, []string{"limiter", "key"}}, value}
}

var keyTable = []Of[topkeys.Count]{
	ofKey("refusals", "Refusals of one of the keys refused the most in the current window, at most.",
		func(c topkeys.Count) float64 { return float64(c.Count) }),
	ofKey("uncertain_refusals", "By how much that may be too high.",
		func(c topkeys.Count) float64 { return float64(c.Error) }),
}

var allKeys = Metric{"top_keys.all_refusals", "Refusals of all keys in the current window.", "{refusal}", Gauge, nil}

// TopKeys returns the Source of the n keys, 1 … 100, that are refused the most in the
// current window of a Top. The label limiter is their policy, and the label key the
// result of text, for instance httplimit.Clients.KeyText; keys of equal text become
// one. These are the only metrics with labels that clients can choose: there are at
// most n at once, but a store keeps all that have been.
func TopKeys(top *topkeys.Top, n int, text func(key []byte) string) (*Source, error) {
	switch {
	case top == nil:
		return nil, errors.New("metrics: top nil, must be one")
	case n < 1 || n > 100:
		return nil, fmt.Errorf("metrics: n %d, must be 1 to 100", n)
	case text == nil:
		return nil, errors.New("metrics: text nil, must be a function")
	}
	metrics := append(All(keyTable), &allKeys)
	return NewSource(metrics, func(context.Context) ([]Sample, error) {
		report := top.Report()
		list := []Sample{{&allKeys, nil, float64(report.Total)}}
		type labels struct{ policy, key string }
		counts := map[labels]topkeys.Count{}
		var order []labels
		for _, c := range report.Counts[:min(n, len(report.Counts))] {
			l := labels{valid(c.Policy), valid(text(c.Key))}
			sum := counts[l]
			if !slices.Contains(order, l) {
				order = append(order, l)
			}
			sum.Count += c.Count
			sum.Error += c.Error
			counts[l] = sum
		}
		for _, l := range order {
			list = Append(list, keyTable, counts[l], l.policy, l.key)
		}
		return list, nil
	}), nil
}

// valid returns s with invalid UTF-8 replaced as exporters do, so that no two keys
// become one there.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
