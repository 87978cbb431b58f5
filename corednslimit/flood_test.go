package corednslimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// In a flood from thirty thousand networks, in 256 KiB, nobody who asks little is
// refused, and each of the victims that the flood is meant for gets its allowance and
// no more.
func TestFlood(t *testing.T) {
	b := newBench(t, "responses-per-second 100\nmemory 256KiB")
	const seconds, networks, victims, innocents = 3, 30_000, 5, 100
	refused, sent := 0, [victims]int{}
	ask := func(client string) bool {
		m, _, _ := b.ask(client, "www.example.org.", false)
		return m != nil
	}
	next := 0
	for tick := range seconds * 100 {
		for range networks / 100 {
			if n := next % networks; !ask(fmt.Sprintf("%d.%d.%d.1", 16+n>>16, n>>8&255, n&255)) {
				refused++
			}
			next++
		}
		for i := range innocents {
			if tick%5 == i%5 && !ask(fmt.Sprintf("100.64.%d.1", i)) {
				refused++
			}
		}
		for i := range sent {
			for range 10 {
				if ask(fmt.Sprintf("198.18.%d.1", i)) {
					sent[i]++
				}
			}
		}
		b.pass(10 * time.Millisecond)
	}
	require.Zero(t, refused)
	for i := range sent {
		require.InDelta(t, 110, sent[i], 2) // 100, and what flows in until these are gone
	}
	require.LessOrEqual(t, b.MemoryBytes(), 256<<10)
}
