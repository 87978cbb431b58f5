package main

// elastic is Elastic Sketch: T. Yang, J. Jiang, P. Liu, Q. Huang, J. Gong, Y. Zhou, R.
// Miao, X. Li and S. Uhlig, "Elastic Sketch: Adaptive and Fast Network-wide
// Measurements", SIGCOMM 2018. It is the software version: buckets of entries that vote
// for their keys and one count of votes against them, and a light part of count-min
// rows. A key that loses its entry is counted in the light part.
//
// Entries hold fingerprints. So that a key can be evicted by its entry alone, bucket
// and fingerprint decide where it is in the light part.
//
//	entry: fingerprint | units were evicted (1 bit) | votes (7 bits)
type elastic struct {
	heavy   entries
	against []uint16 // votes against the keys of a bucket
	light   rows
}

const (
	elasticBucket = 7 // entries, as in the paper
	ostracism     = 8 // votes against a key for each of its own that evict it, as in the paper
	elasticVotes  = 1<<7 - 1
	elasticFlag   = 1 << 7
)

// newElastic takes the bytes of an entry, the memory of the heavy part in percent, and
// the rows of the light one.
func newElastic(bytes int, s setting) sketch {
	buckets := bytes * s[1] / 100 / (elasticBucket*s[0] + 2)
	heavy := buckets * elasticBucket * s[0]
	return &elastic{
		heavy: newEntries(heavy, s[0], elasticBucket), against: make([]uint16, buckets),
		light: newRows(bytes-heavy-2*buckets, s[2], 8),
	}
}

func (e *elastic) bits() int { return e.heavy.bits() + 16*len(e.against) + e.light.bits() }

func (e *elastic) clear() {
	e.heavy.clear()
	clear(e.against)
	e.light.clear()
}

// find returns the key's bucket and fingerprint, and its place: its entry, otherwise
// one that is free, otherwise the one with the fewest votes.
func (e *elastic) find(h uint64) (bucket uint64, print uint32, place uint64, entry uint32) {
	bucket, print = pick(h, uint64(len(e.against))), e.heavy.print(h, 8)
	place, entry = bucket*elasticBucket, e.heavy.get(bucket*elasticBucket)
	for i := bucket * elasticBucket; i < (bucket+1)*elasticBucket; i++ {
		v := e.heavy.get(i)
		if v>>8 == print && v&elasticVotes > 0 {
			return bucket, print, i, v
		}
		if v&elasticVotes < entry&elasticVotes {
			place, entry = i, v
		}
	}
	return bucket, print, place, entry
}

// lightHash returns the hash in the light part of a key that its bucket knows by its
// fingerprint.
func lightHash(bucket uint64, print uint32) uint64 { return next(next(bucket<<32 | uint64(print))) }

func (e *elastic) estimate(h uint64) uint32 {
	bucket, print, _, entry := e.find(h)
	if entry&elasticVotes == 0 || entry>>8 != print {
		return e.light.estimate(lightHash(bucket, print))
	}
	votes := entry & elasticVotes
	if entry&elasticFlag != 0 {
		votes += e.light.estimate(lightHash(bucket, print))
	}
	return votes
}

func (e *elastic) add(h uint64, _ uint32) {
	bucket, print, place, entry := e.find(h)
	votes := entry & elasticVotes
	switch {
	case votes == 0:
		e.heavy.set(place, print<<8|1)
		return
	case entry>>8 == print:
		e.heavy.set(place, entry+1)
		return
	}
	e.against[bucket]++
	if uint32(e.against[bucket]) < ostracism*votes {
		e.light.grow(lightHash(bucket, print), 1)
		return
	}
	e.light.grow(lightHash(bucket, entry>>8), votes)
	e.heavy.set(place, print<<8|elasticFlag|1)
	e.against[bucket] = 0
}
