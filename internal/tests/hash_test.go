package tests

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/inflight"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

const (
	prime1 = 11400714785074694791
	prime2 = 14029467366897019727
	prime3 = 1609587929392839161
	prime4 = 9650029242287828579
	prime5 = 2870177450012600261
)

// inverse returns the inverse of an odd number modulo 2^64, by Newton's method.
func inverse(odd uint64) uint64 {
	x := odd
	for range 5 {
		x *= 2 - odd*x
	}
	return x
}

// contribution is what a block of 8 bytes changes XXH64's accumulator by, with XOR.
func contribution(block uint64) uint64 { return bits.RotateLeft64(block*prime2, 31) * prime1 }

func block(contribution uint64) uint64 {
	return bits.RotateLeft64(contribution*inverse(prime1), -31) * inverse(prime2)
}

// twin returns another key of 16 bytes that has the same XXH64 under every seed.
// Between the two blocks the accumulator is rotated by 27 bits and multiplied by an odd
// number. So a change of bit 36 by the first is one of bit 63 before the second,
// whatever the accumulator was, and a change of bit 63 by the second undoes it.
func twin(key string) string {
	b := []byte(key)
	for i, bit := range []int{36, 63} {
		half := b[8*i:]
		binary.LittleEndian.PutUint64(half, block(contribution(binary.LittleEndian.Uint64(half))^1<<bit))
	}
	return string(b)
}

// forged returns a key of 16 bytes that begins as the attacker must, such as with a
// network of theirs, and has the same XXH64 (seed 0) as any key. Every step of XXH64
// can be undone.
func forged(begin uint64, key string) string {
	h := xxhash.Sum64String(key)
	h ^= h >> 32
	h *= inverse(prime3)
	h ^= h>>29 ^ h>>58
	h *= inverse(prime2)
	h ^= h >> 33
	h = bits.RotateLeft64((h-prime4)*inverse(prime1), -27)
	before := bits.RotateLeft64((prime5+16)^contribution(begin), 27)*prime1 + prime4
	b := binary.LittleEndian.AppendUint64(nil, begin)
	return string(binary.LittleEndian.AppendUint64(b, block(h^before)))
}

func TestTwinsUnderEverySeed(t *testing.T) {
	for i := range uint64(1000) {
		victim := fmt.Sprintf("customer-%07d", i)
		attacker := twin(victim)
		require.NotEqual(t, victim, attacker)
		for seed := range uint64(8) {
			a, b := xxhash.NewWithSeed(seed*seed*0x9e3779b97f4a7c15), xxhash.NewWithSeed(seed*seed*0x9e3779b97f4a7c15)
			a.WriteString(victim)
			b.WriteString(attacker)
			require.Equal(t, a.Sum64(), b.Sum64())
		}
	}
}

// Whoever can choose the bytes of keys spends the quota of others under XXHash, and
// under no keyed hash.
func TestAttackOnXXHash(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hash  sketchlimit.Hash
		falls bool
	}{
		{"default", nil, false},
		{"KeyedHash", sketchlimit.KeyedHash(99), false},
		{"XXHash", sketchlimit.XXHash(99), true},
		{"MapHash", sketchlimit.MapHash(), false},
		{"of one's own", secret{1}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 100_000, Hash: tt.hash, Clock: at(time.Unix(0, 0))})
			require.NoError(t, err)
			in, err := inflight.New(inflight.Config{Limit: 1, Requests: 1000, Hash: tt.hash})
			require.NoError(t, err)
			for i := range 100 {
				victim := fmt.Sprintf("customer-%07d", i)
				require.True(t, l.Take(twin(victim), 10).Allowed)
				require.Equal(t, tt.falls, !l.Allow(victim), victim)
				short := fmt.Sprintf("203.0.113.%d", i)
				require.True(t, l.Take(forged(uint64(i), short), 10).Allowed)
				require.Equal(t, tt.falls, !l.Allow(short), short)
				_, ok := in.Acquire(twin(victim), 1)
				require.True(t, ok)
				_, ok = in.Acquire(victim, 1)
				require.Equal(t, tt.falls, !ok)
			}
		})
	}
}

