package accuracy

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sketchlimit/sketchlimit/accuracy/internal/draw"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func source(t testing.TB, spec string) Source {
	t.Helper()
	w, err := ParseWorkload(spec, Workload{Seed: 1})
	require.NoError(t, err)
	s, err := w.Source()
	require.NoError(t, err)
	return s
}

func counts(s Source) map[string]int {
	n := make(map[string]int)
	for r := range s.Requests() {
		n[r.Key]++
	}
	return n
}

// chiSquare holds counts against expectations. With 6 standard deviations of the
// statistic (mean f, variance 2f for f degrees of freedom, close to normal for the
// f ≥ 100 used here, a little skewed) a true distribution fails with p < 1e-6, and
// the seeds are fixed: it does not.
func chiSquare(t *testing.T, got []int, want []float64) {
	t.Helper()
	var x float64
	for i := range got {
		d := float64(got[i]) - want[i]
		x += d * d / want[i]
	}
	f := float64(len(got) - 1)
	assert.InDelta(t, f, x, 6*math.Sqrt(2*f), "chi-square of %d cells", len(got))
}

func TestZipfFollowsItsLaw(t *testing.T) {
	const n = 300
	for _, spec := range []string{"zipf:0", "zipf:0.5", "zipf:1", "zipf:1.3", "uniform"} {
		t.Run(spec, func(t *testing.T) {
			s := source(t, spec+",keys=300,requests=3e5")
			w := s.(*synthetic).spec
			exponent, got := w.Exponent, make([]int, n)
			if w.Kind == Uniform {
				exponent = 0
			}
			seen := counts(s)
			var sum float64
			want := make([]float64, n)
			for i := range n {
				got[i] = seen[names("k", i, 1)]
				want[i] = math.Pow(float64(i+1), -exponent)
				sum += want[i]
			}
			for i := range want {
				want[i] *= 3e5 / sum
			}
			chiSquare(t, got, want) // smallest expectation: 3e5 × 300^−1.3 / 3.4 > 50
			assert.Len(t, seen, n)
		})
	}
}

func TestAttackAbusersSendTheirFactor(t *testing.T) {
	s := source(t, "attack:3,keys=1e4,abusers=100,limit=50,windows=2")
	require.Equal(t, 2*(3*10_000+100*3*50), s.Len())
	var abusers int
	seen := counts(s)
	for key, n := range seen {
		if key[0] == 'a' {
			abusers += n
		}
	}
	// Binomial: n = 90,000, p = 1/3, σ = 141; 6σ happens by chance once in 5e8.
	assert.InDelta(t, 30_000, abusers, 6*math.Sqrt(90_000*2/9.))
	// Light keys are Poisson of mean 6: none is ever near the limit of 50
	// (p < 1e-28 a key), the abusers (mean 300, σ 17) all are above 3 × 50 (8σ).
	for key, n := range seen {
		if key[0] == 'a' {
			assert.Greater(t, n, 150)
		} else {
			assert.Less(t, n, 50)
		}
	}
}

func TestScanKeysComeOnce(t *testing.T) {
	s := source(t, "scan:0.75,keys=100,requests=1e5")
	var once int
	for key, n := range counts(s) {
		if key[0] == 'o' {
			once++
			require.Equal(t, 1, n, key)
		}
	}
	assert.InDelta(t, 75_000, once, 6*math.Sqrt(1e5*.75*.25)) // binomial, 6σ
}

func TestFlashCrowdComesAndGoes(t *testing.T) {
	s := source(t, "flash:4,keys=1000,crowd=500,requests=1e6,windows=4,window=1m,start=1.5,length=0.5")
	begin := time.Unix(epoch/int64(time.Second), 0)
	begin = begin.Truncate(time.Minute)
	var usual, crowd [8]int // half windows
	for r := range s.Requests() {
		half := int(r.Time.Sub(begin) / (30 * time.Second))
		if r.Key[0] == 'c' {
			crowd[half]++
		} else {
			usual[half]++
		}
	}
	// 8 half windows at the usual rate and 4 more in the fourth: a twelfth each.
	// Outside of the crowd the counts are fixed; inside they are binomial, 6σ.
	each := 1e6 / 12
	for half := range 8 {
		if half != 3 {
			assert.Zero(t, crowd[half])
			assert.InDelta(t, each, usual[half], 2)
		}
	}
	assert.InDelta(t, 5*each, crowd[3]+usual[3], 2)
	assert.InDelta(t, 4*each, crowd[3], 6*math.Sqrt(5*each*.8*.2))
}

func TestWorkloadsAreReproducibleAndOrdered(t *testing.T) {
	testkit.Computes(t)
	for _, spec := range Workloads() {
		spec, _, _ = strings.Cut(spec, ",")
		t.Run(spec, func(t *testing.T) {
			spec += ",keys=1000,requests=50000,cost=3,windows=3,window=10s"
			if strings.HasPrefix(spec, "attack") {
				spec += ",limit=10"
			}
			s := source(t, spec)
			first := slices.Collect(s.Requests())
			require.Len(t, first, s.Len())
			require.Equal(t, first, slices.Collect(s.Requests()), "second walk")
			require.Equal(t, first, slices.Collect(source(t, spec).Requests()), "second source")
			require.NotEqual(t, first, slices.Collect(source(t, spec+",seed=2").Requests()), "another seed")

			sorted := slices.IsSortedFunc(first, func(a, b Request) int { return a.Time.Compare(b.Time) })
			require.True(t, sorted)
			begin, end := first[0].Time, first[len(first)-1].Time
			require.Zero(t, begin.UnixNano()%int64(10*time.Second), "begins with a window")
			require.Less(t, end.Sub(begin), 30*time.Second)
			var cost [4]int
			for _, r := range first {
				cost[r.Cost]++
			}
			for c := 1; c <= 3; c++ {
				assert.InDelta(t, 50000/3., cost[c], 6*math.Sqrt(50000*2/9.)) // binomial, 6σ
			}
		})
	}
}

