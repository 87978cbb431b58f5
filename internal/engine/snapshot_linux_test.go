package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/sketchlimit/sketchlimit/internal/keyhash"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

// BenchmarkSnapshotLocks copies all shards of 256 MiB, as WriteTo does, while as many goroutines
// decide as there are cores, and tells how many shards there are and how long a lock is held
// for a copy at the most, in time of the processor: what others do with it is not counted.
// That is what a decision may wait for a snapshot.
func BenchmarkSnapshotLocks(b *testing.B) {
	shards := 16_300 // 256 MiB
	if testing.Short() {
		shards /= 64
	}
	l := faceOf(b, sliding(60_000, 10*time.Second),
		spec.Dimensions{Shards: shards, BloomBytes: 2048, BloomProbes: 3, Depth: 4, Width: 512, CellBits: 16, HeavyEntries: 512, PromoteAt: 16})
	clear(l.memory) // so that the system has handed it out
	var deciding sync.WaitGroup
	var done atomic.Bool
	for first := range uint64(runtime.NumCPU()) {
		deciding.Go(func() {
			for key := first << 32; !done.Load(); key++ {
				l.Take(0, keyhash.Mix(key, 1), 1, l.Limit, Whole)
			}
		})
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var longest, all time.Duration
	memory := make([]uint64, l.size)
	for b.Loop() {
		for i := range l.shards {
			began := threadTime()
			ShardsOf(l.Engine).Copy(i, memory)
			took := threadTime() - began
			longest = max(longest, took)
			all += took
		}
	}
	done.Store(true)
	deciding.Wait()
	b.ReportMetric(float64(len(l.shards)), "shards")
	b.ReportMetric(float64(longest.Nanoseconds())/1e3, "longest-µs")
	b.ReportMetric(float64(all.Nanoseconds())/1e3/float64(len(l.shards)*b.N), "mean-µs")
}

// threadTime returns for how long this thread has had a processor.
func threadTime() time.Duration {
	const cpuTimeOfThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, cpuTimeOfThread, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(t.Nano())
}