// Two limiters under one keyed hash err with other keys, and so do generations: a pair of
// keys that share all cells in one does not in the next.
func TestKeyedHashInEveryGeneration(t *testing.T) {
	testkit.Computes(t)
	now := time.Unix(0, 0)
	plan := sketchlimit.Plan{Shards: 1, BloomBytes: 64, BloomProbes: 1, Depth: 1, Width: 16, CellBits: 4}
	hash := sketchlimit.MapHash()
	build := func() *sketchlimit.Limiter {
		return build(t, sketchlimit.Config{Limit: 10, Window: time.Second, Algorithm: sketchlimit.FixedWindow, Plan: &plan, Hash: hash, Seed: 1,
			Clock: func() time.Time { return now }})
	}
	met := func(l *sketchlimit.Limiter) (keys string) { // those that share all with one that has used its quota
		l.Take("heavy", 10)
		for i := range 100_000 {
			if key := fmt.Sprint(i); l.Peek(key).Remaining == 0 {
				keys += key + " "
			}
		}
		require.NotEmpty(t, keys)
		return keys
	}
	l, same := build(), build()
	first := met(l)
	require.Equal(t, first, met(same))
	now = now.Add(time.Second)
	require.NotEqual(t, first, met(l))
}

// A configured Hash does not make keys escape to the heap, wherever they are.
func TestHashAllocatesNothing(t *testing.T) {
	for name, hash := range map[string]sketchlimit.Hash{"default": nil, "MapHash": sketchlimit.MapHash(), "own": secret{1}} {
		l := build(t, sketchlimit.Config{Limit: 1 << 30, Window: time.Hour, Hash: hash})
		other := build(t, sketchlimit.Config{Limit: 1 << 30, Window: time.Hour, Algorithm: sketchlimit.TokenBucket, Hash: hash})
		all, err := sketchlimit.NewGroup(l, other)
		require.NoError(t, err)
		in, err := inflight.New(inflight.Config{Limit: 1, Requests: 1, Hash: hash})
		require.NoError(t, err)
		for kind, f := range map[string]func(){ // on the stack, if nothing keeps it
			"string":    func() { var key [16]byte; l.Take(string(key[:]), 1) },
			"bytes":     func() { var key [16]byte; l.Do(sketchlimit.Request{Bytes: key[:]}) },
			"addr":      func() { var key [16]byte; l.Do(sketchlimit.Request{Addr: netip.AddrFrom16(key)}) },
			"group":     func() { var key [16]byte; all.Do(sketchlimit.Request{Bytes: key[:]}) },
			"reserve":   func() { var key [16]byte; other.Reserve(sketchlimit.Request{Key: string(key[:])}) },
			"in flight": func() { var key [16]byte; h, _ := in.AcquireBytes(key[:], 1); h.Release() },
			"held":      func() { var key [16]byte; in.Held(string(key[:])) },
		} {
			require.Zero(t, testing.AllocsPerRun(1000, f), "%s %s", name, kind)
		}
	}
}

// The three forms of a key are one key under any hash, also where a stack moves
// meanwhile.
func TestHashOfAnyForm(t *testing.T) {
	addr := netip.MustParseAddr("2001:db8::1")
	for name, hash := range map[string]sketchlimit.Hash{"default": nil, "MapHash": sketchlimit.MapHash(), "deep": deep{}} {
		l := build(t, sketchlimit.Config{Limit: 3, Window: time.Hour, Hash: hash})
		b := addr.As16()
		done := make(chan sketchlimit.Decision)
		go func() { // a stack that has yet to grow
			key := b
			l.Do(sketchlimit.Request{Bytes: key[:]})
			l.Do(sketchlimit.Request{Addr: addr})
			done <- l.Take(string(key[:]), 1)
		}()
		require.Zero(t, (<-done).Remaining, name)
		require.False(t, l.Allow(string(b[:])), name)
		require.True(t, l.Allow(""), name)
	}
}