func TestWalkCanStopEarly(t *testing.T) {
	var n int
	for range source(t, "zipf,keys=10").Requests() {
		if n++; n == 3 {
			break
		}
	}
	assert.Equal(t, 3, n)
}

func TestParseWorkload(t *testing.T) {
	w, err := ParseWorkload("zipf:0.8,keys=1e6,requests=1e7,window=10s", Workload{Seed: 7, Windows: 5})
	require.NoError(t, err)
	assert.Equal(t, 0.8, w.Exponent)
	assert.Equal(t, 1_000_000, w.Keys)
	assert.Equal(t, 10_000_000, w.Requests)
	assert.Equal(t, 10*time.Second, w.Window)
	assert.Equal(t, uint64(7), w.Seed)
	assert.Equal(t, 5, w.Windows)

	zero, err := ParseWorkload("zipf:0", Workload{})
	require.NoError(t, err)
	assert.Zero(t, zero.Exponent, "0 was asked for")

	for _, spec := range Workloads() {
		w, err := ParseWorkload(spec, Workload{Seed: 3})
		require.NoError(t, err, spec)
		again, err := ParseWorkload(w.String(), Workload{})
		require.NoError(t, err, w.String())
		assert.Equal(t, w.String(), again.String())
	}
}

func TestParseWorkloadErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"":                       `accuracy: workload "": unknown, must be one of uniform, zipf, flash, attack, scan`,
		"zip:1":                  `accuracy: workload "zip": unknown, must be one of uniform, zipf, flash, attack, scan`,
		"zipf:abc":               `accuracy: workload zipf: exponent "abc", must be 0 … 10`,
		"zipf:-1":                `accuracy: workload zipf: exponent "-1", must be 0 … 10`,
		"zipf:NaN":               `accuracy: workload zipf: exponent "NaN", must be 0 … 10`,
		"zipf:1,keys=0":          `accuracy: workload zipf: keys "0", must be a whole number 1 … 100000000`,
		"zipf:1,keys=1.5":        `accuracy: workload zipf: keys "1.5", must be a whole number 1 … 100000000`,
		"zipf:1,keys=1e30":       `accuracy: workload zipf: keys "1e30", must be a whole number 1 … 100000000`,
		"zipf:1,keys":            `accuracy: workload zipf: "keys", must be field=value`,
		"zipf:1,":                `accuracy: workload zipf: "", must be field=value`,
		"zipf:1,exponent=2":      `accuracy: workload zipf: exponent given twice`,
		"zipf:1,window=5":        `accuracy: workload zipf: window "5", must be a duration 1ms … 8760h0m0s`,
		"zipf:1,seed=-1":         `accuracy: workload zipf: seed "-1", must be a whole number 0 … 1<<64-1`,
		"uniform:2":              `accuracy: workload uniform: main parameter "2", it has none`,
		"uniform,factor=2":       `accuracy: workload uniform: "factor" unknown, must be one of keys, requests, windows, window, cost, seed`,
		"attack:0":               `accuracy: workload attack: factor "0", must be above 0 … 1000000`,
		"scan:1.1":               `accuracy: workload scan: share "1.1", must be above 0 … 1`,
		"attack,requests=1000":   `accuracy: workload attack: requests 1000, must be at least 1200000 for 1000 abusers at 3 × 100 units over 4 windows`,
		"flash:2,length=0.00001": `accuracy: workload flash: length "0.00001", must be 0.001 … 1000000`,
	} {
		_, err := ParseWorkload(spec, Workload{})
		assert.EqualError(t, err, want, "spec %q", spec)
	}
	_, err := Workload{Kind: Zipf, Keys: -1}.Source()
	assert.EqualError(t, err, `accuracy: workload zipf: keys -1, must be a whole number 1 … 100000000`)
	_, err = Workload{Kind: "x"}.Source()
	assert.EqualError(t, err, `accuracy: workload "x": unknown, must be one of uniform, zipf, flash, attack, scan`)
}

func FuzzParseWorkload(f *testing.F) {
	for _, spec := range Workloads() {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		w, err := ParseWorkload(spec, Workload{})
		if err != nil {
			require.ErrorContains(t, err, "accuracy: workload ")
			return
		}
		again, err := ParseWorkload(w.String(), Workload{})
		require.NoError(t, err, w.String())
		require.Equal(t, w.String(), again.String())
	})
}

func BenchmarkWorkload(b *testing.B) {
	for _, spec := range []string{"uniform,keys=1e6", "zipf:1,keys=1e6", "attack:3,keys=1e6", "scan,keys=1e5"} {
		b.Run("spec="+spec, func(b *testing.B) {
			w, err := ParseWorkload(spec+",requests=1e9", Workload{})
			require.NoError(b, err)
			s, err := w.Source()
			require.NoError(b, err)
			b.ReportAllocs()
			b.ResetTimer()
			n := 0
			for range s.Requests() {
				if n++; n >= b.N {
					break
				}
			}
		})
	}
}

func TestBelowIsEven(t *testing.T) {
	random := rand.NewPCG(1, 2)
	got, want := make([]int, 200), make([]float64, 200)
	for range 200_000 {
		got[draw.Below(random, 200)]++
	}
	for i := range want {
		want[i] = 1000
	}
	chiSquare(t, got, want)
}
