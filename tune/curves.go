package tune

import (
	"math"

	"github.com/sketchlimit/sketchlimit/internal/errorrate"
	"github.com/sketchlimit/sketchlimit/rotating"
	"github.com/sketchlimit/sketchlimit/tune/internal/tail"
)

// slots are the moments of a generation at which the simulated cells are read. They are
// denser at its beginning, when heavy keys come in and everything fills.
const slots = 16

func instant(slot int) float64 { return float64(slot*slot) / (slots * slots) }

// curves are what keys read that meet others' cells at random, on average over shards: in
// the current generation as it fills, and in those before, which are all alike.
type curves struct {
	current [slots + 1]noise
	past    noise
	adds    bool // there is one row, in which keys that meet add up
	bursts  bool // all units of a key in a generation come at once
}

// noise is a moment of a generation: the chance that a key which is not there passes
// the Bloom filter, and then the distribution of the smallest of its cells.
type noise struct {
	passes    float64
	cells     tail.Distribution
	threshold float64 // units from which a key has an entry, mean over shards
}

// look reads all shards.
func (c *curves) look(l *shards, slot int, p rotating.Position) {
	top, shards := tail.Bin(l.limit), l.dims.Shards
	c.adds = l.dims.Depth == 1
	shard := l.engine.NewCopy()
	for i := range shards {
		shard.Read(i, p, nil)
		c.current[slot].threshold += float64(shard.PromoteAt()) / float64(shards)
		c.current[slot].add(&shard.Ages[0], top, shards)
		for _, earlier := range shard.Ages[1:] {
			if slot == 0 {
				c.past.add(&earlier, top, shards*(len(shard.Ages)-1))
			}
		}
	}
}

// add adds a shard's generation to the mean over so many.
func (r *noise) add(g *errorrate.Generation, top, all int) {
	r.passes += g.Passes() / float64(all)
	cells := make(tail.Distribution, top+1)
	for _, read := range g.Readings() {
		for i := range min(tail.Bin(int64(read.Count)), top) + 1 {
			cells[i] += read.Chance
		}
	}
	for i, p := range cells {
		if p == 0 {
			break
		}
		if i == len(r.cells) {
			r.cells = append(r.cells, 0)
		}
		r.cells[i] += p / float64(all)
	}
}

// slotBefore returns the last slot before a moment, and how far it lies on the way to
// the next.
func slotBefore(moment float64) (slot int, part float64) {
	root := slots * math.Sqrt(moment)
	slot = min(int(root), slots-1)
	return slot, root - float64(slot)
}

// excess returns the distribution of what a key with so many units of its own in a
// generation reads beyond them, at a moment of which now is the reading.
//
// A key reads the greater of its own count and its smallest cell, and
// counts on from there. What others had left in its cells when its j-th unit came is
// then kept for good: a reading of r adds r+1−j to its own count. So the key's excess is
// the greatest of those, of which the likeliest is taken: cells only rise, so they come
// together. Above the threshold a key counts in the table, and cells add no more.
func (c *curves) excess(now noise, moment float64, own, threshold int64) tail.Distribution {
	if c.adds && own > 0 && c.bursts {
		return c.added(moment)
	}
	if c.adds && own > 0 {
		return c.added(moment * math.Min(1, float64(threshold)/float64(own)))
	}
	t, passes := tail.Distribution{1}, 1.
	if own == 0 {
		passes = now.passes
	}
	for i := 1; passes*now.cells.AtLeast(own+tail.Floor(i)) > tail.Negligible; i++ {
		t = append(t, passes*now.cells.AtLeast(own+tail.Floor(i)))
	}
	for j := int64(1); j <= min(own, threshold); j += 1 + j/2 {
		for i, p := range c.arrival(moment, j, own) {
			if i == len(t) {
				t = append(t, 0)
			}
			t[i] = max(t[i], p)
		}
	}
	return t
}

// added returns the distribution of the excess in a single row: all that others have
// sent until the key was last counted there.
func (c *curves) added(last float64) (t tail.Distribution) {
	slot, part := slotBefore(last)
	before, after := &c.current[slot].cells, &c.current[slot+1].cells
	for i := 0; ; i++ {
		p := (1-part)*before.AtLeast(tail.Floor(i)) + part*after.AtLeast(tail.Floor(i))
		if p < tail.Negligible {
			return t
		}
		t = append(t, p)
	}
}

// came returns three moments that stand for when the j-th of so many units came, with
// weights of 1/6, 2/3 and 1/6. A burst is now, or at any moment of a generation that is
// over.
func (c *curves) came(moment float64, j, units int64) (at [3]float64) {
	switch {
	case c.bursts && moment < 1:
		return [3]float64{moment, moment, moment}
	case c.bursts:
		return [3]float64{0, 0.5, 1}
	}
	mean := float64(j) / float64(units+1)
	spread := math.Sqrt(3 * mean * (1 - mean) / float64(units+2))
	for k := range at {
		at[k] = moment * min(1, max(0, mean+float64(k-1)*spread))
	}
	return at
}

// arrival returns the distribution of the excess that a key has from what the j-th of so
// many units found in its cells.
//
// The unit came at a moment that is distributed as the j-th of so many random ones, a
// Beta distribution, for which three moments stand: cells rise with a power of time, so
// that the mean alone would tell too little.
func (c *curves) arrival(moment float64, j, units int64) tail.Distribution {
	came := c.came(moment, j, units)
	var t tail.Distribution
	for k, weight := range [3]float64{1. / 6, 2. / 3, 1. / 6} {
		slot, part := slotBefore(came[k])
		before, after := &c.current[slot], &c.current[slot+1]
		for i := 0; ; i++ {
			x := tail.Floor(i) + j - 1
			p := (1-part)*before.cells.AtLeast(x) + part*after.cells.AtLeast(x)
			if j == 1 {
				p *= (1-part)*before.passes + part*after.passes
			}
			if p < tail.Negligible {
				break
			}
			if i == len(t) {
				t = append(t, 0)
			}
			t[i] += weight * p
		}
	}
	return t
}
