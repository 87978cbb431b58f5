package sketchlimit

import (
	"fmt"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/growth"
	"github.com/sketchlimit/sketchlimit/internal/machine"
)

// CheckMemory returns an error if so many bytes are more than the machine has, or than the process's cgroup may have, where
// Linux says how much that is. [New] checks each limiter of 1 GiB and more by itself. This is for the sum of several.
func CheckMemory(bytes int) error {
	if most, of, ok := machine.Memory(); ok && bytes > 0 && uint64(bytes) > most {
		return fmt.Errorf("sketchlimit: %d bytes, must be at most %d: %s", bytes, most, of)
	}
	return nil
}

// growthBytes is what a limiter that grows takes besides its engines: the last part is for its grower, closures and weak
// pointer.
const growthBytes = int(unsafe.Sizeof(growth.Growth{})) + 500
