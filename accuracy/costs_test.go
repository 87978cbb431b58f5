package accuracy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCostsErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"normal":                `accuracy: workload "normal": unknown, must be one of lognormal, pareto`,
		"":                      `accuracy: workload "": unknown, must be one of lognormal, pareto`,
		"pareto:0":              `accuracy: workload pareto: shape "0", must be 0.01 … 10`,
		"lognormal,cap=0":       `accuracy: workload lognormal: cap "0", must be a whole number 1 … 1000000000`,
		"lognormal,most=1.5":    `accuracy: workload lognormal: most "1.5", must be a whole number 1 … 1000000000`,
		"lognormal,cap=5,cap=6": `accuracy: workload lognormal: cap given twice`,
		"lognormal,cap":         `accuracy: workload lognormal: "cap", must be field=value`,
		"lognormal,crowd=7": `accuracy: workload lognormal: "crowd" unknown, ` +
			`must be one of shape, median, cap, most, pace, keys, exponent, seed, requests, windows, window, burst, prompt`,
		"lognormal,exponent=0,keys=200": `accuracy: workload lognormal: exponent "0", must be above 0 … 10`,
	} {
		_, err := ParseCosts(spec, Costs{})
		require.EqualError(t, err, want, spec)
	}
	_, err := ParseCosts("lognormal,burst=7", Costs{Trace: &Trace{}})
	require.EqualError(t, err, `accuracy: workload lognormal: "burst" unknown, `+
		`must be one of shape, median, cap, most, pace, keys, exponent, seed`)
	_, err = Costs{Kind: Pareto, Pace: -1}.Source()
	require.EqualError(t, err, "accuracy: workload pareto: pace -1, must be a whole number 1 … 1000000000")
}

func TestCostsSpecification(t *testing.T) {
	for _, spec := range CostKinds() {
		w, err := ParseCosts(spec, Costs{Seed: 9, Window: time.Hour})
		require.NoError(t, err)
		require.EqualValues(t, 9, w.Seed)
		require.Equal(t, time.Hour, w.Window)
		again, err := ParseCosts(w.String(), Costs{})
		require.NoError(t, err)
		require.Equal(t, w, again)
	}
}

// TestCosts: half of the answers are below the median, the prompts even, the users and
// the bursts as they say.
func TestCosts(t *testing.T) {
	for _, kind := range []string{"lognormal:1", "pareto:1.2"} {
		spec := kind + ",requests=40000,cap=1000,most=3000,prompt=500,burst=4,keys=100,windows=2"
		all := listedCosts(t, spec, 5)
		require.Equal(t, all, listedCosts(t, spec, 5))
		var answers, prompts []int
		users := map[string]int{}
		together := 1
		for i, r := range all {
			prompt := r.Estimate - 1000
			prompts = append(prompts, prompt)
			answers = append(answers, r.Cost-prompt)
			require.Equal(t, time.Duration(r.Cost-prompt)*time.Second/50, r.Duration)
			users[r.Key]++
			if i > 0 && r.Time.Equal(all[i-1].Time) {
				require.Equal(t, all[i-1].Key, r.Key)
				together++
			}
		}
		slices.Sort(answers)
		slices.Sort(prompts)
		require.InDelta(t, 300, answers[len(answers)/2], 12)
		require.Equal(t, 3000, answers[len(answers)-1])
		require.InDelta(t, 250, prompts[len(prompts)/2], 12)
		require.Equal(t, []int{1, 500}, []int{prompts[0], prompts[len(prompts)-1]})
		require.Len(t, users, 100)
		require.InDelta(t, 2, float64(users["u00000000"])/float64(users["u00000001"]), 0.3)
		require.InDelta(t, 0.6, float64(together)/float64(len(all)), 0.02) // of 2.5 of a burst, 1.5 are not its first
		require.InDelta(t, float64(2*time.Minute), float64(all[len(all)-1].Time.Sub(all[0].Time)), float64(time.Second))
	}
}

// TestCostsOfTrace: lines of one time are a prompt, and several ones where the trace's
// first key comes again.
func TestCostsOfTrace(t *testing.T) {
	read := func(text string) *Trace {
		trace, err := ReadTrace(strings.NewReader(text), "blocks")
		require.NoError(t, err)
		return trace
	}
	const text = "1\t0\n1\t5\n1\t6\n1\t0\n1\t7\n2.5\t0\n2.5\t5\n2.5\t6\n2.5\t8\t3\n3\t0\n4\t9\n"
	src, err := Costs{Kind: LogNormal, Keys: 1000, Cap: 100, Trace: read(text)}.Source()
	require.NoError(t, err)
	require.Equal(t, "blocks, answers "+
		"lognormal:1,median=300,cap=100,most=100,pace=50,keys=1000,exponent=1,seed=0", src.Name())
	var prompts []int
	var times []time.Duration
	var users []string
	for r := range src.Spendings() {
		prompts = append(prompts, (r.Estimate-100)/BlockUnits)
		times = append(times, r.Time.Sub(time.Unix(0, 0))/time.Millisecond)
		users = append(users, r.Key)
		require.LessOrEqual(t, r.Cost, r.Estimate)
		require.Greater(t, r.Cost, r.Estimate-100)
	}
	require.Equal(t, src.Len(), len(prompts))
	require.Equal(t, []int{3, 2, 6, 1, 1}, prompts)
	require.Equal(t, []time.Duration{1000, 1000, 2500, 3000, 4000}, times)
	require.Equal(t, users[0], users[2], "the same second block")
	require.NotEqual(t, users[0], users[1])

	for range src.Spendings() { // a walk may end early
		break
	}
	_, err = Costs{Kind: LogNormal, Trace: read("1\ta\n2\tb\n3\ta\n")}.Source()
	require.EqualError(t, err, "accuracy: trace blocks: no time has two lines, but the blocks of a prompt have the "+
		"same time")
}
