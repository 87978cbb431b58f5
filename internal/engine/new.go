package engine

import (
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/spec"
	"github.com/sketchlimit/sketchlimit/internal/striped"
)

// New returns an engine of checked dimensions that has counted nothing and seen no time. It counts in flooded the
// requests that it denies without a lock, and what a sample of others cost.
func New(rule spec.Rule, d spec.Dimensions, seed uint64, flooded *striped.Counter) (*Engine, error) {
	e := &Engine{algorithm: algorithmOf(&rule), dims: d, shards: make([]shard, d.Shards), flooded: flooded, Audit: audit.None}
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
func algorithmOf(rule *spec.Rule) algorithm {
	if rule.IsBucket() {
		return buckets{}
	}
	return windows{}
}

// BytesOf returns what an engine of checked dimensions takes of the heap, everything included.
func BytesOf(rule *spec.Rule, d *spec.Dimensions) (int, error) {
	l, err := newLayout(*rule, *d, 0)
	if err != nil {
		return 0, err
	}
	return SelfBytes + d.Shards*ShardBytes + spec.HeapBytes(8*d.Shards*l.size), nil
}

// Bytes returns what the engine takes of the heap, everything included.
func (e *Engine) Bytes() int {
	return SelfBytes + len(e.shards)*ShardBytes + spec.HeapBytes(8*len(e.memory))
}

// ShardBytes are the bytes that a shard takes beside its memory.
const ShardBytes = int(unsafe.Sizeof(shard{}))

// SelfBytes is what an Engine takes beside its shards.
const SelfBytes = (int(unsafe.Sizeof(Engine{})) + 63) &^ 63 // the runtime's size classes from 512 to 1024 bytes
