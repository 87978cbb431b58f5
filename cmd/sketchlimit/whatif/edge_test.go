package whatif

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const start = int64(1_700_000_000) * int64(time.Second)

// evenly returns so many requests of one unit, over a time, by turns of so many keys.
func evenly(n, keys int, over time.Duration) (log []Request) {
	for i := range n {
		at := start + int64(float64(over)*float64(i)/float64(n))
		log = append(log, Request{At: at, Key: fmt.Appendf(nil, "key %d", i%keys), Cost: 1})
	}
	return log
}

// limitOf returns a limit of a report.
func limitOf(t *testing.T, r *Report, window time.Duration, limit int) Limit {
	for _, w := range r.Windows {
		for _, l := range w.Limits {
			if w.Window == window && l.Limit == limit {
				return l
			}
		}
	}
	t.Fatalf("no limit of %d in %v", limit, window)
	return Limit{}
}

func TestNothing(t *testing.T) {
	r := analysed(t, Options{}, nil)
	require.Zero(t, r.Requests)
	require.Equal(t, time.Time{}, r.First)
	require.Equal(t, "The log has no requests.", r.Suggestion.Reason)
	for _, e := range figures(r) {
		require.Zero(t, e)
	}
	_, err := json.Marshal(r) // no NaN
	require.NoError(t, err)
}

func TestOneKey(t *testing.T) {
	r := analysed(t, Options{}, evenly(1000, 1, 10*time.Second))
	require.Equal(t, Estimate{Value: 1}, r.Keys)
	require.Equal(t, HeavyKey{"key 0", 1000, 0}, r.Heaviest[0])
	l := limitOf(t, r, time.Second, 10)
	require.Equal(t, 1, l.Keys96)
	require.Equal(t, "key 0", l.Top[0].Key)
	require.Equal(t, uint64(l.Requests.Value), l.Top[0].Requests)
	require.False(t, r.Suggestion.Found, "it cannot be told from others")
	require.Contains(t, r.Suggestion.Reason, "No abusers in windows of 1s: 200 a second would have refused nobody. ", "the log has no 10s, nor a minute")
}

func TestAllKeysDifferent(t *testing.T) {
	r := analysed(t, Options{Memory: minMemory}, evenly(300_000, 300_000, time.Hour))
	require.LessOrEqual(t, off(r.Keys, Estimate{Value: 300_000}), r.Keys.Error)
	for _, w := range r.Windows {
		require.Equal(t, Use{Counted: w.Use.Counted, P50: 1, P90: 1, P99: 1, P999: 1, Max: 1}, w.Use)
		for _, l := range w.Limits[:2] {
			require.Zero(t, l.Requests.Value, "%v", w.Window)
		}
	}
	require.False(t, r.Suggestion.Found)
}

func TestTimeStandsStill(t *testing.T) {
	r := analysed(t, Options{}, evenly(1000, 10, 0))
	for _, w := range r.Windows {
		require.True(t, w.Longer)
		require.Equal(t, 10.0, w.PeakKeys)
		require.Equal(t, uint64(1000), w.PeakUnits)
		require.Equal(t, 1000-10*50.0, w.Limits[5].Requests.Value, "limit 50")
	}
	require.False(t, r.Suggestion.Found, "no window has ended")
}

func TestTimeJumps(t *testing.T) {
	log := evenly(1000, 10, time.Minute)
	log[500].At += 30 * 365 * 24 * int64(time.Hour) // from here on the clock is years late
	r := analysed(t, Options{}, log)
	require.Equal(t, uint64(499), r.Backward)
	require.Equal(t, log[500].At, r.Last.UnixNano())
	stepsAddUp(t, r)
	requests, _, _ := byOracle(t, 5, time.Second, log)
	require.Equal(t, requests, limitOf(t, r, time.Second, 5).Requests.Value)

	for _, at := range []int64{math.MinInt64, math.MaxInt64} {
		log[500].At = at
		stepsAddUp(t, analysed(t, Options{}, log))
	}
}

