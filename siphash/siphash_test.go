package siphash_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/siphash"
)

func key(first byte) (k [16]byte) {
	for i := range k {
		k[i] = first + byte(i)
	}
	return k
}

// From appendix A of the paper, and vectors.h of its authors' implementation.
func TestVectors(t *testing.T) {
	message := make([]byte, 15)
	for i := range message {
		message[i] = byte(i)
	}
	h := siphash.New(key(0))
	require.Equal(t, uint64(0x726fdb47dd0e0e31), h.Sum64(nil))
	require.Equal(t, uint64(0x74f839c593dc67fd), h.Sum64(message[:1]))
	require.Equal(t, uint64(0xa129ca6149be45e5), h.Sum64(message))
}

func build(t *testing.T, h sketchlimit.Hash) *sketchlimit.Limiter {
	l, err := sketchlimit.New(sketchlimit.Config{
		Limit: 10, Window: time.Minute, Keys: 10_000, Hash: h,
		Clock: func() time.Time { return time.Unix(0, 0) },
	})
	require.NoError(t, err)
	return l
}

// These two have the same XXH64 under every seed; the first one's quota is spent under that,
// and left alone under SipHash.
func TestAttack(t *testing.T) {
	const victim, attacker = "customer-0000042", "\x83hr\xdcq\xb8\xed\x92-000\xdf{\xc1H"
	for hash, falls := range map[sketchlimit.Hash]bool{sketchlimit.XXHash(0): true, siphash.New(key(1)): false} {
		l := build(t, hash)
		require.True(t, l.Take(attacker, 10).Allowed)
		require.Equal(t, falls, !l.Allow(victim))
	}
}

// A snapshot is restored under its own key alone.
func TestSnapshot(t *testing.T) {
	l := build(t, siphash.New(key(1)))
	require.True(t, l.Take("k", 7).Allowed)
	var saved bytes.Buffer
	_, err := l.WriteTo(&saved)
	require.NoError(t, err)
	same := build(t, siphash.New(key(1)))
	_, err = same.ReadFrom(bytes.NewReader(saved.Bytes()))
	require.NoError(t, err)
	require.Equal(t, 3, same.Peek("k").Remaining)
	for _, h := range []sketchlimit.Hash{siphash.New(key(2)), sketchlimit.MapHash(), nil} {
		_, err = build(t, h).ReadFrom(bytes.NewReader(saved.Bytes()))
		require.ErrorIs(t, err, sketchlimit.ErrSnapshotMismatch)
	}
}

func TestAllocatesNothing(t *testing.T) {
	l := build(t, siphash.New(key(1)))
	for name, f := range map[string]func(){ // on the stack, if nothing keeps it
		"string": func() { var key [16]byte; l.Take(string(key[:]), 1) },
		"bytes":  func() { var key [16]byte; l.Do(sketchlimit.Request{Bytes: key[:]}) },
		"addr":   func() { var key [16]byte; l.Do(sketchlimit.Request{Addr: netip.AddrFrom16(key)}) },
	} {
		require.Zero(t, testing.AllocsPerRun(1000, f), name)
	}
}

func BenchmarkTake(b *testing.B) {
	for name, hash := range map[string]sketchlimit.Hash{"KeyedHash": nil, "XXHash": sketchlimit.XXHash(0), "MapHash": sketchlimit.MapHash(), "SipHash": siphash.New(key(1))} {
		for _, n := range []int{16, 64} {
			b.Run(fmt.Sprintf("hash=%s/bytes=%d", name, n), func(b *testing.B) {
				l, err := sketchlimit.New(sketchlimit.Config{Limit: 1 << 20, Window: time.Minute, MemoryBytes: 64 << 10, Hash: hash})
				require.NoError(b, err)
				defer l.Close()
				key := string(make([]byte, n))
				b.ReportAllocs()
				for b.Loop() {
					l.Take(key, 1)
				}
			})
		}
	}
}
