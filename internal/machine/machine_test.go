package machine

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	const ofMachine, ofGroup = "the memory of this machine", "the memory limit of this process's cgroup"
	for name, c := range map[string]struct {
		files map[string]string
		bytes uint64
		of    string
	}{
		"no files":     {nil, 0, ""},
		"damaged":      {map[string]string{"proc/meminfo": "MemTotal: x kB\n", "proc/self/cgroup": "0\n"}, 0, ""},
		"machine":      {map[string]string{"proc/meminfo": "HugePages: 1\nMemTotal:       16 kB\nMemFree: 2 kB\n"}, 16 << 10, ofMachine},
		"no limit":     {map[string]string{"proc/meminfo": "MemTotal: 16 kB", "proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/memory.max": "max\n"}, 16 << 10, ofMachine},
		"container":    {map[string]string{"proc/meminfo": "MemTotal: 16 kB", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4096, ofGroup},
		"group above":  {map[string]string{"proc/meminfo": "MemTotal: 16 kB", "proc/self/cgroup": "0::/a/b/c\n", "sys/fs/cgroup/a/memory.max": "4096\n", "sys/fs/cgroup/a/b/c/memory.max": "8192\n"}, 4096, ofGroup},
		"above all":    {map[string]string{"proc/meminfo": "MemTotal: 16 kB", "proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/memory.max": "9223372036854771712"}, 16 << 10, ofMachine},
		"version 1":    {map[string]string{"proc/self/cgroup": "3:cpu,memory:/a/../d\n2:pids:/x\n", "sys/fs/cgroup/memory/d/memory.limit_in_bytes": "4096\n"}, 4096, ofGroup},
		"v1 in docker": {map[string]string{"proc/self/cgroup": "3:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n"}, 4096, ofGroup},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		bytes, of, ok := memory(root)
		require.Equal(t, c.bytes, bytes, name)
		require.Equal(t, c.of, of, name)
		require.Equal(t, c.of != "", ok, name)
	}
	Memory() // whatever the machine
}
