package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSalsaMergesByHand raises the four counters of 2 bits of one group.
func TestSalsaMergesByHand(t *testing.T) {
	s := newSalsa(1<<10, setting{1, 2}).(*salsa)
	const first = 8 // the first counter of the third group
	read := func() (values [4]uint32) {
		for i := range values {
			values[i] = s.value(first/4, s.node(first+uint64(i)))
		}
		return values
	}
	for _, step := range []struct {
		leaf  uint64
		count uint32
		want  [4]uint32
	}{
		{0, 3, [4]uint32{3, 0, 0, 0}},
		{3, 2, [4]uint32{3, 0, 0, 2}},
		{1, 1, [4]uint32{3, 1, 0, 2}},
		{0, 4, [4]uint32{4, 4, 0, 2}},      // overflows: the lower pair merges
		{1, 15, [4]uint32{15, 15, 0, 2}},   // 4 bits hold that
		{2, 1, [4]uint32{15, 15, 1, 2}},    // the upper pair is as it was
		{2, 5, [4]uint32{15, 15, 5, 5}},    // and merges
		{0, 7, [4]uint32{15, 15, 5, 5}},    // counts never fall
		{3, 16, [4]uint32{16, 16, 16, 16}}, // the pairs merge
		{1, 101, [4]uint32{101, 101, 101, 101}},
	} {
		s.raise(first+step.leaf, step.count)
		require.Equal(t, step.want, read())
	}
	s.raise(first+4, 100) // in one step from 2 bits to 8
	assert.Equal(t, [4]uint32{101, 101, 101, 101}, read())
	for leaf := range uint64(4) {
		assert.EqualValues(t, 100, s.value(first/4+1, s.node(first+4+leaf)))
	}
	assert.Zero(t, s.value(first/4-1, s.node(first-1)), "neighbours are as they were")
}

// TestSalsaMergesLikeWholeCounters holds groups to arrays of one value a leaf.
func TestSalsaMergesLikeWholeCounters(t *testing.T) {
	for _, bits := range []int{1, 2, 4} {
		s := newSalsa(256, setting{1, bits}).(*salsa)
		truth := make([]uint32, s.row)
		crowded(1, 5000, func(key uint32) {
			i, count := uint64(key)%s.row, key%limit
			s.raise(i, count)
			truth[i] = max(truth[i], count)
		})
		for i, want := range truth {
			require.GreaterOrEqual(t, s.value(uint64(i)/s.leaves, s.node(uint64(i))), want)
		}
	}
}
