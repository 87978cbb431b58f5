// Package recorded has a request of a trace as it is held in memory, so that who reads
// traces and who plans for them can hold it once.
package recorded

// Request is one, of a key by its number.
type Request struct {
	NS    int64 // unix time
	Key   uint32
	Units uint32
}
