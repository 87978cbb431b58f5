package spec

// HeapUnit returns what an allocation of so many bytes is rounded up to a multiple of,
// a power of two: whole pages above 32 KiB, and below them steps at which the runtime
// has a size class.
func HeapUnit(bytes int) int {
	switch {
	case bytes > 32<<10:
		return 8 << 10
	case bytes > 20<<10:
		return 4 << 10
	case bytes > 4<<10:
		return 2 << 10
	}
	return 1 << 10
}

// HeapBytes returns what an allocation of so many bytes takes.
func HeapBytes(bytes int) int {
	unit := HeapUnit(bytes)
	return (bytes + unit - 1) &^ (unit - 1)
}
