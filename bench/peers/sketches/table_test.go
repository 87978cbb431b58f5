package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 4.04e-6: "4.0e-6", 0.00999: "1.0e-2", 0.0123: "0.01", 0.47: "0.47", 1e-12: "1.0e-12"} {
		assert.Equal(t, want, share(v))
	}
	assert.Equal(t, "384 KiB", kibibytes(384<<10))
	assert.Equal(t, "1 MiB", kibibytes(1<<20))
	assert.Equal(t, "1536 KiB", kibibytes(3<<19))
}

// withDenials returns a player of one load with so many denials of 1000 requests of
// innocent keys by seed.
func withDenials(name string, denied ...int) *player {
	p := &player{contestant: &contestant{name: name}, outcomes: make([][]outcome, 1)}
	for _, d := range denied {
		p.outcomes[0] = append(p.outcomes[0], outcome{innocents: 1000, denied: d, admitted: 1})
	}
	return p
}

func TestAheadAndNoise(t *testing.T) {
	library := withDenials(title, 10, 12, 11)
	better, worse, equal := withDenials("better", 5, 6, 4), withDenials("worse", 20, 20, 20), withDenials("equal", 12, 11, 10)
	unsteady, greedy := withDenials("unsteady", 1, 18, 8), withDenials("greedy", 0, 0, 0)
	greedy.outcomes[0][1].over = 1
	figure := outcome.falseDenials
	assert.Nil(t, ahead([]*player{library, worse, equal, greedy}, 0, figure))
	assert.Equal(t, better, ahead([]*player{library, unsteady, better, worse, greedy}, 0, figure))
	assert.False(t, within(library, better, 0, figure))
	assert.True(t, within(library, unsteady, 0, figure))
	assert.True(t, within(withDenials(title, 10), withDenials("better", 0), 0, figure), "one seed has no noise to compare with")
}
