package main

import (
	"encoding/binary"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// library is this library, as its users get it for so many bytes. A key's hash is its
// name.
type library struct{ limiter *sketchlimit.Limiter }

// epoch is the beginning of the first window, unix time in s.
const epoch = 1_700_000_040

func newLibrary(k kind, bytes int) (*library, error) {
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: limit, Window: window, MemoryBytes: bytes, Seed: 1,
		Algorithm: map[kind]sketchlimit.Algorithm{fixed: sketchlimit.FixedWindow, sliding: sketchlimit.SlidingWindow}[k],
		Clock:     func() time.Time { return time.Unix(epoch, 0) },
	})
	return &library{l}, err
}

func (l *library) bits() int { return 8 * l.limiter.MemoryBytes() }

func (l *library) take(h uint64, at moment) (bool, uint32) {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], h)
	d := l.limiter.Do(sketchlimit.Request{Bytes: key[:], Time: time.Unix(epoch, int64(at.window)*window+at.elapsed)})
	used := limit - uint32(d.Remaining)
	if d.Allowed {
		used--
	}
	return d.Allowed, used
}
