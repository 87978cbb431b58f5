//go:build !amd64 && !arm64

package prefetch

import "unsafe"

// Lines does nothing on this processor.
func Lines(p, q unsafe.Pointer) {}