// deep is a Hash that needs much of the stack before it looks at the key.
type deep struct{}

func (deep) Sum64(key []byte) uint64 {
	return uint64(sink(300)) + xxhash.Sum64(key)
}

//go:noinline
func sink(n int) int {
	var room [256]byte
	if n == 0 {
		return len(room)
	}
	room[n%256] = byte(n)
	return sink(n-1) + int(room[n%256])
}

// A Hash without a seed has the limiter's, and both ways to give it one are the same.
func TestSeedOfAHash(t *testing.T) {
	limiter := func(hash sketchlimit.Hash, seed uint64) *sketchlimit.Limiter {
		l, err := sketchlimit.New(sketchlimit.Config{
			Limit: 3, Window: time.Hour, MemoryBytes: 8 << 10, Hash: hash, Seed: seed, Clock: at(time.Unix(0, 0)),
		})
		require.NoError(t, err)
		return l
	}
	for name, hash := range map[string]func(uint64) sketchlimit.Hash{
		"KeyedHash": sketchlimit.KeyedHash, "XXHash": sketchlimit.XXHash,
	} {
		l, other := limiter(hash(0), 42), limiter(hash(0), 43)
		same := []*sketchlimit.Limiter{limiter(hash(42), 42), limiter(hash(42), 0)}
		if name == "KeyedHash" {
			same = append(same, limiter(nil, 42))
		}
		differ := 0
		for i := range int64(10_000) {
			d := l.Take(keyName(i), 2)
			for _, s := range same {
				require.Equal(t, d, s.Take(keyName(i), 2), name)
			}
			if d != other.Take(keyName(i), 2) {
				differ++
			}
		}
		require.NotZero(t, differ, "the seed shows")

		c := sketchlimit.Config{Limit: 3, Window: time.Hour, Keys: 1, Seed: 5, Hash: hash(6)}
		text := "sketchlimit: Seed 5 with " + name + "(6), must be 0 or the same"
		_, err := sketchlimit.New(c)
		require.EqualError(t, err, text)
		_, _, err = c.Size()
		require.EqualError(t, err, text)
		_, err = inflight.New(inflight.Config{Limit: 1, Requests: 1, Seed: 5, Hash: hash(6)})
		require.EqualError(t, err, text)
	}
}

// The hashes of a seed are the same on every machine and from version to version:
// snapshots and other machines rely on them.
func TestValuesOfHashes(t *testing.T) {
	for _, tt := range []struct {
		bytes int
		keyed uint64
		xx    uint64
	}{
		{0, 0x78a9c701dca0f551, 0x1de32d3a0a7e39d0},
		{3, 0xfc81c2c932cff6ab, 0xdc740ec934992564},
		{4, 0x653b18391a119602, 0xb65ba548b1fb4584},
		{8, 0x4b39cc8daab8699d, 0x6e08de075d81e1fd},
		{16, 0x11924ca796e5ee9a, 0xc48c31ce5fdf1a6f},
		{17, 0x752cf9d5ffb5188e, 0xac02a52697a3fa26},
		{64, 0x793fa1abbb2d222d, 0xd1f4e2b180fa8735},
		{65, 0x56ed3c7accea0121, 0xb7c8907401c585bb},
		{300, 0xbdb6b1187d726182, 0xaae47e526fd7795d},
	} {
		key := []byte(strings.Repeat("sketchlimit", 30))[:tt.bytes]
		require.Equal(t, tt.keyed, sketchlimit.KeyedHash(7).Sum64(key), "%d bytes", tt.bytes)
		require.Equal(t, tt.xx, sketchlimit.XXHash(7).Sum64(key), "%d bytes", tt.bytes)
	}
}

// secret is a Hash of one's own: SHA-256 under a secret.
type secret [32]byte

func (h secret) Sum64(key []byte) uint64 {
	var room [128]byte // keeps short keys on the stack
	sum := sha256.Sum256(append(append(room[:0], h[:]...), key...))
	return binary.LittleEndian.Uint64(sum[:])
}
