package engine

import (
	"fmt"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/cms"
	"github.com/sketchlimit/sketchlimit/internal/striped"
)

// New returns an engine of checked dimensions that has counted nothing and seen no time. It counts in flooded the
// requests that it denies without a lock, and what a sample of others cost.
func New(rule Rule, d Dimensions, seed uint64, flooded *striped.Counter) (*Engine, error) {
	e := &Engine{algorithm: algorithmOf(&rule), dims: d, shards: make([]shard, d.Shards), flooded: flooded, audit: none}
	var err error
	if e.layout, err = newLayout(rule, d, seed); err != nil {
		return nil, err
	}
	e.memory = make([]uint64, d.Shards*e.size)
	for i := range e.shards {
		e.shards[i].number = never
	}
	return e, nil
}

// algorithmOf returns the algorithm of a rule.
func algorithmOf(rule *Rule) algorithm {
	if rule.IsBucket() {
		return buckets{}
	}
	return windows{}
}

// Check refuses dimensions that no engine of the rule can have. Its errors name the field of a sketchlimit.Plan.
func (d *Dimensions) Check(rule *Rule) error {
	if d.Shards < 1 || d.Shards > MaxShards {
		return fmt.Errorf("sketchlimit: Plan.Shards %d, must be 1 … %d", d.Shards, MaxShards)
	}
	if err := algorithmOf(rule).check(d, rule); err != nil {
		return err
	}
	if _, err := cms.Words(d.Depth, d.Width, d.CellBits); err != nil && !d.doorsAlone(rule) && !rule.IsBucket() {
		return fmt.Errorf("sketchlimit: Plan: %w", err)
	}
	if total := float64(d.Shards) * d.ShardMemory(rule); total > MaxMemory {
		return fmt.Errorf("sketchlimit: Plan of %.3g bytes, must be at most %d", total, MaxMemory)
	}
	return nil
}

// Bytes returns what an engine of checked dimensions takes of the heap, everything included.
func (d *Dimensions) Bytes(rule *Rule) (int, error) {
	l, err := newLayout(*rule, *d, 0)
	if err != nil {
		return 0, err
	}
	return SelfBytes + d.Shards*ShardBytes + HeapBytes(8*d.Shards*l.size), nil
}

// Bytes returns what the engine takes of the heap, everything included.
func (e *Engine) Bytes() int {
	return SelfBytes + len(e.shards)*ShardBytes + HeapBytes(8*len(e.memory))
}

// ShardBytes are the bytes that a shard takes beside its memory.
const ShardBytes = int(unsafe.Sizeof(shard{}))

// SelfBytes is what an Engine takes beside its shards.
const SelfBytes = (int(unsafe.Sizeof(Engine{})) + 63) &^ 63 // the runtime's size classes from 512 to 1024 bytes
