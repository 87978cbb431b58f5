package main

import (
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/accuracy"
	"github.com/sketchlimit/sketchlimit/internal/pageview"
	"github.com/sketchlimit/sketchlimit/tune"
)

// TestPagesInABrowser: every kind of page can be read on a telephone, in the dark and
// on paper, and warns where needed.
func TestPagesInABrowser(t *testing.T) {
	predicting(t)
	folder, paths := t.TempDir(), []string{}
	for _, p := range []struct {
		name, warning string
		args          []string
	}{
		{"report", "", small},
		{"crowded", "The limiter is far too small for this traffic: it denied ", []string{
			"report", "--workload", "uniform,keys=30000,requests=150000,windows=2", "--limit", "20", "--memory", "8KiB"}},
		{"bucket", "", append(small, "--algorithm", "bucket", "--burst", "7")},
		{"budget", "", spent},
		{"plan", "", append(few, "--verify")},
	} {
		file := filepath.Join(folder, p.name+".html")
		o := command(nil, append(p.args, "--html", file)...)
		require.Equal(t, 0, o.status, o.err)
		page, err := os.ReadFile(file)
		require.NoError(t, err)
		if p.warning == "" {
			require.Regexp(t, "^(A limiter of|Who holds) ", o.out)
			require.NotContains(t, string(page), "Warning.")
		} else {
			require.Equal(t, p.warning, o.out[:len(p.warning)])
			require.Contains(t, string(page), `<p class="warning"><strong>⚠ Warning.</strong> `+p.warning)
		}
		paths = append(paths, "/"+p.name+".html")
	}
	pageview.Check(t, http.FileServer(http.Dir(folder)), paths...)
}

// TestWarnings: what has to be seen first comes first.
func TestWarnings(t *testing.T) {
	r := report{Replay: &accuracy.Result{}}
	require.Empty(t, r.warning())
	r.Replay.FalseDenialRate = 0.25
	require.Equal(t, "The limiter is far too small for this traffic: it denied 25 % of the requests of light keys. "+
		"It needs more memory.", r.warning())
	r.Replay.OverAdmissions = 1
	require.Equal(t, "The limiter admitted what it had to deny, which must not happen.", r.warning())

	p := plans{tuning: &tuning{}, Verified: &accuracy.Result{}}
	p.goal.FalseDenialRate = 1e-5
	require.Empty(t, p.warning())
	p.Verified.FalseDenialRate = 1e-3
	require.Equal(t, "The replay missed the goal: it denied 0.10 % of the requests of light keys, not 1e-5.",
		p.warning())
	p.Verified.FalseDenialRate = 0.5
	require.Equal(t, "The plan is far too small: the replay denied 50 % of the requests of light keys.", p.warning())
	p.Forecast.At[1].FalseDenialRate = 0.9
	require.Equal(t, "This memory is far too small: 90 % of the requests of light keys would be denied.", p.warning())
}

// TestTuneWarnsOfManyUnitsPerKey: a limiter sized by Keys and UnitsPerKey for such
// traffic misses its goal.
func TestTuneWarnsOfManyUnitsPerKey(t *testing.T) {
	for _, c := range []struct {
		units string
		goal  tune.Goal
		of    tune.Traffic
	}{
		{"", tune.Goal{Limit: 20}, tune.Traffic{Keys: 100, Requests: 1200}},
		{"12.1", tune.Goal{Limit: 20}, tune.Traffic{Keys: 100, Requests: 1210}},
		{"", tune.Goal{Limit: 20, Algorithm: sketchlimit.TokenBucket}, tune.Traffic{Keys: 100, Requests: 1210}},
		{"", tune.Goal{Limit: 16}, tune.Traffic{Keys: 100, Requests: 1590}},
		{"", tune.Goal{Limit: 17}, tune.Traffic{Keys: 100}},
		{"", tune.Goal{Limit: 20}, tune.Traffic{Keys: 100, Requests: 2000, OneHit: 0.5}},
		{"", tune.Goal{Limit: 20}, tune.Traffic{Keys: 100, Requests: 1200 + 10*60 - 120, Abusers: 0.1}},
	} {
		p := plans{tuning: &tuning{traffic: c.of, goal: c.goal}}
		if c.units == "" {
			require.Empty(t, p.warning(), c)
			continue
		}
		require.Equal(t, "Use the plan, and do not set UnitsPerKey to the "+c.units+" units that a key uses: above 0.6 times "+
			"the limit, New by Keys and UnitsPerKey makes a limiter that denies first requests of new keys.", p.warning())
	}
}

// TestCurve: of so many, one is seen, and what is less stands hollow where one would be.
func TestCurve(t *testing.T) {
	denied, _ := twoShares()
	denied.add(1, 1./7, 1./7)
	denied.add(2, 0, 1./7)
	denied.add(3, 0, math.Inf(1)) // of none
	denied.add(4, 1, 1./7)
	require.Equal(t, plotter.XYs{{X: 1, Y: 1. / 7}, {X: 4, Y: 1}}, denied.seen)
	require.Equal(t, plotter.XYs{{X: 2, Y: 1. / 7}}, denied.none)
	require.Len(t, denied.runs, 2)
	lo, hi := bounds(denied.all)
	require.InEpsilon(t, 0.01, lo, 1e-9)
	require.Equal(t, 1., hi, "no share is above 1")
}

// TestRatesSayWhatHollowIs: where not one was seen, the legend says so.
func TestRatesSayWhatHollowIs(t *testing.T) {
	series := []accuracy.Bucket{{Length: time.Minute, LightRequests: 1000, LightFalseDenials: 1, Looks: 1}}
	seen, err := plotRates(series, 0, "")
	require.NoError(t, err)
	require.NotContains(t, seen, "hollow")
	series[0].LightFalseDenials = 0
	none, err := plotRates(series, 0, "")
	require.NoError(t, err)
	require.Contains(t, none, "hollow: not one seen</text>")
}

// TestLegendInAWiderFont: the next mark is beside the text of a fifth more width, too.
func TestLegendInAWiderFont(t *testing.T) {
	long := "false-denial rate of light keys"
	drawn, err := picture("legend", 100, func(c draw.Canvas) {
		drawLegend(c, []entry{{long, nil}, hollow("hollow")})
	})
	require.NoError(t, err)
	var at []float64
	for _, text := range regexp.MustCompile(`<text x="([\d.]+)"`).FindAllStringSubmatch(string(drawn), 2) {
		x, err := strconv.ParseFloat(text[1], 64)
		require.NoError(t, err)
		at = append(at, x)
	}
	const mark = 20
	require.Greater(t, at[1]-mark, at[0]+1.2*float64(textStyle(ink).Width(long)))
}
