package engine

import (
	"math"
	"math/bits"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/rotating"
)

// looked tells whether a request is to be taken down. What the shard has admitted draws it, so that it does not hang on
// what this one costs.
func (r request) looked() bool { return r.s.admitted*golden>>(64-6) == 0 } // one in lookEvery

// look takes down a request for n units at a limit, of a key that reads so many in the current generation, by that or by
// its entry if it has one.
func (r sampler) look(p rotating.Position, n, limit, current int64, entry *uint64) {
	if entry != nil && r.e.heavy.CountsOffered() {
		if innocent(window(r).asked(p, *entry), limit) {
			admit(r.e.flooded, r.h, sight{n: n, kind: byEntry, stranger: noKind, denied: noKind, met: noKind})
		}
		return
	}
	used, doors := r.e.limit-window(r).usage(p, current+window(r).former(p.Generation), entry, all, true).free, allDoors
	if r.e.guarded {
		doors = r.doors(p)
		if current == 0 { // the request itself has made it known
			doors &^= 1
		}
		if doors == 0 && used > 0 { // a predecessor has counted it
			doors = 1 << (r.e.Ring.Buffers() - 1)
		}
	}
	r.see(p, n, n, used, r.e.limit-limit, doors)
}

// strangersTried are those that are read to find one which would be admitted, as the key is.
const strangersTried = 8

// see takes down a request for n units, which are so many parts of a quota, of a key that some doorkeepers know and that
// reads others, beside some that are held back.
func (r sampler) see(p rotating.Position, n, parts, used, held int64, doors uint64) {
	sc := scaleOf(r.e)
	k := sc.known(doors)
	s := sight{kind: newcomer, stranger: noKind, denied: noKind, low: held > 0, met: noKind}
	draw, most := r.draw(), sc.whole()-held-parts
	stranger := r.stranger(p, draw, doors)
	if stranger > most && k != 0 {
		s.denied = sc.deniedGrade(k)
	}
	for tried := 1; stranger > most && tried < strangersTried; tried++ {
		draw *= golden
		stranger = r.stranger(p, draw, doors)
	}
	if innocent(used-stranger, sc.whole()-held) {
		s.n = n
		s.met = sc.meeting(doors)
	} else if s.low {
		return
	}
	if k != 0 {
		s.kind = sc.first(k) + sc.gradeOf(held+used+parts, draw*golden)
		if stranger <= most {
			s.stranger = sc.first(k) + sc.gradeOf(stranger, draw)
		}
	}
	if r.e.guarded {
		s.passes = r.passesDoors(p, draw)
	}
	admit(r.e.flooded, r.h, s)
}

// stranger returns what a key that has used nothing reads in the cells, in parts of a quota, and where these are guarded one
// that some doorkeepers know: its first unit is there.
func (r sampler) stranger(p rotating.Position, draw, doors uint64) (parts int64) {
	r.h = keyhash.Mix(r.h, draw)
	if !r.e.guarded {
		return r.e.limit - window(r).used(p, nil).free
	}
	for age := range r.e.Ring.Buffers() {
		if doors>>age&1 != 0 {
			first, h := window(r).buffer(age), window(r).hashAt(p.Generation-int64(age))
			parts += r.e.Weighted(max(1, int64(r.e.cells.Estimate(r.e.memory, first+r.e.cellsFirst, h))), age, p.Elapsed)
		}
	}
	return parts
}

// passesDoors tells which doorkeepers a stranger passes.
func (r sampler) passesDoors(p rotating.Position, draw uint64) known {
	r.h = keyhash.Mix(r.h, draw)
	return scaleOf(r.e).known(r.doors(p))
}

// allDoors are the doorkeepers of all ages.
const allDoors uint64 = math.MaxUint64

// doors returns which doorkeepers know the key: bit 0 is that of the current generation, bit 1 the one before, and so on.
func (r sampler) doors(p rotating.Position) (doors uint64) {
	w := window(r)
	for age := range r.e.Ring.Buffers() {
		if r.e.door.Test(r.e.memory, w.buffer(age), w.hashAt(p.Generation-int64(age))) {
			doors |= 1 << age
		}
	}
	return doors
}

// known returns the case of a key that some doorkeepers know.
func (l *scale) known(doors uint64) (k known) {
	if !l.guarded {
		return allKnown
	}
	for age := range l.Ring.Buffers() {
		if doors>>age&1 != 0 {
			k |= l.where(age)
		}
	}
	return k
}

// meeting returns the grade of how many generations that count in full have met a key, by its doorkeepers: whether the current
// one has, and which part of the others. It returns noKind if none has, or if there is just one.
func (l *scale) meeting(doors uint64) int {
	others := l.Ring.Buffers() - 2
	if doors &= 1<<(l.Ring.Buffers()-1) - 1; doors == 0 || others < 1 {
		return noKind
	}
	return int(doors&1)*meetingParts + (bits.OnesCount64(doors>>1)*(meetingParts-1)+others/2)/others
}

// metIn returns the ages of generations that have met a key known by k, by that grade: those of a part are evenly spread.
func (l *scale) metIn(k known, grade int) []bool {
	met, others := make([]bool, l.Ring.Buffers()), l.Ring.Buffers()-2
	n := (grade%meetingParts*others + (meetingParts-1)/2) / (meetingParts - 1)
	if grade == 0 {
		n = 1 // at least, as the current one has not
	}
	for age := range met {
		switch {
		case k&l.where(age) == 0:
		case l.where(age) == oldestKnown:
			met[age] = true
		case age == 0:
			met[age] = grade >= meetingParts
		default:
			met[age] = age*n%others < n
		}
	}
	return met
}