func TestLogOfAYear(t *testing.T) {
	r := analysed(t, Options{Windows: []time.Duration{24 * time.Hour}}, evenly(100_000, 50, 365*24*time.Hour))
	stepsAddUp(t, r)
	require.Equal(t, 16*time.Hour, r.StepLength)
	require.Equal(t, 549, len(r.Steps))
	require.InEpsilon(t, 50, r.Steps[100].Keys, 0.1)
	require.Equal(t, uint64(6), r.Windows[0].Use.P90, "100,000 of 50 keys in 365 days: 5.5 a day")
	require.Equal(t, int64(0), r.Steps[1].Start.Unix()%(16*3600))
}

func TestCosts(t *testing.T) {
	log := evenly(300, 3, time.Second)
	for i := range log {
		log[i].Cost = [3]uint32{0, 1, math.MaxUint32}[i%3]
	}
	r := analysed(t, Options{Windows: []time.Duration{time.Minute}}, log)
	require.Equal(t, uint64(100), r.Costless)
	for _, l := range r.Windows[0].Limits {
		refused := 200 + max(0, 100-float64(l.Limit))
		require.Equal(t, refused, l.Requests.Value, "limit %d", l.Limit)
		require.Equal(t, refused-200+100*math.MaxUint32, l.Units.Value, "limit %d", l.Limit)
	}
}

// With requests of one unit each, a higher limit refuses a key no more often. With
// others it may: 28 requests of 1 … 4 units were found of which 5 a second refuses 12
// and 6 a second 13.
func TestHigherLimitsRefuseLess(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		var log []Request
		at := start
		for range 5 + random.IntN(60) {
			at += random.Int64N(int64(400 * time.Millisecond))
			if random.IntN(8) == 0 {
				at += random.Int64N(int64(2 * time.Second))
			}
			log = append(log, Request{At: at, Key: []byte("key"), Cost: 1})
		}
		w := analysed(t, Options{Exact: true, Windows: []time.Duration{time.Second}, Limits: upTo(10)}, log).Windows[0]
		for i, l := range w.Limits[1:] {
			require.LessOrEqual(t, l.Requests.Value, w.Limits[i].Requests.Value)
		}
	}
}

func TestSuggestion(t *testing.T) {
	attack := analysed(t, Options{}, workload(t, "attack:30,keys=5000,abusers=14,limit=100,window=1m,windows=5,requests=400000"))
	s := attack.Suggestion
	require.True(t, s.Found, s.Reason)
	require.Contains(t, s.Reason, "14 of 5,014", s.Reason)
	require.Contains(t, s.Reason, "96 % of the refused requests are from 14 keys", s.Reason)
	require.NotEmpty(t, s.Caveat)

	even := analysed(t, Options{}, workload(t, "uniform,keys=5000,requests=100000,window=1m,windows=5"))
	require.False(t, even.Suggestion.Found)
	require.True(t, strings.HasPrefix(even.Suggestion.Reason, "No abusers in windows of 1s, 10s or 1m: 20 a minute would have refused nobody. A limit is suggested if it refuses at least 1 % of the requests, "+
		"at most 2 % of the keys, and more than 10 times as great a share of the requests as of the keys; or a single key that sends more than 10 times the mean of the others. None does."), even.Suggestion.Reason)
}

