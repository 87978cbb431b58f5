//go:build !amd64 && !arm64

package prefetch

import "unsafe"

// Line does nothing on this processor.
func Line(p unsafe.Pointer) {}

// Lines does nothing on this processor.
func Lines(p0, p1, p2, p3, p4, p5, p6 unsafe.Pointer) {}
