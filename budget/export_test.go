package budget

// ShardOf returns the index of a key's shard, and the keys that one has room for.
func (b *Budget) ShardOf(key string) (shard, keys int) {
	return int(b.hasher.String(key) >> 32 * uint64(len(b.shards)) >> 32), b.perShard - 1
}

// HasPlace reports whether the hold's place still has its id.
func (d Hold) HasPlace() bool { return d.b.holds[d.place].id.Load() == d.id }
