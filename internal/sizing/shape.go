package sizing

import (
	"github.com/sketchlimit/sketchlimit/bloom"
)

// Shape is how memory is spent.
type Shape struct {
	Depth     int     // rows of a sketch, or entries in a line of a bucket's table
	Probes    int     // of the Bloom filters; from 2 on they guard the cells
	Filter    float64 // share of a generation that such a Bloom filter takes
	Heavy     float64 // share of everything that the table of heavy keys takes
	Threshold int     // units in a generation that make a key heavy
}

const (
	// depth is the number of rows, besideHeavy that beside a table of heavy keys, and
	// lowDepth that where a few units of others are too many: more rows err less often,
	// fewer bear more load.
	depth      = 4
	heavyDepth = 3
	lowDepth   = 6
	// heavyThreshold is the units in a generation that make a key heavy, up to a third
	// of the limit, and heavyPart the part of the limit that is needed in any case:
	// with fewer units a single request of many would do, and the table would be full
	// of light keys when heavy ones come.
	heavyThreshold = 16
	heavyPart      = 6
	// filterFirstProbes are those of a Bloom filter that guards, in guardShare of its
	// generation. It pays where any unit of others is much of the limit: below
	// guardBelow.
	filterFirstProbes = 4
	filterFirstShare  = 0.25
	filterFirstBelow  = 8
)

// lowBelow is the lowest limit that needs no more memory than the limits above it.
const lowBelow = 12

// Shape returns one that does about right for most limits, and for buckets and a limit
// of 1 in any case.
func (n *Need) Shape(memory int) Shape {
	if n.Rule.IsBucket() {
		entries, _ := n.entriesOfLine()
		return Shape{Depth: entries}
	}
	if n.lowSize() != nil {
		return lowShape
	}
	s := Shape{Depth: depth, Threshold: max(1, min(heavyThreshold, n.Lowest/3), n.Lowest/heavyPart)}
	if n.HeavyTable() {
		s.Heavy, s.Depth = 1./heavyShare, heavyDepth
	}
	if n.Lowest < lowBelow {
		s.Depth = lowDepth
	}
	if n.Lowest < filterFirstBelow && int(n.Rule.Limit) > 1 {
		return s.FilterFirst()
	}
	s.Probes = n.probes(max(1, memory/bloom.BlockBytes/n.Rule.Generations()))
	return s
}

// probes returns the bits a key sets in a Bloom filter of so many blocks in all: 1
// unless Bloom filters count alone.
func (n *Need) probes(blocks int) int {
	switch {
	case int(n.Rule.Limit) > 1:
		return 1
	case n.Keys > 0:
		probes, _ := bloom.Best(float64(n.Keys) / float64(blocks))
		return probes
	}
	return 8
}

// FilterFirst returns a shape with Bloom filters that guard the cells.
func (s Shape) FilterFirst() Shape {
	s.Probes, s.Filter = filterFirstProbes, filterFirstShare
	return s
}

// withProvenEntries returns a shape with a table of heavy keys, which proves keys to be
// over their limit.
func (n *Need) withProvenEntries(s Shape) Shape {
	if s.Heavy == 0 {
		s.Heavy, s.Threshold = 1./heavyShare, max(1, n.Lowest/2)
	}
	return s
}
