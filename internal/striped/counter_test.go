package striped

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestCounterIsCacheLines(t *testing.T) {
	require.EqualValues(t, 64*Lines, unsafe.Sizeof(Counter{}))
}

func TestCounterCountsAtOnce(t *testing.T) {
	var c Counter
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for range 1000 {
				c.Inc()
			}
		})
	}
	g.Wait()
	require.EqualValues(t, 8000, c.Load())
}

// Words are the caller's: none is the count of a line, or another word.
func TestCounterWords(t *testing.T) {
	var c Counter
	for i := range Lines * LineWords {
		c.Word(i/LineWords, i%LineWords).Store(uint64(i + 1))
	}
	require.Zero(t, c.Load())
	for i := range Lines * LineWords {
		require.EqualValues(t, i+1, c.Word(i/LineWords, i%LineWords).Load())
	}
}
