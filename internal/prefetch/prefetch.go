//go:build amd64 || arm64

// Package prefetch has the processor's instruction that Go has no words for.
package prefetch

import "unsafe"

// Lines begins to fetch the cache lines at the pointers, and does not wait for them. It neither
// reads nor changes what is there. Some may be the same; calls are what takes time.
//
//go:noescape
func Lines(p0, p1, p2, p3, p4, p5, p6 unsafe.Pointer)
