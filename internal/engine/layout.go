package engine

import (
	"math"

	"github.com/sketchlimit/sketchlimit/bloom"
	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/denycache"
	"github.com/sketchlimit/sketchlimit/internal/heavyhitter"
	"github.com/sketchlimit/sketchlimit/internal/invariants"
	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/timetable"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// shard is the state of the keys whose hashes begin alike, but for what lies in
// their part of the limiter's memory. It fills one cache line.
type shard struct {
	mu       invariants.Mutex
	number   int64 // of the current generation
	peaks    peaks
	admitted uint64 // units
	denied   uint64 // units
	denials  denycache.Slot
}

// peaks are bounds of what the sketch reads of any key.
type peaks struct {
	current        uint32 // in the current generation; see noteEntry
	before         uint16 // in the one before, in steps of layout.peakStep
	thresholdBoost uint16 // what the threshold stands above the plan's in the current generation, see isHeavy
}

// unknown are the peaks of a window's shard whose cells somebody else has counted.
var unknown = peaks{current: math.MaxUint32, before: math.MaxUint16}

// layout says where things lie in a shard's memory, which is the same in all shards:
// for each generation a Bloom filter and a sketch, then the table of heavy keys, and the words of state of a shard that may be over capacity. A
// bucket has one table of times for all generations instead, and its state.
//
// A key's units in a generation are in the sketch; once they reach the threshold, the key moves into the table. The
// Bloom filters, Bloom filters of one probe, tell how many keys there are, by an eighth of them. With more probes they have
// all keys and guard the cells: a key that they do not know reads nothing. Where the limit is 1 they count alone.
type layout struct {
	spec.Rule
	seed uint64
	buffers
	heavy       heavyhitter.Table
	times       timetable.Layout // of a bucket, in place of all else
	promoteAt   int64            // units in one generation from which a key gets an entry, by the plan
	cellsFirst  int              // word of a generation
	generation  int              // words of one generation
	size        int              // words of a shard
	light       int64            // units of a generation that a key has without an entry, at most, by the plan's threshold
	filterFirst bool             // the Bloom filters are marked for all keys, and a key that is not there reads 0
	peakStep    int64            // of peaks.before: 1, or more where the limit exceeds what that holds
	turnSeed    uint64           // from which the seeds of generations follow; who finds these does not learn seed
	timeSeed    uint64           // of a bucket's table
	far         bool             // the memory is more than caches near the processor hold
}

// never is the number of a shard that has seen no time yet: before all generations.
const never = -1 << 62

// nearBytes is the memory up to which it does not pay to fetch all of a key's cache lines before
// anything else.
const nearBytes = 4 << 20

// newLayout returns the layout of checked dimensions.
func newLayout(rule spec.Rule, d spec.Dimensions, seed uint64) (layout, error) {
	l := layout{Rule: rule, seed: seed, turnSeed: keyhash.Derive(seed, "generations")}
	l.timeSeed = rotating.Seed(l.turnSeed, 0)
	var err error
	if d.BloomBytes > 0 {
		if l.filter, err = bloom.NewLayout(d.BloomBytes, d.BloomProbes); err != nil {
			return layout{}, err
		}
	}
	switch {
	case rule.IsBucket():
		if l.times, err = timetable.NewLayout(d.Width, d.Depth); err != nil {
			return layout{}, err
		}
	case d.Width > 0:
		if l.cells, err = cms.NewLayout(d.Depth, d.Width, d.CellBits); err != nil {
			return layout{}, err
		}
	}
	fingerprint := uint8(heavyhitter.PlainFingerprint)
	if rule.DeniesProven() {
		fingerprint = heavyhitter.ProvenFingerprint
	}
	l.heavy, l.promoteAt = heavyhitter.New(rule.Reach, d.Entries(&rule), fingerprint), int64(d.PromoteAt)
	l.filterFirst = d.BloomBytes > 0 && (d.BloomProbes > 1 || d.Width == 0)
	l.light = min(rule.Limit, l.promoteAt-1)
	l.peakStep = rule.Reach/math.MaxUint16 + 1
	l.cellsFirst = l.filter.Words()
	l.generation = l.cellsFirst + l.cells.Words() + l.times.Words()
	l.size = rule.Ring.Buffers()*l.generation + l.heavy.Words() + rule.StateWords()
	l.far = 8*d.Shards*l.size > nearBytes
	return l, nil
}

// buffers says what each buffer of a window's ring holds. A bucket has a table of times instead, see bucket.go.
type buffers struct {
	filter bloom.Layout
	cells  cms.Layout // no cells where the limit is 1
}

// begin makes a later generation the current one, with which others expire, ≥ 1.
func (s *shard) begin(number int64, expired int, peakStep int64) {
	s.number = number
	before := (int64(s.peaks.current) + peakStep - 1) / peakStep
	if expired > 1 {
		before = 0
	}
	s.peaks = peaks{before: uint16(min(before, math.MaxUint16))}
}

// GenerationWords returns the words of a shard that hold a generation.
func (l *layout) GenerationWords() int { return l.generation }

// buffer returns the first of a shard's words that hold a generation, by its number.
func (l *layout) buffer(number int64) int {
	return l.Ring.Buffer(number) * l.generation
}
