package errorrate

import (
	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
)

// MaxLevels is the levels by which a [Sample] tells units apart, at the most.
const MaxLevels = 256

// Levels are probabilities, by level, that an unseen key reads so much or more.
type Levels [MaxLevels + 2]float64

// Sample is the noise in the current generation and in the previous one, estimated from
// a few counters. Units are told apart by levels.
type Sample struct {
	Current, Previous Levels
	Weight            float64 // of the previous generation, 0 … 1
	limit, steps      int64
}

// NewSample returns a Sample for units up to a limit, ≥ 1, without probabilities.
func NewSample(limit int64) Sample { return Sample{limit: limit, steps: Steps(limit)} }

// Steps returns the highest level for units up to a limit: that of the limit itself.
func Steps(limit int64) int64 { return min(MaxLevels, limit) }

// Steps returns the highest level.
func (s *Sample) Steps() int64 { return s.steps }

// Above returns the probability of more than units in both generations together, of
// which the previous one is weighted and rounded up.
func (s *Sample) Above(units int64) (p float64) {
	for l := range s.steps + 1 {
		exactly := s.Current[l] - s.Current[l+1]
		if exactly <= 0 {
			continue
		}
		if left := units - s.UnitsAt(l); left < 0 {
			p += exactly
		} else if s.Weight > 0 {
			p += exactly * s.Previous[s.LevelAbove(int64(float64(left)/s.Weight))]
		}
	}
	return p
}

// UnitsAt returns the units that a level stands for: those in its middle. The highest
// level is that of the limit.
func (s *Sample) UnitsAt(level int64) int64 {
	return min((level*s.limit+(s.limit-s.steps)/2)/s.steps, s.limit)
}

// LevelAbove returns the first level of more than units.
func (s *Sample) LevelAbove(units int64) int64 {
	l := max(0, min(units*s.steps/s.limit, s.steps))
	for l <= s.steps && s.UnitsAt(l) <= units {
		l++
	}
	return l
}

// AboveBeside returns the chance of more units than these beside what is counted
// elsewhere, of which a few keys tell: a key is held against the sum.
func (s *Sample) AboveBeside(elsewhere []int64, units int64) (p float64) {
	var orMore Levels
	for l := range s.Steps() + 1 {
		orMore[l] = s.Above(s.UnitsAt(l) - 1)
	}
	for _, others := range elsewhere {
		if left := units - others; left < 0 {
			p++
		} else {
			p += orMore[s.LevelAbove(left)]
		}
	}
	return p / float64(len(elsewhere))
}

const (
	sampledLanes = 4  // of a sketch: other ones each time
	sampledWords = 64 // of each row
)

// Sampled is a generation of which some counters are read: its sketch and its Bloom
// filter, whose words begin at these ones.
type Sampled struct {
	Words        []uint64
	Cells        cms.Layout
	Filter       bloom.Layout
	CellsOffset  int
	FilterOffset int
	FilterFirst  bool // a key that is not in the filter reads 0
	Limit        int64
	Seed         uint64
}

// Add adds to chances those that an unseen key reads each level or more, by the hash of
// such a key in the generation and random bits. A key meets counters of one lane in all
// rows, and lanes bear unlike loads, so each lane is looked at by itself.
func (s *Sampled) Add(chances *Levels, h, random uint64) {
	steps := Steps(s.Limit)
	passes := s.passes(h, steps)
	lanes := min(sampledLanes, s.Cells.Lanes())
	h = random
	for lane := range lanes {
		lane = (lane + int(h%64)) % s.Cells.Lanes()
		reads := passes
		for row := range s.Cells.Depth() {
			var seen [MaxLevels + 1]uint16
			for range sampledWords {
				h = keyhash.Mix(h, s.Seed)
				units := int64(s.Cells.Cell(s.Words, s.CellsOffset, row, lane, h))
				seen[min(units, s.Limit)*steps/s.Limit]++
			}
			orMore := uint16(0)
			for l := steps; l > 0; l-- {
				orMore += seen[l]
				reads[l] *= float64(orMore) / sampledWords
			}
		}
		for l := range steps + 1 {
			chances[l] += reads[l] / float64(lanes)
		}
	}
}

// passes returns the chances that an unseen key passes the filter, and so reads any
// units: all of them where it is not asked first.
func (s *Sampled) passes(h uint64, steps int64) (chances Levels) {
	passed := 0
	for range sampledWords {
		if h = keyhash.Mix(h, s.Seed); !s.FilterFirst || s.Filter.Test(s.Words, s.FilterOffset, h) {
			passed++
		}
	}
	chances[0] = 1
	for l := int64(1); l <= steps; l++ {
		chances[l] = float64(passed) / sampledWords
	}
	return chances
}
