package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlayIsReproducible(t *testing.T) {
	admits, refused := 0, 0
	for i := range 40 {
		o := play(7, i)
		require.Equal(t, o, play(7, i))
		if o.memory == 0 {
			refused++
		} else if len(o.rates) > 0 {
			admits++
		}
		read, err := parse(o.String())
		require.NoError(t, err)
		require.Empty(t, difference(&o, &read))
	}
	require.Greater(t, admits, 20)
	require.Positive(t, refused)
	require.NotEqual(t, play(7, 0).decisions, play(8, 0).decisions)
}

func TestDifferenceNamesWhatDiffers(t *testing.T) {
	was := outcome{"a", 10, 1, []float64{0.5, 0}}
	for _, c := range []struct {
		now  outcome
		want string
	}{
		{outcome{"b", 10, 1, []float64{0.5, 0}}, "other configurations"},
		{outcome{"a", 11, 1, []float64{0.5, 0}}, "10 bytes before, 11 now"},
		{outcome{"a", 10, 2, []float64{0.5, 0}}, "decisions"},
		{outcome{"a", 10, 1, []float64{0.5}}, "2 rates before, 1 now"},
		{outcome{"a", 10, 1, []float64{0.500001, 0}}, "rate 0"},
		{outcome{"a", 10, 1, []float64{0.5, 1e-30}}, "rate 1"},
	} {
		require.Contains(t, difference(&was, &c.now), c.want)
	}
	require.Empty(t, difference(&was, &outcome{"a", 10, 1, []float64{0.5 + 1e-10, 0}}))
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{"", "a\t1\t2", "a\tx\t2\t", "a\t1\tz\t", "a\t1\t2\tx"} {
		_, err := parse(line)
		require.Error(t, err, "%q", line)
	}
}
