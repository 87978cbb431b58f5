// Package sharing is for transports that carry counts between limiters that hold one
// limit together, for instance on several machines. Package redislimit carries them
// through Redis. Programs that only limit do not need this package.
package sharing

import (
	"iter"

	"github.com/sketchlimit/sketchlimit/internal/shared"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// Share is a limiter's part in a limit that several limiters hold together. Beside the
// doorkeepers, sketches and heavy keys that the limiter counts in, it keeps for every
// generation a sketch of cells of what the limiter has admitted, its own cells, and one
// of what all others have, which the carrier puts there. Requests are held against the
// sum of both.
//
// The limiters' own cells, added up one by one, are a sketch of all their traffic: the
// least of a key's cells is no less than what all of them have admitted of it.
//
// Cells come in parts, the limiter's shards, of [Share.PartWords] words each; a word
// holds 64 / [Share.CellBits] of them, the first in its lowest bits. A count that a
// cell cannot hold stays at its largest value.
//
// The cells take as much as half of the limiter's own generations, and hold more: they
// do not widen, and hold all of heavy keys. A limiter that is to be one of several
// needs three times the Config.Keys to be about as good as one alone.
//
// It is made by sketchlimit.Limiter.Share. A Share is safe for concurrent use; so is
// what it adds to the limiter's decisions.
type Share struct {
	share *shared.Counters
	now   func() rotating.Position
}

// New returns a Share over an engine's. It is for package sketchlimit.
func New(share *shared.Counters, now func() rotating.Position) *Share { return &Share{share, now} }

// Layout describes all that two Shares must have in common to read each other's cells:
// the Config, and without telling it the Seed.
func (s *Share) Layout() string { return s.share.Layout() }

// Parts returns the number of parts.
func (s *Share) Parts() int { return s.share.Parts() }

// PartWords returns the number of words of one part, in one generation.
func (s *Share) PartWords() int { return s.share.PartWords() }

// CellBits returns the number of bits of a cell: 8, 16 or 32.
func (s *Share) CellBits() int { return s.share.CellBits() }

// Generations returns the number of the current generation, and how many are kept:
// that one and those before it.
func (s *Share) Generations() (current int64, kept int) {
	return s.now().Generation, s.share.Generations()
}

// MemoryBytes returns the memory that sharing takes beside the limiter's MemoryBytes.
func (s *Share) MemoryBytes() int { return s.share.Bytes() }

// Own copies a part's own cells of a generation, by its number, to PartWords words. It
// returns false if the generation is not kept.
func (s *Share) Own(part int, generation int64, to []uint64) bool {
	return s.share.Own(s.now(), part, generation, to)
}

// AddOthers adds counts to the others' cells of a part, in a generation. Each count comes
// with the index of its cell in the part. It returns false if the generation is not kept,
// and then does not range over counts. It also returns false if the generation passes
// meanwhile, and then ranges no further.
//
// Counts are added some dozens at a time. No lock is held while counts is ranged over, so
// counts may use the limiter and the Share.
func (s *Share) AddOthers(part int, generation int64, counts iter.Seq2[int, uint32]) bool {
	var few [64]shared.CellCount
	if !s.share.AddOthers(s.now(), part, generation, nil) {
		return false
	}
	n := 0
	for cell, count := range counts {
		few[n] = shared.CellCount{Cell: cell, Count: count}
		if n++; n < len(few) {
			continue
		}
		if !s.share.AddOthers(s.now(), part, generation, few[:n]) {
			return false
		}
		n = 0
	}
	return s.share.AddOthers(s.now(), part, generation, few[:n])
}

// SetOthers replaces the others' cells of a part, in a generation, by those in PartWords
// words. It returns false if the generation is not kept.
func (s *Share) SetOthers(part int, generation int64, words []uint64) bool {
	return s.share.SetOthers(s.now(), part, generation, words)
}

// Weigh brings up to date what the others' cells weigh. Until the next Weigh, a
// decision uses these weights; if they leave too few units, it reads the cells of all
// generations. Weigh takes a millisecond or two for each MiB of cells, one part after
// another.
func (s *Share) Weigh() { s.share.Weigh(s.now()) }
