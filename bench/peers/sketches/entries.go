package main

// entries is an array of words of 2 to 4 bytes: fingerprints with counters.
type entries struct {
	bytes []byte
	size  uint64 // bytes of an entry
}

// newEntries returns as many entries as fit, in whole groups.
func newEntries(bytes, size, group int) entries {
	return entries{make([]byte, bytes/(size*group)*size*group), uint64(size)}
}

func (e *entries) count() uint64 { return uint64(len(e.bytes)) / e.size }

func (e *entries) bits() int { return 8 * len(e.bytes) }

func (e *entries) clear() { clear(e.bytes) }

func (e *entries) get(i uint64) (v uint32) {
	for at, b := range e.bytes[i*e.size:][:e.size] {
		v |= uint32(b) << (8 * at)
	}
	return v
}

func (e *entries) set(i uint64, v uint32) {
	for at := range e.bytes[i*e.size:][:e.size] {
		e.bytes[i*e.size+uint64(at)] = byte(v >> (8 * at))
	}
}

// print returns the key's fingerprint, of the bits that others leave of an entry.
func (e *entries) print(h uint64, others uint64) uint32 {
	return uint32(next(h) & (1<<(8*e.size-others) - 1))
}
