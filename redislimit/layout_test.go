package redislimit

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/redislimit/internal/redistest"
)

// TestConfigErrors names the field, its value and what is allowed.
func TestConfigErrors(t *testing.T) {
	client := connect(t, "127.0.0.1:1")
	for want, change := range map[string]func(*Config){
		"Limit 0, must be 1 … 2147483647":               func(c *Config) { c.Limit = 0 },
		"Window 999µs, must be 1ms …":                   func(c *Config) { c.Window = 999 * time.Microsecond },
		"Window 1.0000001s, must be whole microseconds": func(c *Config) { c.Window = time.Second + 100 },
		"Window 60ns, must be 1ms … 640511h56m49.213693952s: a number without a unit is nanoseconds, was 60 * time.Second meant?": func(c *Config) { c.Window = 60 },
		"Limit 2147483647, must be at most 285616414 with Window 8760h0m0s: ":                                                     func(c *Config) { c.Window, c.Limit = 8760*time.Hour, math.MaxInt32 },
		"Window 1h0m0.000001s, must be whole milliseconds":                                                                        func(c *Config) { c.Window, c.Limit = time.Hour+time.Microsecond, math.MaxInt32 },
		"Algorithm 3, must be":                                            func(c *Config) { c.Algorithm = 3 },
		"Burst 5, goes with TokenBucket only":                             func(c *Config) { c.Burst = 5 },
		"Burst -1, must be 0 … 2147483647":                                func(c *Config) { c.Burst = -1 },
		"Burst 2147483647, must fill within":                              func(c *Config) { c.Algorithm, c.Burst, c.Limit = sketchlimit.TokenBucket, math.MaxInt32, 1 },
		`Prefix "a{b", must not hold a brace`:                             func(c *Config) { c.Prefix = "a{b" },
		"Timeout -1ns, must be at least 0":                                func(c *Config) { c.Timeout = -1 },
		"Failure 4, must be FailShare, FailLocal, FailOpen or FailClosed": func(c *Config) { c.Failure = 4 },
		"Machines -1, must be 0 … 1048576":                                func(c *Config) { c.Machines = -1 },
		"one of Keys and MemoryBytes must be set":                         func(c *Config) { c.Keys = 0 },
		"Keys 1000 with MemoryBytes 5, only one of them may be set":       func(c *Config) { c.MemoryBytes = 5 },
		"LowestLimit 101, must be 0 … Limit, 100":                         func(c *Config) { c.LowestLimit = 101 },
		"LowestLimit -1, must be 0 … Limit, 100":                          func(c *Config) { c.LowestLimit = -1 },
		"HighestLimit 99, must be 0 or Limit, 100 … 2147483647":           func(c *Config) { c.HighestLimit = 99 },
		"Hash nil of a type, must be one or not set":                      func(c *Config) { c.Hash = (*sum)(nil) },
		"Keys -1, must be 1 … 2147483647":                                 func(c *Config) { c.Keys = -1 },
		"MemoryBytes 1023, must be 1024 … 1099511627776":                  func(c *Config) { c.Keys, c.MemoryBytes = 0, 1023 },
		"MemoryBytes 2053, must be at least 2054 for Limit 20000000":      func(c *Config) { c.Keys, c.MemoryBytes, c.Limit = 0, 2053, 20_000_000 },
	} {
		c := Config{Limit: 100, Window: time.Hour, Keys: 1000}
		change(&c)
		_, err := NewStrict(client, c)
		require.ErrorContains(t, err, "redislimit: "+want)
	}
	_, err := NewStrict(nil, Config{})
	require.ErrorContains(t, err, "redislimit: client nil, must be one")
	_, err = NewExact(nil, Config{})
	require.ErrorContains(t, err, "redislimit: client nil, must be one")
}

// TestNilsAreRefused: also those of a type.
func TestNilsAreRefused(t *testing.T) {
	c := Config{Limit: 100, Window: time.Hour, Keys: 1000}
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Hour, Keys: 1000})
	require.NoError(t, err)
	for _, client := range []redis.UniversalClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil), (*redis.Ring)(nil)} {
		_, err := NewStrict(client, c)
		require.ErrorContains(t, err, "client nil, must be one")
		_, err = NewExact(client, c)
		require.ErrorContains(t, err, "client nil, must be one")
		_, err = NewSynced(client, limiter, time.Second)
		require.ErrorContains(t, err, "client nil, must be one")
		_, err = Seed(t.Context(), client, "api")
		require.ErrorContains(t, err, "client nil, must be one")
	}
	_, err = NewSynced(connect(t, "127.0.0.1:1"), limiter, time.Second, Prefix("api"), nil)
	require.ErrorContains(t, err, "option 1 nil, must be one")
}

