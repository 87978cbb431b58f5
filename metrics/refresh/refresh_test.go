package refresh

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Small values are read at once, and again after nine times as long; large ones in the
// background, one at a time.
func TestGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		values := make([]Value[int], 5)
		var reads [5]int
		var at atomic.Int32
		get := func() (known []int) {
			r := q.Start()
			for i := range values {
				v, ok := Get(&r, &values[i], AtOnce/2, func() int {
					require.EqualValues(t, 1, at.Add(1))
					time.Sleep(time.Second)
					at.Add(-1)
					reads[i]++
					return reads[i]
				})
				if !ok {
					v = -1
				}
				known = append(known, v)
			}
			return known
		}
		start := time.Now()
		require.Equal(t, []int{1, 1, -1, -1, -1}, get()) // the queue begins to read the third
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Equal(t, []int{1, 1, -1, -1, -1}, get()) // it has not ended
		time.Sleep(12 * time.Second)                     // 1 s of reading, 9 of waiting, 1 of reading
		require.Equal(t, []int{2, 2, 1, 1, -1}, get())
		time.Sleep(time.Minute)
		require.Equal(t, [5]int{2, 2, 2, 1, 1}, reads)
		require.Equal(t, []int{3, 3, 2, 1, 1}, get())
		time.Sleep(time.Minute)
		require.Equal(t, [5]int{3, 3, 3, 2, 2}, reads)
		q.mu.Lock()
		require.False(t, q.running)
		q.mu.Unlock()
	})
}
