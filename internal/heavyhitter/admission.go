package heavyhitter

// Either returns the two buckets in which a key may have its entry where keys compete
// for them: the usual one, and one by another hash, which takes it where that is full.
// Fewer heavy keys than places then find room nearly always: of 16 places in one bucket
// alone, a third would have to be free.
func (t *Table) Either(words []uint64, first int, h, other uint64) [2]*Bucket {
	return [2]*Bucket{t.Bucket(words, first, h), t.Bucket(words, first, other)}
}

// FindEither returns the key's entry in one of two buckets, or nil.
func (t *Table) FindEither(either [2]*Bucket, h uint64) *uint64 {
	for _, b := range either {
		if entry := t.Find(b, h); entry != nil {
			return entry
		}
	}
	return nil
}

// InsertEither gives a key an entry in one of two buckets, or returns nil if both are
// full.
func (t *Table) InsertEither(either [2]*Bucket, h uint64) *uint64 {
	for _, b := range either {
		if t.HasRoom(b) {
			return t.Insert(b, h, 0)
		}
	}
	return nil
}

// Oldest returns the entry that was made or renewed first.
func (b *Bucket) Oldest() *uint64 { return &b[0] }

// Renew makes the oldest entry the youngest.
func (b *Bucket) Renew() {
	oldest := b[0]
	copy(b[:], b[1:])
	b[BucketEntries-1] = oldest
}

// DropOldest makes room for one entry.
func (b *Bucket) DropOldest() {
	copy(b[:], b[1:])
	b[BucketEntries-1] = 0
}

// Yields reports whether an entry is given to another key, by a draw of 64 bits: always
// while its key has asked for less than a twenty-fourth of the limit, and beyond that
// the more rarely, the more it has asked for. That is randomised admission (Ben Basat,
// Einziger, Friedman, Kassner, INFOCOM 2017). The table knows whether the key has asked
// since its entry was the oldest before: below half of the limit one that has not is
// likelier to yield, since who sends much at once and then nothing is not heavy. Not at
// once, since heavy keys may send like that, too.
func (t *Table) Yields(entry *uint64, asked, limit int64, draw uint64) bool {
	few := max(limit/24, 1)
	if asked < few {
		return true
	}
	part := float64(few) / float64(asked)
	chance := part * part * part / 4
	if !t.TestAndClearReference(entry) && 2*asked < limit {
		chance = 2 * part
	}
	return float64(draw>>11)*0x1p-53 < chance
}
