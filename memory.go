package sketchlimit

import (
	"fmt"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/growth"
	"github.com/sketchlimit/sketchlimit/internal/machine"
)

// CheckMemory returns an error if bytes exceeds the memory of the machine or of the
// process's cgroup, and nil where that is not known, as outside Linux. [New] checks
// each limiter above 1 GiB by itself; use CheckMemory for the sum of several.
func CheckMemory(bytes int) error {
	if most, of, ok := machine.Memory(); ok && bytes > 0 && uint64(bytes) > most {
		return fmt.Errorf("sketchlimit: %d bytes, must be at most %d: %s", bytes, most, of)
	}
	return nil
}

// growthBytes is the memory of a limiter that grows besides its engines; 500 bytes are
// for its grower, closures and weak pointer.
const growthBytes = int(unsafe.Sizeof(growth.Growth{})) + 500