// TestLimitChangesWhileMachinesDo: of two machines one has the old limit and one the new. Together they admit the
// higher one, where it is said that strings are made for both.
func TestLimitChangesWhileMachinesDo(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for i, c := range []struct {
		old, new Config
	}{
		{Config{Limit: 10}, Config{Limit: 20, LowestLimit: 10}},
		{Config{Limit: 20, LowestLimit: 10}, Config{Limit: 10}},
		{Config{Limit: 200, HighestLimit: 300}, Config{Limit: 300, LowestLimit: 200}},
		{Config{Limit: 20}, Config{Limit: 255}},
		{Config{Limit: 10, Algorithm: sketchlimit.TokenBucket}, Config{Limit: 20, LowestLimit: 10, Algorithm: sketchlimit.TokenBucket}},
	} {
		admitted := 0
		now := time.Unix(1_700_000_000, 0)
		for _, c := range []Config{c.old, c.new} {
			c.Window, c.Keys, c.Failure, c.Prefix = time.Hour, 1000, FailClosed, fmt.Sprint(i)
			s := strict(t, client, c)
			for range 300 {
				d, err := s.TakeAt(t.Context(), now, "k", 1)
				require.NoError(t, err)
				if d.Allowed {
					admitted++
				}
			}
		}
		if c.old.Algorithm == sketchlimit.TokenBucket { // which has a time, and fills faster now
			require.LessOrEqual(t, admitted, 20)
			continue
		}
		require.Equal(t, max(c.old.Limit, c.new.Limit), admitted, "%d → %d", c.old.Limit, c.new.Limit)
	}
}

// TestMemory writes to every shard: all are as large as stated, and expire.
func TestMemory(t *testing.T) {
	client := connect(t, redistest.New(t).Addr)
	for _, a := range []sketchlimit.Algorithm{sketchlimit.SlidingWindow, sketchlimit.FixedWindow, sketchlimit.TokenBucket} {
		require.NoError(t, client.FlushDB(t.Context()).Err())
		s := strict(t, client, Config{Limit: 100, Window: time.Hour, Algorithm: a, Keys: 1_000_000, Failure: FailClosed})
		for i := 0; client.DBSize(t.Context()).Val() < int64(len(s.at.Load().names)); i++ {
			take(t, s, fmt.Sprint("key", i))
		}
		sum := int64(0)
		for _, name := range s.at.Load().names {
			require.EqualValues(t, s.size(), client.StrLen(t.Context(), name).Val())
			sum += client.MemoryUsage(t.Context(), name).Val()
			left := client.PTTL(t.Context(), name).Val()
			require.Greater(t, left, time.Hour)
			require.LessOrEqual(t, left, 2*time.Hour+2*time.Millisecond)
		}
		require.InEpsilon(t, s.MemoryBytes(), sum, 0.03, "%v", a)
		require.LessOrEqual(t, s.size(), shardBytes)
	}
}

// TestNamesTellLayoutsApart: what would misread each other's strings has other names.
func TestNamesTellLayoutsApart(t *testing.T) {
	client := connect(t, "127.0.0.1:1")
	base := Config{Limit: 100, Window: time.Hour, Keys: 1000}
	names := map[string]bool{}
	for i, change := range []func(*Config){
		func(*Config) {},
		func(c *Config) { c.Limit = 1000 },
		func(c *Config) { c.Window = time.Minute },
		func(c *Config) { c.Algorithm = sketchlimit.FixedWindow },
		func(c *Config) { c.Algorithm = sketchlimit.TokenBucket },
		func(c *Config) { c.Algorithm, c.Burst = sketchlimit.TokenBucket, 500 },
		func(c *Config) { c.Keys = 100_000 },
		func(c *Config) { c.Seed = 1 },
		func(c *Config) { c.Hash = sum(11) },
		func(c *Config) { c.Hash = sum(12) },
		func(c *Config) { c.Prefix = "p" },
	} {
		c := base
		change(&c)
		name := strict(t, client, c).at.Load().names[0]
		require.False(t, names[name], "%d: %s", i, name)
		require.Equal(t, 1, strings.Count(name, "{"))
		names[name] = true
	}
	same := base
	same.Limit = 99
	require.True(t, names[strict(t, client, same).at.Load().names[0]], "a limit may change")
}

// sum hashes all keys alike.
type sum uint64

