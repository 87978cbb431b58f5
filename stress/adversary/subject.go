package main

import (
	"io"
	"net/netip"
	"reflect"
	"time"

	"github.com/sketchlimit/sketchlimit"
)

// subject is the limiter under test, or a broken one that the bench must find out.
type subject interface {
	Allow(key string) bool
	AllowN(key string, n int) bool
	Take(key string, n int) sketchlimit.Decision
	TakeAt(now time.Time, key string, n int) sketchlimit.Decision
	TakeBytes(key []byte, n int) sketchlimit.Decision
	TakeBytesAt(now time.Time, key []byte, n int) sketchlimit.Decision
	TakeAddr(key netip.Addr, n int) sketchlimit.Decision
	TakeAddrAt(now time.Time, key netip.Addr, n int) sketchlimit.Decision
	TakeLimit(key string, n, limit int) sketchlimit.Decision
	TakeLimitAt(now time.Time, key string, n, limit int) sketchlimit.Decision
	TakeLimitBytes(key []byte, n, limit int) sketchlimit.Decision
	TakeLimitBytesAt(now time.Time, key []byte, n, limit int) sketchlimit.Decision
	TakeLimitAddr(key netip.Addr, n, limit int) sketchlimit.Decision
	TakeLimitAddrAt(now time.Time, key netip.Addr, n, limit int) sketchlimit.Decision
	Peek(key string) sketchlimit.Decision
	PeekAt(now time.Time, key string, n int) sketchlimit.Decision
	Reserve(key string, n int) (time.Duration, bool)
	ReserveAt(now time.Time, key string, n int) (time.Duration, bool)
	Stats() sketchlimit.Stats
	WriteTo(w io.Writer) (int64, error)
	ReadFrom(r io.Reader) (int64, error)
	Save(path string) error
	Load(path string) error
	Close() error
}

// group is several limiters that a request must pass at once, or a broken one.
type group interface {
	Allow(key string) bool
	Take(key string, n int) (sketchlimit.Decision, int)
	TakeAt(now time.Time, key string, n int) (sketchlimit.Decision, int)
	TakeBytes(key []byte, n int) (sketchlimit.Decision, int)
	TakeAddr(key netip.Addr, n int) (sketchlimit.Decision, int)
}

// sharing is what the bench needs of a Share, or of a broken one.
type sharing interface {
	Parts() int
	PartWords() int
	CellBits() int
	Generations() (current int64, kept int)
	Own(part int, generation int64, to []uint64) bool
	AddOthers(part int, generation int64, counts func(func(int, uint32) bool)) bool
	SetOthers(part int, generation int64, words []uint64) bool
	Weigh()
}

// maker makes what is tried.
type maker struct {
	limiter func(sketchlimit.Config) (subject, error)
	group   func(...subject) (group, error)
	share   func(subject) (sharing, error)
}

// real makes this library's.
var real = maker{
	limiter: func(c sketchlimit.Config) (subject, error) {
		l, err := sketchlimit.New(c)
		if err != nil {
			return nil, err
		}
		return l, nil
	},
	group: func(subjects ...subject) (group, error) {
		limiters := make([]*sketchlimit.Limiter, len(subjects))
		for i, s := range subjects {
			limiters[i] = unwrap(s)
		}
		g, err := sketchlimit.All(limiters...)
		if err != nil {
			return nil, err
		}
		return g, nil
	},
	share: func(s subject) (sharing, error) {
		share, err := unwrap(s).Share()
		if err != nil {
			return nil, err
		}
		return realShare{share}, nil
	},
}

// realShare gives AddOthers the type of its iterator in full.
type realShare struct{ *sketchlimit.Share }

func (s realShare) AddOthers(part int, generation int64, counts func(func(int, uint32) bool)) bool {
	return s.Share.AddOthers(part, generation, counts)
}

// unwrap returns the limiter in a broken one.
func unwrap(s subject) *sketchlimit.Limiter {
	if w, ok := s.(interface{ unwrap() *sketchlimit.Limiter }); ok {
		return w.unwrap()
	}
	return s.(*sketchlimit.Limiter)
}

// limitPeeker is a limiter that tells beforehand what a request with a limit of its own
// would be told. Those that do are held against it.
type limitPeeker interface {
	PeekLimitAt(now time.Time, key string, n, limit int) sketchlimit.Decision
}

// rater is a limiter that tells the chance that a new key is denied n units at a limit.
type rater interface {
	FalseDenialRate(n, limit int) float64
}

// setLowest says which limit is the lowest that a request may come with, where a Config
// can say that.
func setLowest(c *sketchlimit.Config, limits []int) {
	f := reflect.ValueOf(c).Elem().FieldByName("LowestLimit")
	if !f.IsValid() {
		return
	}
	lowest := c.Limit
	for _, limit := range limits {
		if limit > 0 {
			lowest = min(lowest, limit)
		}
	}
	f.SetInt(int64(lowest))
}
