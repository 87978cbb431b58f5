package sketchlimit

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/savestate"
	"github.com/sketchlimit/sketchlimit/internal/sizing"
	"github.com/sketchlimit/sketchlimit/rotating"
)

var (
	// ErrSnapshot is wrapped by the errors of [Limiter.ReadFrom] and [Limiter.Load] for
	// a snapshot that is damaged or of another limiter. The limiter is then as it was
	// before.
	ErrSnapshot = savestate.Err
	// ErrSnapshotMismatch, which wraps ErrSnapshot, is returned for a snapshot of another
	// limiter: of another Config, hash, key, seed or version.
	ErrSnapshotMismatch = savestate.ErrMismatch
)

// WriteTo writes a snapshot of the limiter, which [Limiter.ReadFrom] restores: every
// unit that was admitted before WriteTo began, and some of those since. It is as long
// as MemoryBytes or a little less, and the same on machines of either byte order.
//
// Decisions go on: WriteTo locks one shard at a time, for as long as it takes to copy
// some KiB (or what Config.Plan makes of a shard), and writes without a lock. It pauses
// every 256 KiB, which takes longer where decisions keep all processors busy.
//
// A snapshot holds no keys, but it holds the seed: with the seed of a KeyedHash or
// XXHash, a client could choose keys that collide. Keep it secret.
func (l *Limiter) WriteTo(w io.Writer) (int64, error) {
	n, err := l.stages().Write(w, l.hasher.String(savestate.Text))
	if err != nil {
		return n, fmt.Errorf("sketchlimit: %w", err)
	}
	return n, nil
}

func (l *Limiter) stages() savestate.Stages {
	if l.growth != nil {
		return l.growth.Stages()
	}
	return savestate.Stages{Engine: l.engine.Load()}
}

// ReadFrom restores a snapshot, which must be all that r has, into a limiter that has
// not admitted anything yet. The limiter must have the Config of the one that was
// saved; Clock may differ, and with MaxMemoryBytes it only needs enough room. No
// decision may be made meanwhile; Stats may be read.
//
// Time goes on between the snapshot and its restoration: generations that have left the
// window are not restored, and buckets fill. The latest time of the saved limiter
// counts as seen, see [WindowManager]. A key that was admitted u units after WriteTo
// began can be admitted u units more than its limit; a snapshot after the last decision
// loses nothing. With Config.Seed 0 the limiter takes the snapshot's seed.
//
// On an error that wraps [ErrSnapshot] the limiter is as it was. ReadFrom needs as much
// memory as the limiter while it runs.
func (l *Limiter) ReadFrom(r io.Reader) (int64, error) {
	n, err := l.restore(r)
	if err != nil {
		return n, fmt.Errorf("sketchlimit: %w", err)
	}
	return n, nil
}

func (l *Limiter) restore(r io.Reader) (int64, error) {
	most := 0
	if l.growth != nil {
		most = l.config.MaxMemoryBytes - growthBytes - sizing.Overhead - sizing.AuditBytes(l.audit)
	}
	var hasher keyhash.Hasher
	restored, newest, n, err := l.stages().Read(r, most, func(seed, hash uint64) (err error) {
		hasher, err = l.hasher.For(seed, l.drawn, savestate.Text, hash)
		return err
	})
	if err != nil {
		return n, err
	}
	// A clock that steps back waits for as long as what is kept; but not for years.
	now, _ := l.windows.lookNow()
	if rule := l.config.rule(); newest > now.Generation+int64(rule.Generations()) {
		return n, fmt.Errorf("%w: from the future: of %v", ErrSnapshot, time.Unix(0, newest*rule.Timeline.Length()).UTC())
	}
	if l.growth != nil {
		err = l.growth.Become(restored)
	} else {
		err = restored.Become(l.engine.Load())
	}
	if err != nil {
		return n, err
	}
	l.hasher = hasher
	l.audit.Forget()
	if newest > math.MinInt64/2 { // it has seen a time
		l.windows.reach(rotating.Position{Generation: newest})
	}
	return n, nil
}
