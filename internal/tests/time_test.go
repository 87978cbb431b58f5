package tests

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
)

// kinds are limiters of 10 a minute that read the clock in the background, where
// nothing says otherwise.
func kinds() map[string]sketchlimit.Config {
	return map[string]sketchlimit.Config{
		"sliding":     {Limit: 10},
		"fixed":       {Limit: 10, Algorithm: sketchlimit.FixedWindow},
		"sub-windows": {Limit: 10, SubWindows: 3},
		"bucket":      {Limit: 10, Algorithm: sketchlimit.TokenBucket},
		"growing":     {Limit: 10, MaxMemoryBytes: 1 << 20},
		"own clock":   {Limit: 10, Clock: time.Now},
	}
}

// Yesterday's log goes through a limiter that was made today as it went through one
// that was there: whatever was asked of the limiter before that is no decision.
func TestTimeBeginsWithTheFirstTimeThatComes(t *testing.T) {
	for name, c := range kinds() {
		for first, ask := range map[string]func(*sketchlimit.Limiter){
			"nothing": func(*sketchlimit.Limiter) {},
			"Stats":   func(l *sketchlimit.Limiter) { l.Stats(); l.FalseDenialRate(1, 10) },
			"Peek": func(l *sketchlimit.Limiter) {
				require.Equal(t, 10, l.Peek("k").Remaining)
				l.Do(sketchlimit.Request{Key: "k", Peek: true})
			},
			"Save": func(l *sketchlimit.Limiter) {
				var b bytes.Buffer
				_, err := l.WriteTo(&b)
				require.NoError(t, err)
				_, err = l.ReadFrom(&b)
				require.NoError(t, err)
			},
			"Close":    func(l *sketchlimit.Limiter) { require.NoError(t, l.Close()) },
			"a moment": func(*sketchlimit.Limiter) { time.Sleep(time.Minute) },
		} {
			t.Run(name+" after "+first, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := c
					c.Window, c.MemoryBytes, c.Seed = time.Minute, 64<<10, 1
					l, err := sketchlimit.New(c)
					require.NoError(t, err)
					defer l.Close()
					ask(l)
					yesterday := time.Now().Add(-24 * time.Hour)
					c.Clock = func() time.Time { return yesterday }
					there, err := sketchlimit.New(c)
					require.NoError(t, err)
					defer there.Close()
					for i := range 3 * 60 { // one a second, of which about ten a minute pass
						at := yesterday.Add(time.Duration(i) * time.Second)
						require.Equal(t, there.TakeAt(at, "k", 1), l.TakeAt(at, "k", 1))
					}
					s, other := l.Stats(), there.Stats()
					s.Audit, other.Audit = sketchlimit.Audit{}, sketchlimit.Audit{} // it does not know what was saved
					require.Equal(t, other, s)
					require.GreaterOrEqual(t, s.Admitted, uint64(20))
					require.GreaterOrEqual(t, s.Rotations, uint64(2))
					require.Less(t, s.FalseDenialRate, 1e-3)
					require.True(t, l.Allow("k"), "today is a day later")
					require.Zero(t, l.Do(sketchlimit.Request{Time: yesterday, Key: "other", Peek: true}).ResetAfter)
					d := l.TakeAt(yesterday, "k", 10)
					require.False(t, d.Allowed, "yesterday is over now, and counts as today")
					require.Greater(t, d.RetryAfter, 23*time.Hour)
				})
			})
		}
	}
}

// Stats is as of the latest time that came, not of the clock that nobody has asked.
func TestStatsOfAReplayAreOfItsTime(t *testing.T) {
	l, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 1000})
	require.NoError(t, err)
	defer l.Close()
	require.Zero(t, l.Stats().DistinctKeys)
	yesterday := time.Now().Add(-24 * time.Hour)
	for i := range 500 {
		l.TakeAt(yesterday, fmt.Sprint(i), 1)
	}
	require.InDelta(t, 500, l.Stats().DistinctKeys, 25)
	l.TakeAt(yesterday.Add(time.Minute), "k", 1)
	require.InDelta(t, 500, l.Stats().PreviousDistinctKeys, 25)
	l.Allow("k") // from here on the clock is asked
	require.InDelta(t, 1, l.Stats().DistinctKeys, 0.5)
	require.Zero(t, l.Stats().PreviousDistinctKeys)
}

// A bogus time far ahead is believed: what comes after is in its past, and shares one
// window's quota until then.
func TestABogusTimeFarAheadIsBelieved(t *testing.T) {
	for name, c := range kinds() {
		c.Window, c.MemoryBytes, c.Seed = time.Minute, 64<<10, 1
		l, err := sketchlimit.New(c)
		require.NoError(t, err)
		now := time.Now()
		require.True(t, l.TakeAt(now, "k", 10).Allowed)
		bogus := now.AddDate(50, 0, 0)
		require.True(t, l.TakeAt(bogus, "k", 1).Allowed, name)
		admitted := 0
		for i := range 3 * 60 {
			if l.TakeAt(now.Add(time.Duration(i)*time.Second), "another", 1).Allowed {
				admitted++
			}
		}
		require.Equal(t, 10, admitted, name)
		d := l.TakeAt(now, "another", 1)
		require.Greater(t, d.RetryAfter, 49*365*24*time.Hour, "%s: and the caller is told", name)
		require.NoError(t, l.Close())
	}
}