// The first sentence counts, names a single key, and says where few windows or much of
// the traffic are behind it.
func TestRefusals(t *testing.T) {
	minutes := func(n float64) *Report {
		return &Report{Requests: 1000, Keys: Estimate{Value: 400}, First: time.Unix(0, 0), Last: time.Unix(0, int64(n*float64(time.Minute)))}
	}
	few := Limit{Limit: 50, Requests: Estimate{Value: 100}, Keys: Estimate{Value: 4}, RequestShare: 0.1, KeyShare: 0.01, Keys96: 3,
		Top: []HeavyKey{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}}}
	changed := func(change func(*Limit)) *Limit {
		l := few
		change(&l)
		return &l
	}
	for _, c := range []struct {
		minutes float64
		limit   *Limit
		want    string
	}{
		{30, &few, "50 per 10 minutes refuses 4 of 400 keys (1.0 %) and 100 of 1,000 requests (10 %); 96 % of the refused requests are from 3 keys: `a`, `b`, `c`."},
		{29.9, &few, "50 per 10 minutes refuses 4 of 400 keys (1.0 %) and 100 of 1,000 requests (10 %); 96 % of the refused requests are from 3 keys: `a`, `b`, `c`. " +
			"The log covers only 2.9 windows of 10 minutes."},
		{30, changed(func(l *Limit) { l.Keys, l.Keys96 = Estimate{Value: 1}, 1 }),
			"50 per 10 minutes refuses 1 of 400 keys (1.0 %) and 100 of 1,000 requests (10 %), all from one key, `a`."},
		{30, changed(func(l *Limit) { l.Keys96, l.Top = 1, []HeavyKey{{Key: "\x1b" + strings.Repeat("ä", 99)}} }),
			"50 per 10 minutes refuses 4 of 400 keys (1.0 %) and 100 of 1,000 requests (10 %); 96 % of the refused requests are from one key, `\"\\x1b" + strings.Repeat("ä", 42) + "…`."},
		{30, changed(func(l *Limit) { l.Keys, l.Keys96, l.Top = Estimate{41, 5}, 0, nil }),
			"50 per 10 minutes refuses about 41 of 400 keys (1.0 %) and 100 of 1,000 requests (10 %)."},
		{30, changed(func(l *Limit) { l.RequestShare = 0.11 }),
			"3 keys may be abusers: 50 per 10 minutes refuses 4 of 400 keys (1.0 %) and 100 of 1,000 requests (11 %); 96 % of the refused requests are from 3 keys: `a`, `b`, `c`. " +
				"That is more than 10 % of all requests: demand rather than abuse, unless you know these 3 keys. Look at them first."},
		{30, changed(func(l *Limit) { l.RequestShare, l.Keys, l.Top = 0.11, Estimate{Value: 1}, []HeavyKey{{}} }),
			"One key may be an abuser: 50 per 10 minutes refuses 1 of 400 keys (1.0 %) and 100 of 1,000 requests (11 %), all from one key. " +
				"That is more than 10 % of all requests: demand rather than abuse, unless you know this key. Look at it first."},
		{30, changed(func(l *Limit) { l.RequestShare, l.Keys96 = 0.11, 4 }),
			"No clear abusers: 50 per 10 minutes refuses 4 of 400 keys (1.0 %) and 100 of 1,000 requests (11 %); 96 % of the refused requests are from 4 keys. " +
				"That is more than 10 % of all requests: demand rather than abuse, unless you know these 4 keys. Look at them first."},
	} {
		require.Equal(t, c.want, minutes(c.minutes).Refusals(&Window{Window: 10 * time.Minute}, c.limit, "key", "keys"))
	}
}

// One address sends 80 % of the requests of 5, 20 or 40: it is found, although it is
// more than 2 % of the keys.
func TestSuggestion_OneOfFewKeys(t *testing.T) {
	for _, keys := range []int{5, 20, 40} {
		log := evenly(7200, keys-1, 2*time.Hour)
		for i := range log {
			if i%5 != 0 {
				log[i].Key = []byte("heavy")
			}
		}
		r := analysed(t, Options{}, log)
		require.True(t, r.Suggestion.Found, r.Suggestion.Reason)
		require.Contains(t, r.Suggestion.Reason, "One key may be an abuser: ")
		require.Contains(t, r.Suggestion.Reason, fmt.Sprintf("refuses 1 of %d keys", keys))
		require.Contains(t, r.Suggestion.Reason, "all from one key, `heavy`.")
	}
}

// Two of five keys are too many to refuse. The sentence names what the heaviest one sent.
func TestSuggestion_TwoOfFewKeys(t *testing.T) {
	log := evenly(7200, 3, 2*time.Hour)
	for i := range log {
		if i%5 != 0 {
			log[i].Key = fmt.Appendf(nil, "heavy %d", i%2)
		}
	}
	r := analysed(t, Options{}, log)
	require.False(t, r.Suggestion.Found)
	require.Contains(t, r.Suggestion.Reason, "No clear abusers in windows of ")
	require.Contains(t, r.Suggestion.Reason, "would have refused nobody. The heaviest key, `heavy 1`, sent 40 % of the requests. ")
}

