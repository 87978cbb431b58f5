package heavyhitter

// Convert makes the words of a table of another layout, with narrower counts and as
// many buckets, those of t. Fingerprints lose bits, so those of two keys may become
// equal. Their entries then become one, and no entry stays complete.
func (t *Table) Convert(table []uint64, from *Table) {
	for ; len(table) > 0; table = table[BucketEntries:] {
		b := (*Bucket)(table)
		was, used := *b, 0
		*b = Bucket{}
	next:
		for _, e := range was {
			if e == 0 {
				continue
			}
			e = t.converted(e, from)
			for i := range used {
				if b[i]>>(t.shift&63) == e>>(t.shift&63) {
					b[i] = t.joined(b[i], e)
					continue next
				}
			}
			b[used] = e
			used++
		}
	}
}

// converted returns an entry of another table as one of t.
func (t *Table) converted(entry uint64, from *Table) uint64 {
	fingerprint := entry>>(from.shift&63)>>((t.shift-from.shift)&63) | 1
	return t.entry(fingerprint, [2]int64{from.Count(entry, 0), from.Count(entry, 1)}, [2]int64{from.Offered(entry, 0), from.Offered(entry, 1)})
}

// joined returns the entry of two keys with one fingerprint.
func (t *Table) joined(a, b uint64) uint64 {
	var counts, offered [2]int64
	for age := range counts {
		counts[age] = max(t.Count(a, age), t.Count(b, age))
		offered[age] = min(t.Offered(a, age), t.Offered(b, age))
	}
	return t.entry(a>>(t.shift&63), counts, offered)
}

// entry returns an entry of a fingerprint, with what it has counted and what was
// offered by age.
func (t *Table) entry(fingerprint uint64, counts, offered [2]int64) uint64 {
	entry := fingerprint << (t.shift & 63)
	for age := range counts {
		most := int64(1)<<(t.offeredBits&63) - 1
		entry |= uint64(counts[age]) << (uint8(age) * t.bits & 63)
		entry |= uint64(min(most, offered[age]>>(t.offeredStep&63))) << ((2*t.bits + uint8(age)*t.offeredBits) & 63)
	}
	return entry
}
