//go:build amd64 || arm64

// Package prefetch has the processor's instruction that Go has no words for.
package prefetch

import "unsafe"

// Lines begins to fetch the cache lines at p and q, and does not wait for them. It neither reads
// nor changes what is there. The two may be the same; calls are what takes time.
//
//go:noescape
func Lines(p, q unsafe.Pointer)
