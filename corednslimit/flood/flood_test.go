package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A table limits until it is full; then an account that is idle gives way, or none and
// nobody new is limited, or any.
func TestTable(t *testing.T) {
	p := &plan{allowance: 10}
	for _, name := range []string{tableName, evictingName} {
		limiter, now := newTable(name, p, 24), time.Unix(1_700_000_000, 0)
		sent := func(key string, times int) (allowed, slipped int) {
			for range times {
				a, s := limiter.debit(key, now)
				if a {
					allowed++
				} else if s {
					slipped++
				}
			}
			return allowed, slipped
		}
		allowed, slipped := sent("victim", 110)
		require.Equal(t, [2]int{10, 50}, [2]int{allowed, slipped}, name)
		now = now.Add(time.Second)
		allowed, _ = sent("victim", 500)
		require.Zero(t, allowed)
		now = now.Add(tableWindow - time.Second/10)
		allowed, _ = sent("victim", 1)
		require.Zero(t, allowed)
		for i := range tableSize {
			sent(fmt.Sprint(i), 1)
		}
		require.Len(t, limiter.of, tableSize)
		now = now.Add(time.Second)
		allowed, _ = sent("newcomer", 110)
		require.Equal(t, map[string]int{tableName: 110, evictingName: 10}[name], allowed)
		now = now.Add(tableWindow)
		allowed, _ = sent("late", 110)
		require.Equal(t, 10, allowed, name)
	}
}

// Both ways of asking count what they ask, and print a table.
func TestRuns(t *testing.T) {
	p := &plan{
		networks: 1000, victims: 2, innocents: 10, victimQPS: 2000, calmQPS: 20, floodQPS: 2000, allowance: 100, memory: "1MiB",
		span: 400 * time.Millisecond, fill: 100 * time.Millisecond,
	}
	for name, run := range map[string]func(*plan, string) (result, error){"chain": runChain, "udp": runUDP} {
		var results []result
		for _, limiter := range limiters {
			r, err := run(p, limiter)
			require.NoError(t, err, name)
			require.NotZero(t, r.of[innocent].asked, name)
			for k, of := range r.of {
				require.LessOrEqual(t, of.whole+of.truncated, of.asked, "%s: %s, %d", name, limiter, k)
				if limiter == "none" {
					require.Equal(t, of.whole, of.asked, "%s, %d", name, k)
				}
			}
			if limiter == "sketch_rrl" {
				require.LessOrEqual(t, r.of[victim].whole, p.victims*int(100*(1+r.took.Seconds())), name)
			}
			results = append(results, r)
		}
		print(p, results)
	}
}