// A limit that refuses 10 % or less is preferred to one that refuses more, unless three
// keys or fewer have nearly all of that.
func TestSuggestion_DemandIsPassedOver(t *testing.T) {
	for _, c := range []struct {
		busy, heavy int // keys with 30 and 300 requests a minute
		want        string
		demand      bool
	}{
		{60, 3, "refuses 3 of 8,063 keys", false},
		{0, 3, "3 keys may be abusers: ", true},
		{60, 0, "No clear abusers: ", true},
	} {
		var log []Request
		for second := range 600 {
			for i := range 40 {
				log = append(log, Request{Key: fmt.Appendf(nil, "light %d", (second*40+i)%8000)})
			}
			for i := range c.busy {
				if second%2 == 0 {
					log = append(log, Request{Key: fmt.Appendf(nil, "busy %d", i)})
				}
			}
			for i := range 5 * c.heavy {
				log = append(log, Request{Key: fmt.Appendf(nil, "heavy %d", i%3)})
			}
			for i := range log {
				if log[i].Cost == 0 {
					log[i].At, log[i].Cost = start+int64(second)*int64(time.Second), 1
				}
			}
		}
		s := analysed(t, Options{Windows: []time.Duration{time.Minute}, Limits: []int{10, 20, 200, 1000}}, log).Suggestion
		require.True(t, s.Found, s.Reason)
		require.Contains(t, s.Reason, c.want)
		require.Equal(t, c.demand, s.Demand, s.Reason)
	}
}

func TestRate(t *testing.T) {
	for window, want := range map[time.Duration]string{
		time.Second: "5 a second", 10 * time.Second: "5 per 10 seconds", 90 * time.Second: "5 per 90 seconds", 10 * time.Minute: "5 per 10 minutes",
		time.Hour: "5 an hour", 24 * time.Hour: "5 a day", 48 * time.Hour: "5 per 2 days", 1500 * time.Millisecond: "5 per 1.5s",
	} {
		require.Equal(t, want, Rate(5, window))
	}
}

// A window that the log does not fill has no suggestion. That is no proof of good
// manners.
func TestLogShorterThanWindow(t *testing.T) {
	log := workload(t, "attack:30,keys=5000,abusers=14,limit=100,window=1m,windows=1,requests=80000")
	reason := func(windows ...time.Duration) string {
		r := analysed(t, Options{Windows: windows, Limits: []int{100, 200}}, log)
		require.NotNil(t, r.separating(&r.Windows[len(windows)-1], 1), "a limit of it meets all that is asked")
		require.False(t, r.Suggestion.Found)
		return r.Suggestion.Reason
	}
	require.Equal(t, "No suggestion: the log (59s) is shorter than the window (1h). "+Conditions, reason(time.Hour))
	require.Equal(t, "No suggestion: no limit fits in windows of 1ms or 2ms, and the log (59s) is shorter than the window (1h) where one does. "+Conditions,
		reason(time.Millisecond, 2*time.Millisecond, time.Hour))
}

// A limit that nobody reached in few windows says so, too.
func TestNobodyInFewWindows(t *testing.T) {
	r := analysed(t, Options{Windows: []time.Duration{time.Minute}, Limits: []int{500}}, evenly(1000, 10, 90*time.Second))
	require.Contains(t, r.Suggestion.Reason, "No abusers in windows of 1m: 500 a minute would have refused nobody. The log covers only 1.5 windows of 1 minute. ")
}

// Who is slow is seen in long windows only: where the log has days, one of a day is
// named.
func TestLongerWindowIsNamed(t *testing.T) {
	const hint = " Slower abusers show in longer windows: try `--windows 24h`."
	o := Options{}
	for over, named := range map[time.Duration]bool{4 * 24 * time.Hour: true, 2 * 24 * time.Hour: false} {
		r := analysed(t, o, evenly(1000, 100, over))
		require.Equal(t, named, strings.HasSuffix(r.Suggestion.Reason, hint), r.Suggestion.Reason)
		require.Contains(t, r.Suggestion.Reason, "No abusers in windows of 1s, 10s, 1m, 10m or 1h: 1 a minute would have refused nobody.")
	}
	o.Windows = []time.Duration{24 * time.Hour}
	require.NotContains(t, analysed(t, o, evenly(1000, 100, 4*24*time.Hour)).Suggestion.Reason, "--windows")
}

