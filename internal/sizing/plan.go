package sizing

import (
	"fmt"

	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// Plan chooses the dimensions.
func (n *Need) Plan() (spec.Dimensions, error) {
	memory := n.MemoryBytes
	if memory == 0 {
		var err error
		if memory, err = n.MemoryFor(n.Keys); err != nil {
			return spec.Dimensions{}, err
		}
	}
	return n.PlanFor(memory)
}

// PlanFor spends the memory: as Tune would for the traffic that Keys and a rate stand
// for, and otherwise, also where it may become more, as has been measured to be about
// right.
func (n *Need) PlanFor(memory int) (spec.Dimensions, error) {
	if row, _ := n.sized(); row != nil && n.MemoryBytes == 0 && !n.Grows {
		how, _, err := n.sizedFor(n.Keys)
		if err != nil {
			return spec.Dimensions{}, err
		}
		return n.Spend(memory, how)
	}
	return n.Spend(memory, n.Shape(memory))
}

// memoryFor returns the memory that holds the false-denial rate for so many keys.
func (n *Need) MemoryFor(keys int) (int, error) {
	if n.Rule.IsBucket() {
		return n.MemoryForEntries(n.EntriesAtOnce(keys))
	}
	rate := n.Rate
	var bytes float64
	var err error
	if row, _ := n.sized(); row != nil {
		var how Shape
		if how, bytes, err = n.sizedFor(keys); n.Rule.DeniesProven() && how.Heavy == 0 {
			bytes /= 1 - 1./heavyShare // the table that it would do without
		}
		if n.Rule.DeniesProven() {
			bytes *= 1 + spec.OverCapacityShare
		}
	} else {
		bytes, _, err = n.filtersFor(keys)
	}
	if err != nil {
		return 0, err
	}
	bytes *= 1.05 // for shards and their unevenness
	if bytes > float64(spec.MaxMemory-n.Smallest()) {
		return 0, fmt.Errorf("sketchlimit: Keys %d at FalseDenialRate %v needs %.3g bytes, must be at most %d",
			keys, rate, bytes, spec.MaxMemory)
	}
	return spec.HeapBytes(int(bytes)) + n.Smallest(), nil // what does not fill the heap's unit would be lost
}
