package main

import (
	"io"
	"iter"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/rules"
)

// subject is the limiter under test, or a variant with a defect that the bench must find.
type subject interface {
	Allow(key string) bool
	AllowN(key string, n int) bool
	Take(key string, n int) sketchlimit.Decision
	TakeAt(now time.Time, key string, n int) sketchlimit.Decision
	Peek(key string) sketchlimit.Decision
	Do(r sketchlimit.Request) sketchlimit.Decision
	Reserve(r sketchlimit.Request) (time.Duration, error)
	FalseDenialRate(n, limit int) float64
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
	Take(key string, n int) sketchlimit.Decision
	Do(r sketchlimit.Request) sketchlimit.Decision
}

// sharing is what the bench needs of a Share, or of a broken one.
type sharing interface {
	Parts() int
	PartWords() int
	CellBits() int
	Generations() (current int64, kept int)
	Own(part int, generation int64, to []uint64) bool
	AddOthers(part int, generation int64, counts iter.Seq2[int, uint32]) bool
	SetOthers(part int, generation int64, words []uint64) bool
	Weigh()
}

// maker makes what is tried.
type maker struct {
	limiter func(sketchlimit.Config) (subject, error)
	group   func(common []bool, limiters ...subject) (group, error) // those that are common count all requests together
	share   func(subject) (sharing, error)
	budget  func(budget.Config) (purse, error)
	rules   func(rules.Options, rules.File) (ruler, error)
	child   []string // how a process begins that serves the kind process
}

// real makes this library's.
var real = maker{
	budget: newPurse,
	rules:  newRuler,
	limiter: func(c sketchlimit.Config) (subject, error) {
		l, err := sketchlimit.New(c)
		if err != nil {
			return nil, err
		}
		return l, nil
	},
	group: func(common []bool, subjects ...subject) (group, error) {
		limiters := make([]sketchlimit.Member, len(subjects))
		for i, s := range subjects {
			limiters[i] = unwrap(s)
			if common != nil && common[i] {
				limiters[i] = sketchlimit.Global(unwrap(s))
			}
		}
		g, err := sketchlimit.NewGroup(limiters...)
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
		return share, nil
	},
}

// unwrap returns the limiter in a broken one.
func unwrap(s subject) *sketchlimit.Limiter {
	if w, ok := s.(interface{ unwrap() *sketchlimit.Limiter }); ok {
		return w.unwrap()
	}
	return s.(*sketchlimit.Limiter)
}

// setLowest says which limit is the lowest that a request may come with.
func setLowest(c *sketchlimit.Config, limits []int) {
	c.LowestLimit = c.Limit
	for _, limit := range limits {
		c.LowestLimit = min(c.LowestLimit, limit)
	}
}
