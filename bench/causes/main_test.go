package main

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/tune"
)

const folder = "../../tune/testdata"

// The factors of the steps multiply to the gap.
func TestTables(t *testing.T) {
	testkit.NeedsLong(t)
	var b strings.Builder
	tables(&b, folder, "", []time.Duration{10 * time.Minute}, []int{20})
	rows := regexp.MustCompile(`(?m)^\| nasa_19950801 .*$`).FindAllString(b.String(), -1)
	require.Len(t, rows, 2*len(rates))
	for i := 0; i < len(rows); i += 2 {
		cells := strings.Split(rows[i], "|")
		number := func(i int) float64 { return must(strconv.ParseFloat(strings.TrimSpace(cells[i]), 64)) }
		product := 1.
		for step := range len(steps) + 1 { // and what is left
			product *= number(11 + step)
		}
		require.InDelta(t, 0, math.Log(product/number(9)), 0.3, rows[i])
		require.Greater(t, number(9), 3., rows[i])
		require.Equal(t, 3+len(alone)+1, strings.Count(rows[i+1], "|"))
	}
}

// Changes of the traffic leave its windows the histogram, and those in which keys have been seen before or not.
func TestChanges(t *testing.T) {
	s := &scenario{requests: read(folder+"/nasa_19950801.tsv.gz", ""), window: 10 * time.Minute, goal: tune.Goal{Limit: 20}}
	want := s.windows()
	for name, c := range map[string]struct {
		apply func(*scenario)
		twice bool
	}{
		"shuffled": {(*scenario).shuffled, false}, "even": {(*scenario).even, false}, "newKeys": {(*scenario).newKeys, false},
		"twins": {(*scenario).twins, true}, "strangers": {(*scenario).strangers, true},
	} {
		changed := *s
		c.apply(&changed)
		have := changed.windows()
		for i, w := range want {
			if c.twice {
				require.Equal(t, histogram(w), histogram(have[2*i]), name)
				require.False(t, changed.counts(changed.number(have[2*i][0])), name)
				have[i] = have[2*i+1]
				require.True(t, changed.counts(changed.number(have[i][0])), name)
			}
			require.Equal(t, histogram(w), histogram(have[i]), name)
		}
	}
	fullest := *s
	fullest.fullestOnly()
	require.Len(t, fullest.windows(), 2)
	require.Len(t, histogram(fullest.requests), 116)
}