func (s sum) Sum64([]byte) uint64 { return uint64(s) }

// TestHash: keys are found by the Hash of the Config, so under one that is always the same they
// are one key, here and while Redis is away.
func TestHash(t *testing.T) {
	c := hour
	c.Failure, c.Hash, c.Timeout = FailLocal, sum(7), patience
	s := strict(t, connect(t, redistest.New(t).Addr), c)
	require.Equal(t, 4, take(t, s, "a").Remaining)
	require.Equal(t, 3, take(t, s, "b").Remaining)
	goAway(t, s.scripts)
	d, err := s.Take(t.Context(), "c", 1)
	require.NoError(t, err)
	require.Equal(t, 2, d.Remaining)
}

// TestCellsAreAsWideAsTheLimit: what Keys asks for, whatever the limit.
func TestCellsAreAsWideAsTheLimit(t *testing.T) {
	for _, c := range []struct {
		limit int
		cell  int
		bytes float64 // a key
	}{
		{1, 1, 614.1}, {9, 1, 57.3}, {20, 1, 4.1}, {255, 1, 4.1}, {256, 2, 4.83}, {10_000, 2, 4.83}, {1<<16 - 1, 2, 4.83},
		{1 << 16, 3, 7.23}, {1<<24 - 1, 3, 7.23}, {1 << 24, 4, 9.63}, {math.MaxInt32, 4, 9.63},
	} {
		l, err := newLayout(&Config{Limit: c.limit, Window: time.Hour, Keys: 1_000_000})
		require.NoError(t, err)
		require.Equal(t, c.cell, l.cell)
		require.InEpsilon(t, c.bytes*1e6, int(l.shards)*l.size(), 0.005, "%d", c.limit)
	}
}

// TestKeysMeetByChance counts, in one block, the pairs of keys that share a column of a row
// in one generation, and in that and the next: 1 in 32, and 1 in 32². It must be by chance
// for the rows of a pair too: in two rows 1 in 32². Each count is a sum of n pairs' that
// are uncorrelated, within 6 standard deviations: it fails by chance once in 5e8.
func TestKeysMeetByChance(t *testing.T) {
	l := layout{kept: 2, cell: 1, columns: 32, shards: 1, blocks: 1, keyed: true}.under(7)
	const keys, generation, columns = 1000, 1_000_003, 32
	places := make([]place, keys)
	for i := range places {
		places[i] = l.place(fmt.Sprint("key", i))
	}
	count := func(meet func(a, b place) bool) (n int) {
		for i, a := range places {
			for _, b := range places[:i] {
				if meet(a, b) {
					n++
				}
			}
		}
		return n
	}
	column := func(p place, row, g int) int {
		return (int(p.columns[2*row]) + g*int(p.columns[2*row+1])) % columns
	}
	check := func(what string, chance float64, meet func(a, b place) bool) {
		n := float64(keys * (keys - 1) / 2)
		require.InDelta(t, n*chance, count(meet), 6*math.Sqrt(n*chance*(1-chance)), what)
	}
	for row := range rows {
		check("once", 1./columns, func(a, b place) bool { return column(a, row, generation) == column(b, row, generation) })
		check("twice", 1./columns/columns, func(a, b place) bool {
			return column(a, row, generation) == column(b, row, generation) &&
				column(a, row, generation+1) == column(b, row, generation+1)
		})
		other := (row + 1) % rows
		check("in two rows", 1./columns/columns, func(a, b place) bool {
			return column(a, row, generation) == column(b, row, generation) &&
				column(a, other, generation) == column(b, other, generation)
		})
	}
}

// TestKeysSpread counts keys in blocks: chi-square of 620 blocks, whose mean is 619 and
// whose standard deviation is 35.2, within 6 of them.
func TestKeysSpread(t *testing.T) {
	l := layout{kept: 2, cell: 1, columns: 32, shards: 10, blocks: 62, keyed: true}.under(1)
	const keys = 62_000
	held := map[[2]uint64]int{}
	for i := range keys {
		p := l.place(fmt.Sprint("key", i))
		if p.shard >= l.shards || p.offset+uint64(l.blockBytes()) > uint64(l.size()) {
			t.Fatalf("%+v lies outside", p)
		}
		held[[2]uint64{p.shard, p.offset}]++
	}
	chi := 0.
	for _, n := range held {
		chi += (float64(n) - 100) * (float64(n) - 100) / 100
	}
	require.Len(t, held, 620)
	require.InDelta(t, 619, chi, 6*35.2)
}
