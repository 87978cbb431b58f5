//go:build amd64 || arm64

// Package prefetch has the processor's instruction that Go has no words for.
package prefetch

import "unsafe"

// Line begins to fetch the cache line at a pointer, and does not wait for it. It
// neither reads nor changes what is there.
//
//go:noescape
func Line(p unsafe.Pointer)

// Lines is Line for several pointers, of which some may be the same: calls are what
// takes time.
//
//go:noescape
func Lines(p0, p1, p2, p3, p4, p5, p6 unsafe.Pointer)
