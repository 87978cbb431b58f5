package timetable

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func layout(t testing.TB, lines, entries int) (*Layout, []uint64) {
	l, err := NewLayout(lines, entries)
	require.NoError(t, err)
	return &l, make([]uint64, l.Words())
}

// set keeps a time for a key, and reports whether there was a place.
func set(l *Layout, table []uint64, h uint64, now, time uint32) bool {
	var e Entry
	l.Find(table, h, now, &e)
	if e.Time <= now && e.Gone > now {
		return false
	}
	l.Set(table, &e, max(e.Time, time))
	return true
}

func TestNewLayout(t *testing.T) {
	for _, bad := range [][2]int{{0, 10}, {-1, 10}, {5, 7}, {5, 11}, {5, 0}} {
		_, err := NewLayout(bad[0], bad[1])
		require.Error(t, err, bad)
	}
	for entries, bits := range map[int]int{6: 46, 8: 29, 9: 22, 10: 17} {
		_, table := layout(t, 3, entries)
		require.Equal(t, bits, FingerprintBits(entries))
		require.Len(t, table, 24)
	}
}

// Every entry keeps its fingerprint and its time, whatever its neighbours have.
func TestEntriesDoNotTouchEachOther(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, entries := range Entries {
		l, table := layout(t, 3, entries)
		prints, rests, times := make([]uint64, entries), make([]uint64, entries), make([]uint32, entries)
		for range 3000 {
			i, k := r.IntN(entries), Entry{first: r.Uint32N(3), print: r.Uint64() & l.print, line: 1}
			k.at = uint8(i)
			if k.first != 1 && l.line(&k, 1) != 1 && l.line(&k, 2) != 1 {
				continue
			}
			prints[i], rests[i], times[i] = k.print, k.print>>laneBits, r.Uint32()
			l.Set(table, &k, times[i])
			if k.first != 1 {
				rests[i] |= l.choiceOf(&k) << l.choice
				require.Equal(t, k.first, l.home(1, k.print, l.choiceOf(&k)))
			}
			if r.IntN(2) == 0 {
				times[i] = r.Uint32()
				k.own = true
				l.Set(table, &k, times[i])
			}
			for j := range uint(entries) {
				words := line(table, 1)
				require.Equal(t, prints[j]&0xffff, words[j/4]>>(j%4*16)&0xffff)
				require.Equal(t, rests[j], l.restOf(words, j))
				require.Equal(t, times[j], timeOf(words, j))
			}
		}
		for n := uint32(0); n < 3; n += 2 { // which know at most that their keys have entries elsewhere
			for w, word := range line(table, n) {
				require.Zero(t, word&^(1<<(l.spilled%64)))
				require.True(t, word == 0 || w == int(l.spilled/64))
			}
		}
	}
}

// In random order of keys, times and shifts: what a key reads is never less than what was
// set for it, and with long fingerprints and room it is that.
func TestFindReadsWhatWasSet(t *testing.T) {
	for _, entries := range Entries {
		r := rand.New(rand.NewPCG(uint64(entries), 2))
		l, table := layout(t, 64, entries)
		keys, want := make([]uint64, 60*entries), make([]uint32, 60*entries)
		for i := range keys {
			keys[i] = r.Uint64()
		}
		now, refused, more, reads := uint32(1), 0, 0, 0
		for range 40_000 {
			now += r.Uint32N(3)
			if now > 1000 {
				ticks := r.Uint32N(now)
				l.Shift(table, ticks)
				now -= ticks
				for i := range want {
					want[i] -= min(want[i], ticks)
				}
			}
			i := r.IntN(len(keys))
			var e Entry
			l.Find(table, keys[i], now, &e)
			got := e.Time
			if want[i] > now {
				require.GreaterOrEqual(t, got, want[i])
				reads++
				if got > want[i] {
					more++
				}
			}
			if next := max(got, now) + r.Uint32N(600); set(l, table, keys[i], now, next) {
				want[i] = next
			} else {
				require.LessOrEqual(t, got, now)
				refused++
			}
		}
		require.Greater(t, reads, 1000)
		require.LessOrEqual(t, more, reads/100, "shared entries")
		require.LessOrEqual(t, refused, 40_000/10)
	}
}

