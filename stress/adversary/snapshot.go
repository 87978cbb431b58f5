package main

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/sketchlimit/sketchlimit"
)

type snapshot struct {
	bytes  []byte
	oracle *oracle
	seen   int64

	above    map[int]int64
	allAbove int64
}

// save takes a snapshot.
func (w *world) save(o op) {
	n := w.nodes[o.node]
	n.clock.Store(o.at)
	var b bytes.Buffer
	written, err := n.limiter.WriteTo(&b)
	if err != nil || written != int64(b.Len()) {
		w.fail("snapshot", o, "WriteTo: %d of %d bytes, %v", written, b.Len(), err)
		return
	}
	n.saved = &snapshot{b.Bytes(), n.oracle.clone(), n.seen, maps.Clone(n.above), n.allAbove}
	if o.arg != 0 { // through a file, which takes longer
		path := filepath.Join(w.folder(o), "snapshot")
		if err := n.limiter.Save(path); err != nil {
			w.fail("snapshot", o, "Save: %v", err)
			return
		}
		if n.saved.bytes, err = os.ReadFile(path); err != nil {
			w.fail("snapshot", o, "Save: %v", err)
		}
		os.RemoveAll(filepath.Dir(path))
	}
}

func (w *world) folder(o op) string {
	path, err := os.MkdirTemp("", "adversary")
	if err != nil {
		w.fail("snapshot", o, "%v", err)
	}
	return path
}

// restore replaces a limiter by a new one made of its latest snapshot. What was admitted
// since is forgotten, by the exact algorithm as well.
func (w *world) restore(o op) {
	n := w.nodes[o.node]
	if n.saved == nil || n.share != nil {
		return
	}
	old, now := n.limiter, max(o.at, n.seen)
	same := slices.Equal(n.saved.bytes, w.bytes(old))
	n.clock.Store(now)
	limiter, err := w.make.limiter(n.config)
	if err != nil {
		w.fail("snapshot", o, "New: %v", err)
		return
	}
	if _, err := limiter.ReadFrom(bytes.NewReader(n.saved.bytes)); err != nil {
		limiter.Close()
		w.fail("snapshot", o, "ReadFrom: %v", err)
		return
	}
	if same && n.config.MaxMemoryBytes == 0 {
		for key := range 8 {
			one := op{node: o.node, key: key, n: 1}
			was := n.peek(one, now)
			is := limiter.Do(sketchlimit.Request{Key: name(key), Time: at(now), Peek: true})
			if is != was && (n.oracle.scale == nil || is.Remaining > was.Remaining || is.RetryAfter < was.RetryAfter) { // a bucket may be rounded
				w.fail("snapshot", one, "restored %+v, was %+v", is, was)
			}
		}
	}
	n.limiter, n.oracle, n.seen, n.tooLow, n.burst.mixed = limiter, n.saved.oracle.clone(), n.saved.seen, 0, true
	n.above, n.allAbove = maps.Clone(n.saved.above), n.saved.allAbove
	if n.seen != math.MinInt64 {
		// A snapshot has the times of what was counted. The latest that was seen may be
		// later.
		limiter.TakeAt(at(n.seen), name(0), 0)
	}
	old.Close()
	if err := w.join(); err != nil {
		w.fail("group", o, "NewGroup: %v", err)
	}
}

func (w *world) bytes(l subject) []byte {
	var b bytes.Buffer
	l.WriteTo(&b)
	return b.Bytes()
}