// A key that asks for more than 2³² units in a window is judged by what its limit has
// admitted, as every other one.
func TestKeyAsksForMoreThan32Bits(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 3))
	log := evenly(20_000, 4, 10*time.Minute)
	for i := range log {
		log[i].Cost = 1 + uint32(random.Uint64N(3_000_000))
		if i%8 == 0 {
			log[i].Cost = 1
		}
	}
	window := 3 * time.Minute
	for name, o := range map[string]Options{"exact": {Exact: true}, "bounded": {}} {
		o.Windows, o.Limits = []time.Duration{window}, []int{3_000_000, 1_000_000_000, 1 << 30}
		for _, l := range analysed(t, o, log).Windows[0].Limits {
			requests, units, _ := byOracle(t, l.Limit, window, log)
			require.Equal(t, [2]Estimate{{Value: requests}, {Value: units}}, [2]Estimate{l.Requests, l.Units}, "%s, %d", name, l.Limit)
		}
	}
}

// Keys count in a window whatever their requests cost, and those that all limits refuse
// are among the refused.
func TestKeysThatNoLimitAdmits(t *testing.T) {
	log := evenly(300, 100, 30*time.Second)
	for i := range log {
		if i%100 < 40 {
			log[i].Cost = 1000 // of forty keys
		}
		if i%100 < 20 && i >= 100 {
			log[i].Cost = 2 // twenty of them come with another cost, too
		}
	}
	w := analysed(t, Options{Windows: []time.Duration{time.Minute}, Limits: []int{1, 10}}, log).Windows[0]
	require.Equal(t, 100.0, w.PeakKeys)
	require.Equal(t, 1.0, w.Limits[0].Abusers, "all have more than one unit")
	require.Equal(t, 0.4, w.Limits[1].Abusers)
}

// crowd is so many keys with one request in the first half of an hour, and then some
// with several in the other half.
func crowd(singles, keys, each int, cost uint32) (log []Request) {
	hour := start - start%int64(time.Hour)
	for i := range singles {
		log = append(log, Request{At: hour + int64(i)*int64(30*time.Minute)/int64(singles), Key: fmt.Appendf(nil, "x%d", i), Cost: 1})
	}
	for i := range keys * each {
		at := hour + int64(30*time.Minute) + int64(i)*int64(29*time.Minute)/int64(keys*each)
		log = append(log, Request{At: at, Key: fmt.Appendf(nil, "h%d", i*7%keys), Cost: cost})
	}
	return log
}

// Keys that use their limit to the last unit are refused if a sketch has one unit too
// many for them. The error covers that, though such keys are chosen by that very unit.
func TestErrorCoversKeysAtTheirLimit(t *testing.T) {
	for name, c := range map[string]struct {
		log    []Request
		memory int
		limit  int
	}{
		"default memory":             {crowd(260_000, 1500, 20, 1), 0, 20},
		"default memory, high costs": {crowd(290_000, 2000, 2, 1000), 0, 2000},
		"least memory":               {crowd(150_000, 3000, 20, 1), minMemory, 20},
		"least memory, high costs":   {crowd(150_000, 1000, 2, 1000), minMemory, 2000},
		"least memory, few keys":     {crowd(150_000, 100, 2, 100), minMemory, 200},
	} {
		wrong := 0.0
		for seed := range uint64(3) {
			o := Options{Memory: c.memory, Limits: []int{c.limit}, Seed: seed + 1}
			w := analysed(t, o, c.log).Windows[4]
			l := w.Limits[0]
			for _, e := range []Estimate{l.Requests, l.Units, l.Keys} {
				require.LessOrEqual(t, e.Value, e.Error, "%s: nobody is refused", name)
			}
			require.Less(t, w.Sampled, 1.0, name)
			wrong += l.Requests.Value
		}
		require.Positive(t, wrong, name)
	}
}

// Requests of one unit and of a hundred: a dear one that is refused for an excess
// leaves room for a hundred others.
func TestErrorCoversMixedCosts(t *testing.T) {
	log := crowd(100_000, 500, 3, 100)
	last := log[len(log)-1].At
	for i := range 500 * 30 {
		log = append(log, Request{At: last + int64(i), Key: fmt.Appendf(nil, "h%d", i%500), Cost: 1})
	}
	truth, units, keys := byOracle(t, 300, time.Hour, log)
	for seed := range uint64(5) {
		l := analysed(t, Options{Memory: minMemory, Limits: []int{300}, Seed: seed + 1}, log).Windows[4].Limits[0]
		require.InDelta(t, truth, l.Requests.Value, l.Requests.Error)
		require.InDelta(t, units, l.Units.Value, l.Units.Error)
		require.InDelta(t, keys, l.Keys.Value, l.Keys.Error)
		require.Less(t, l.Requests.Error, truth)
	}
}

