//go:build !amd64 && !arm64

package prefetch

import "unsafe"

// Lines does nothing on this processor.
func Lines(p0, p1, p2, p3, p4, p5, p6 unsafe.Pointer) {}
