package errorrate

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