// With Exact, what is told beside the limits is exact, too.
func TestExactTellsEveryFigure(t *testing.T) {
	var log []Request
	for i := range 60_000 { // key k has 40 + k/10 requests in each hour in which it comes
		k := i % 6000
		log = append(log, Request{At: start + int64(i)*int64(2*time.Hour)/60_000, Key: fmt.Appendf(nil, "k%d", k), Cost: uint32(40 + k/10)})
	}
	r := analysed(t, Options{Exact: true, Windows: []time.Duration{1000 * time.Hour}, Limits: []int{5000}}, log)
	distinct, first := map[string]bool{}, r.Steps[0].Start.Add(r.StepLength).UnixNano()
	for _, q := range log {
		if q.At < first {
			distinct[string(q.Key)] = true
		}
	}
	require.Equal(t, float64(len(distinct)), r.Steps[0].Keys)
	require.Equal(t, Use{Counted: 6000, P50: 10 * 339, P90: 10 * 579, P99: 10 * 633, P999: 10 * 639, Max: 10 * 639}, r.Windows[0].Use)
	for _, k := range r.Heaviest {
		require.Equal(t, HeavyKey{k.Key, 10, 0}, k)
	}
	require.NotEmpty(t, r.Windows[0].Limits[0].Top)
	for _, k := range r.Windows[0].Limits[0].Top {
		require.NotEmpty(t, k.Key)
	}
}

// The most that a key uses is known of keys that are followed, even if the sample has
// none of them.
func TestMostOfAKeyThatIsNotInTheSample(t *testing.T) {
	log := append(evenly(50_000, 50_000, time.Minute), evenly(3983, 1, 0)...)
	for i := range log[50_000:] {
		log[50_000+i] = Request{At: log[49_999].At, Key: []byte("abuser"), Cost: 1}
	}
	for seed := range uint64(4) {
		w := analysed(t, Options{Sample: minSample, Windows: []time.Duration{time.Hour}, Seed: seed}, log).Windows[0]
		require.Equal(t, uint64(3983), w.Use.Max)
	}
}

// Estimates are no more than there can be.
func TestEstimatesAreWithinTheLog(t *testing.T) {
	log := evenly(150_000, 150_000, time.Hour)
	hour := start - start%int64(time.Hour)
	for i := range log {
		log[i].At = hour + int64(i)*int64(time.Hour)/150_000
	}
	for h := range 12 {
		for i := range 12 {
			log = append(log, Request{At: hour + int64(h+2)*int64(time.Hour) + int64(i), Key: fmt.Appendf(nil, "q%d", h), Cost: 1})
		}
	}
	for seed := range uint64(8) {
		r := analysed(t, Options{Memory: minMemory, Seed: seed + 1}, log)
		stepsAddUp(t, r)
		for _, w := range r.Windows {
			require.LessOrEqual(t, w.PeakKeys, float64(w.PeakUnits))
			require.LessOrEqual(t, w.PeakKeys, r.Keys.Value)
		}
		require.LessOrEqual(t, r.Keys.Value, float64(r.Requests))
	}
}

// A limit of which only an estimate tells that it refuses nobody is not told as one
// that refuses somebody.
func TestNobodyIsKnownToBeRefused(t *testing.T) {
	r := &Report{Requests: 100, Last: time.Time{}.Add(3 * time.Hour), Windows: []Window{{Window: time.Hour, Limits: []Limit{
		{Limit: 1, Requests: Estimate{50, 9}}, {Limit: 20, Requests: Estimate{0, 191.5}},
	}}}}
	s := unreached(r)
	require.Equal(t, 20, s.Limit)
	require.Contains(t, s.Reason, "No abusers in windows of 1h: 20 an hour is not known to have refused anybody, 0 ± 192 requests.")
	r.Windows[0].Limits[1].Requests.Value = 1
	require.Contains(t, unreached(r).Reason, "No limit to suggest: every one that was tried refuses requests, and ")
}
