package main

// reliable is ReliableSketch: Y. Wu, H. Wu, X. Liu, Y. Zhao, T. Yang, K. Yang, S. Wang,
// L. Miao and G. Xie, "Approaching 100% Confidence in Stream Summary through
// ReliableSketch", ICDE 2024. A bucket elects the key that it counts, and also counts
// the units of all others, which bound its error. A bucket with too many of those is
// locked, and what comes of other keys goes on to the next layer. Before the buckets
// there is a filter for light keys with conservative update. Here the last layer locks
// no bucket, so that nothing is lost.
//
//	bucket: fingerprint | units of others (7 bits) | units of the key (7 bits)
type reliable struct {
	filter rows
	layers []reliableLayer
}

type reliableLayer struct {
	entries
	lock uint32 // units of others that lock a bucket
}

const (
	reliableLayers = 6
	reliableCount  = 1<<7 - 1
)

// newReliable takes the bytes of a bucket, the bits of the filter's cells, the memory
// of the filter in percent, and the error that all layers may make together. From layer
// to layer the buckets fall by half and the error to 2/5, as in the paper.
func newReliable(bytes int, s setting) sketch {
	filter := bytes * s[2] / 100
	r := &reliable{filter: newRows(filter, 2, s[1])}
	layer, lock := (bytes-filter)/2, float64(s[3])*3/5
	for i := range reliableLayers {
		if i == reliableLayers-1 {
			layer, lock = 2*layer, reliableCount
		}
		r.layers = append(r.layers, reliableLayer{newEntries(layer, s[0], 1), uint32(max(lock, 1))})
		layer, lock = layer/2, lock*2/5
	}
	return r
}

func (r *reliable) bits() int {
	n := r.filter.bits()
	for i := range r.layers {
		n += r.layers[i].bits()
	}
	return n
}

func (r *reliable) clear() {
	r.filter.clear()
	for i := range r.layers {
		r.layers[i].clear()
	}
}

func (r *reliable) estimate(h uint64) uint32 {
	sum := r.filter.estimate(h)
	if sum < r.filter.max {
		return sum
	}
	h = rehash(h)
	for i := range r.layers {
		l := &r.layers[i]
		h = next(h)
		print, yes, no := split(l.get(pick(h, l.count())))
		if print == l.print(h, 14) {
			return sum + yes
		}
		if sum += no; no < l.lock {
			break
		}
	}
	return sum
}

func (r *reliable) add(h uint64, _ uint32) {
	if v := r.filter.estimate(h); v < r.filter.max {
		r.filter.raise(h, v+1)
		return
	}
	h = rehash(h)
	for i := range r.layers {
		l := &r.layers[i]
		h = next(h)
		if at := pick(h, l.count()); l.vote(at, l.print(h, 14), i == len(r.layers)-1) {
			return
		}
	}
}

// vote counts a unit of a key in a bucket, unless that is locked.
func (l *reliableLayer) vote(at uint64, key uint32, last bool) bool {
	print, yes, no := split(l.get(at))
	switch {
	case print == key:
		yes = min(yes+1, reliableCount)
	case no >= l.lock && !last:
		return false
	default:
		if no = min(no+1, reliableCount); no >= yes {
			print, yes, no = key, no, yes
		}
	}
	l.set(at, print<<14|no<<7|yes)
	return true
}

// split returns the parts of a bucket.
func split(bucket uint32) (print, yes, no uint32) {
	return bucket >> 14, bucket & reliableCount, bucket >> 7 & reliableCount
}