// A place is refused only if all lines of the key are full, and then until the time
// that is told.
func TestFreeWhereLinesAreFull(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, entries := range Entries {
		l, table := layout(t, 8, entries)
		const now = 1000
		refused := 0
		for range 300 {
			var e Entry
			l.Find(table, r.Uint64(), now, &e)
			least, one := uint32(math.MaxUint32), false
			for choice := range uint64(choices) {
				n := l.line(&e, choice)
				one = one || n == e.line
				for i := range uint(entries) {
					least = min(least, timeOf(line(table, n), i))
				}
			}
			require.True(t, one, "it is in a line of the key")
			if e.Gone > now {
				refused++
				require.Equal(t, least, e.Gone)
				then := e
				l.place(table, e.Gone, &then)
				require.LessOrEqual(t, then.Gone, e.Gone, "there is a place by then")
				continue
			}
			require.LessOrEqual(t, least, uint32(now))
			l.Set(table, &e, now+1+r.Uint32N(1000))
		}
		require.Greater(t, refused, 100)
		u := l.Use(table, now, now+500)
		require.Equal(t, 300-refused, u.Live)
		require.InDelta(t, u.Live/2, u.Later, 40)
		require.Equal(t, Use{}, l.Use(table, math.MaxUint32, 0))
	}
}

// The chances that Refused and Shared state are those that unseen keys meet.
func TestUnseenKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	l, table := layout(t, 16, 10)
	for range 160 * 85 / 100 {
		set(l, table, r.Uint64(), 0, 1+r.Uint32N(9))
	}
	u := l.Use(table, 0, 5)
	const keys = 3_000_000
	refused, shared, later := 0.0, 0.0, 0.0
	for range keys {
		var e Entry
		l.Find(table, r.Uint64(), 0, &e)
		switch {
		case e.Time > 5:
			later++
			fallthrough
		case e.Time > 0:
			shared++
		case e.Gone > 0:
			refused++
		}
	}
	within := func(p, counted float64) {
		require.InDelta(t, p*keys, counted, 5*math.Sqrt(p*keys)+1)
	}
	within(Shared(float64(u.Live), 16, 10), shared)
	within(Shared(float64(u.Later), 16, 10), later)
	require.Greater(t, later, 40.0)
	require.InEpsilon(t, Refused(u.Full, 16)*keys, refused, 0.3, "lines are few, and so are fingerprints")
	require.Greater(t, refused, 100.0)
}

// An entry that is not in its key's first line is found as long as it counts, and then
// nobody looks for it any more.
func TestSpilledEntries(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, entries := range Entries {
		l, table := layout(t, 32, entries)
		keys := make([]uint64, 32*entries*8/10)
		for i := range keys {
			keys[i] = r.Uint64()
			set(l, table, keys[i], 0, 100)
		}
		spilled := 0
		for range 3 {
			for _, h := range keys {
				var e Entry
				l.Find(table, h, 0, &e)
				require.NotZero(t, e.Time)
				if e.line != e.first {
					spilled++
				}
			}
			l.Shift(table, 30)
		}
		require.Greater(t, spilled, len(keys)/20)
		l.Shift(table, 30)
		for n := range uint32(32) {
			require.Zero(t, line(table, n)[l.spilled/64]>>(l.spilled%64)&1)
		}
	}
}

func TestLoads(t *testing.T) {
	for _, entries := range Entries {
		before := 2.0
		for rate := 0.5; rate > 1e-13; rate /= 3 {
			load := LoadFor(entries, rate)
			require.Positive(t, load)
			require.LessOrEqual(t, load, before)
			if before = load; rate < 0.1 {
				require.InEpsilon(t, rate, RefusedAt(entries, load), 1e-6)
			}
		}
		require.Greater(t, RefusedAt(entries, 4), 0.7)
	}
}