// A limiter that was restored has seen the times of its snapshot.
func TestARestoredLimiterHasSeenTime(t *testing.T) {
	for name, c := range kinds() {
		c.Window, c.MemoryBytes, c.Seed = time.Minute, 64<<10, 1
		l, err := sketchlimit.New(c)
		require.NoError(t, err)
		yesterday := time.Now().Add(-24 * time.Hour).Truncate(time.Minute)
		require.True(t, l.TakeAt(yesterday, "k", 10).Allowed)
		var b bytes.Buffer
		_, err = l.WriteTo(&b)
		require.NoError(t, err)
		restored, err := sketchlimit.New(c)
		require.NoError(t, err)
		_, err = restored.ReadFrom(&b)
		require.NoError(t, err)
		for _, at := range []time.Time{yesterday.Add(-time.Hour), yesterday} {
			for i := range 20 { // keys of all shards, of which most have seen no time themselves
				key := fmt.Sprint(i)
				require.Equal(t, l.TakeAt(at, key, 6), restored.TakeAt(at, key, 6), "%s, key %d", name, i)
			}
		}
		require.False(t, restored.TakeAt(yesterday, "k", 1).Allowed, name)
		require.False(t, restored.TakeAt(yesterday.Add(-time.Hour), "k", 1).Allowed, name)
		require.True(t, restored.TakeAt(yesterday.Add(2*time.Minute), "k", 10).Allowed, name)
		require.NoError(t, l.Close())
		require.NoError(t, restored.Close())
	}
}

// Stats reads the clock, and nothing of the limiter begins or ends with that: a clock
// that steps back afterwards opens no quota anew.
func TestStatsPinsNoTime(t *testing.T) {
	for name, c := range kinds() {
		for rates, read := range map[string]func(*sketchlimit.Limiter){
			"Stats": func(l *sketchlimit.Limiter) { l.Stats() },
			"rate":  func(l *sketchlimit.Limiter) { l.FalseDenialRate(1, 10) },
			"Peek":  func(l *sketchlimit.Limiter) { l.Peek("k") },
		} {
			now := time.Unix(1_700_000_040, 0)
			c.Window, c.MemoryBytes, c.Seed, c.Clock = time.Minute, 64<<10, 1, func() time.Time { return now }
			l, err := sketchlimit.New(c)
			require.NoError(t, err)
			require.True(t, l.AllowN("k", 10))
			now = now.Add(3 * time.Minute)
			read(l)
			now = now.Add(-3*time.Minute + time.Second)
			require.False(t, l.AllowN("k", 9), "%s after %s", name, rates)
			require.Zero(t, l.Stats().Rotations)
			require.NoError(t, l.Close())
		}
	}
}

// unclocked returns a limiter by the default clock.
func unclocked(t *testing.T, c sketchlimit.Config) *sketchlimit.Limiter {
	l, err := sketchlimit.New(c)
	require.NoError(t, err)
	return l
}

// A limiter in a bubble goes by its time and leaves nothing behind, so the bubble ends
// without Close. That holds for one that was made outside as well, and while the ticker
// of the process runs.
func TestLimiterInABubbleNeedsNoClose(t *testing.T) {
	outside, busy := map[string]*sketchlimit.Limiter{}, unclocked(t, sketchlimit.Config{Limit: 1 << 20, Window: time.Hour, Keys: 10})
	config := func(c sketchlimit.Config) sketchlimit.Config {
		c.Window, c.MemoryBytes = time.Minute, 64<<10
		return c
	}
	for name, c := range kinds() {
		outside[name] = unclocked(t, config(c))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				busy.Allow("k")
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	for name, c := range kinds() {
		synctest.Test(t, func(t *testing.T) {
			for _, l := range []*sketchlimit.Limiter{unclocked(t, config(c)), outside[name]} {
				for range 3 {
					require.True(t, l.AllowN("k", 10), name)
					require.False(t, l.Allow("k"), name)
					time.Sleep(time.Minute - 2*sketchlimit.Resolution)
					require.False(t, l.AllowN("k", 10), name)
					time.Sleep(2*time.Minute + 2*sketchlimit.Resolution)
				}
				for range 3 {
					require.True(t, l.AllowN("k", 10), name)
					time.Sleep(l.Take("k", 1).RetryAfter)
					require.True(t, l.Peek("k").Allowed, name)
					time.Sleep(l.Peek("k").ResetAfter)
				}
			}
		})
		require.True(t, outside[name].Allow("k"), "%s: today is after the bubble's year", name)
	}
}

// Limiters have no goroutine of their own: not while they are asked, and not when
// nobody refers to them any more.
func TestLimitersHaveNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	var all []*sketchlimit.Limiter
	for range 500 {
		for _, growing := range []int{0, 1 << 20} {
			l := unclocked(t, sketchlimit.Config{Limit: 10, Window: time.Minute, MemoryBytes: 16 << 10, MaxMemoryBytes: growing})
			all = append(all, l)
			for range 3 {
				l.Allow("k")
			}
		}
	}
	require.Eventually(t, func() bool {
		for _, l := range all {
			l.Allow("k")
		}
		return runtime.NumGoroutine() < before+8 // the ticker, a growing one that adapts; Eventually has some of its own
	}, 10*time.Second, time.Millisecond)
}
