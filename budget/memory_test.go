package budget_test

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
)

// What a budget says it takes is what the heap grows by, and stays so when it is full.
func TestMemory(t *testing.T) {
	testkit.Computes(t)
	for _, c := range []struct{ keys, inFlight, limits, copies int }{
		{1_000_000, 100_000, 1, 1},
		{1_000_000, 100_000, 2, 1},
		{1000, 10_000, 3, 10},
		{1000, 7777, 1, 20},
		{1000, 1000, 4, 20},
		{100, 200, 1, 100},
	} {
		config := budget.Config{InFlight: c.inFlight, HoldFor: time.Hour}
		for range c.limits {
			config.Limits = append(config.Limits, sketchlimit.Config{Limit: 100, Window: time.Hour, Keys: c.keys, Seed: 1})
		}
		all := make([]*budget.Budget, c.copies)
		before, stated := testkit.Heap(), 0
		for i := range all {
			b, err := budget.New(config)
			require.NoError(t, err)
			defer b.Close()
			all[i] = b
			stated += b.MemoryBytes()
		}
		grown := testkit.Heap() - before
		require.InEpsilon(t, grown, stated, 0.02, "%+v: %d bytes stated, %d taken", c, stated, grown)
		var key [16]byte
		for i := range c.inFlight * 3 / 2 {
			key[i%7], key[15] = byte(i), byte(i>>8)
			all[0].Do(sketchlimit.Request{Bytes: key[:]})
		}
		open := all[0].Stats().Open
		require.GreaterOrEqual(t, open, c.inFlight)
		require.LessOrEqual(t, open, c.inFlight*5/4+512)
		require.InDelta(t, grown, testkit.Heap()-before, 64<<10, "%+v: it does not grow", c)
		t.Logf("%+v: %d bytes stated, %d taken", c, stated/c.copies, grown/c.copies)
		runtime.KeepAlive(all)
	}
}

// A hold that may be open takes about 83 bytes.
func TestMemoryOfAHold(t *testing.T) {
	few, many := with(t, 1, time.Hour, fixed(100, time.Hour)), with(t, 100_001, time.Hour, fixed(100, time.Hour))
	require.InDelta(t, 83, float64(many.MemoryBytes()-few.MemoryBytes())/100_000, 3)
}

func TestNothingIsAllocated(t *testing.T) {
	for name, limits := range map[string][]sketchlimit.Config{
		"sliding":        {sliding(1<<20, time.Minute)},
		"bucket and day": {bucket(1<<20, time.Minute), fixed(1<<30, 24*time.Hour)},
	} {
		b := with(t, 100, time.Minute, limits...)
		bytes, addr := []byte("198.51.100.254"), netip.MustParseAddr("2001:db8::1%eth0")
		b.must("held", 1)
		for call, f := range map[string]func(){
			"hold":  func() { h, _ := b.Hold("a", 3); h.Settle(2); h.Settle(2) },
			"above": func() { h, _ := b.Hold("a", 3); h.Settle(5) },
			"extend": func() {
				h, _ := b.Hold("a", 3)
				h.Extend(2)
				h.Extend(0)
				h.Extend(1 << 21)
				h.Units()
				h.Settle(2)
			},
			"denied":    func() { b.Hold("a", 1<<21) },
			"do":        func() { h, _ := b.Do(sketchlimit.Request{Bytes: bytes, Limit: 1 << 20}); h.Settle(1) },
			"addr":      func() { h, _ := b.Do(sketchlimit.Request{Addr: addr}); h.Settle(1) },
			"peek":      func() { b.Do(sketchlimit.Request{Key: "a", Peek: true}) },
			"charge":    func() { b.Charge("a", 1) },
			"look":      func() { b.DoCharge(sketchlimit.Request{Key: "a", Peek: true}) },
			"held":      func() { b.Held("a") },
			"expiring":  func() { b.Hold("b", 1); b.now = b.now.Add(time.Minute); b.Hold("c", 0) },
			"no room":   func() { b.Hold("d", 1) },
			"new key":   func() { h, _ := b.Hold(string(bytes), 1); h.Settle(0) },
			"next hour": func() { b.now = b.now.Add(time.Hour); h, _ := b.Hold("e", 1); h.Settle(1) },
		} {
			require.Zero(t, testing.AllocsPerRun(200, f), "%s: %s", name, call)
		}
		require.NotZero(t, b.Stats().Expired)
	}
}
