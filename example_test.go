package sketchlimit_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

func Example() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit:  3,
		Window: time.Minute,
		Keys:   1_000_000, // distinct clients expected in a window
	})
	if err != nil {
		panic(err)
	}
	for range 4 {
		d := limiter.Take("203.0.113.7", 1)
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// Time is an argument where it should not come from the wall clock: in tests, and
// when a log is replayed.
func ExampleLimiter_TakeAt() {
	limiter, _ := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Minute, Keys: 1000})
	start := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	limiter.TakeAt(start, "user:42", 10)
	d := limiter.TakeAt(start.Add(30*time.Second), "user:42", 1)
	fmt.Println(d.Allowed, d.RetryAfter, d.ResetAfter)
	fmt.Println(limiter.TakeAt(start.Add(30*time.Second+d.RetryAfter), "user:42", 1).Allowed)
	// Output:
	// false 36s 1m30s
	// true
}

// Nothing has to be sampled to know how often a limiter errs.
func ExampleLimiter_Stats() {
	limiter, _ := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Hour, MemoryBytes: 64 << 10, Seed: 1,
		Clock: func() time.Time { return time.Unix(0, 0) },
	})
	for i := range 400_000 {
		limiter.Allow(fmt.Sprint("client ", i%20_000))
	}
	s := limiter.Stats()
	fmt.Println(s.Admitted, s.FalseDenialRate < 1e-5)
	fmt.Printf("%.1g keys within 64 KiB: %t\n", s.DistinctKeys, limiter.MemoryBytes() <= 64<<10)
	// Output:
	// 400000 true
	// 2e+04 keys within 64 KiB: true
}

// Ten a second and a thousand an hour. What one of them refuses, the other does not
// count.
func ExampleNewGroup() {
	second, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Second, Keys: 100_000})
	if err != nil {
		panic(err)
	}
	hour, err := sketchlimit.New(sketchlimit.Config{Limit: 1000, Window: time.Hour, Keys: 1_000_000})
	if err != nil {
		panic(err)
	}
	limits, err := sketchlimit.NewGroup(second, hour)
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	d := limits.TakeAt(now, "203.0.113.7", 11)
	fmt.Println(d.Allowed, "by limiter", d.By, "with limit", d.Limit)
	fmt.Println(hour.Do(sketchlimit.Request{Time: now, Key: "203.0.113.7", Peek: true}).Remaining, "left in the hour")
	// Output:
	// false by limiter 0 with limit 10
	// 1000 left in the hour
}

// At most 3 requests from an address and 4 from its /24. What the network refuses, the
// address does not count.
func ExampleGroup_DoEach() {
	address, err := sketchlimit.New(sketchlimit.Config{Limit: 3, Window: time.Minute, Keys: 1_000_000})
	if err != nil {
		panic(err)
	}
	network, err := sketchlimit.New(sketchlimit.Config{Limit: 4, Window: time.Minute, Keys: 50_000})
	if err != nil {
		panic(err)
	}
	limits, err := sketchlimit.NewGroup(address, network)
	if err != nil {
		panic(err)
	}
	for _, client := range []string{"203.0.113.7", "203.0.113.7", "203.0.113.8", "203.0.113.8", "203.0.113.8"} {
		a := netip.MustParseAddr(client)
		asks := [...]sketchlimit.Ask{
			{Limiter: 0, Request: sketchlimit.Request{Addr: a}},
			{Limiter: 1, Request: sketchlimit.Request{Addr: netip.PrefixFrom(a, 24).Masked().Addr()}},
		}
		d := limits.DoEach(asks[:])
		fmt.Println(client, d.Allowed, "by limiter", d.By, "left:", asks[0].Decision.Remaining, asks[1].Decision.Remaining)
	}
	// Output:
	// 203.0.113.7 true by limiter 0 left: 2 3
	// 203.0.113.7 true by limiter 0 left: 1 2
	// 203.0.113.8 true by limiter 1 left: 2 1
	// 203.0.113.8 true by limiter 1 left: 1 0
	// 203.0.113.8 false by limiter 1 left: 1 0
}

// Two mails a second to each domain: whoever comes too early waits for his turn.
func ExampleLimiter_Reserve() {
	domains, err := sketchlimit.New(sketchlimit.Config{
		Limit: 2, Window: time.Second, Burst: 3, Algorithm: sketchlimit.TokenBucket, Keys: 100_000,
		Clock: func() time.Time { return time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		panic(err)
	}
	for range 4 {
		fmt.Println(domains.Reserve(sketchlimit.Request{Key: "example.org"}))
	}
	// Output:
	// 0s <nil>
	// 500ms <nil>
	// 1s <nil>
	// 0s sketchlimit: the queue is full
}

// Count failures only: a user who knows the password is never limited, one who guesses
// has five tries in ten minutes.
func ExampleLimiter_Charge() {
	failures, err := sketchlimit.New(sketchlimit.Config{Limit: 5, Window: 10 * time.Minute, Keys: 100_000})
	if err != nil {
		panic(err)
	}
	defer failures.Close()
	login := func(user, password string) string {
		if !failures.Peek(user).Allowed {
			return "try again later"
		}
		if password != "secret" {
			failures.Charge(user, 1)
			return "wrong password"
		}
		return "welcome"
	}
	for range 100 {
		login("ann", "secret")
	}
	fmt.Println(login("ann", "secret"))
	for range 5 {
		login("eve", "guess")
	}
	fmt.Println(login("eve", "secret"))
	// Output:
	// welcome
	// try again later
}

// A limiter for a thousand clients meets many more. It grows as far as it may, and then
// refuses only those of whom it is certain that they are above the limit.
func ExampleOverload() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 100, Window: time.Hour,
		Keys: 1000, MaxMemoryBytes: 64 << 10, Overload: sketchlimit.DenyProven,
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close()
	began, now := limiter.MemoryBytes(), time.Unix(0, 0)
	take := func(key string, n int) bool {
		now = now.Add(100 * time.Millisecond)
		return limiter.TakeAt(now, key, n).Allowed
	}

	for i := range 3000 {
		take(fmt.Sprint("client ", i), 20)
	}
	for limiter.MemoryBytes() == began { // it grows beside the requests
		time.Sleep(time.Millisecond)
	}
	for i := range 100_000 { // in three windows
		take(fmt.Sprint("more ", i), 20)
	}
	fmt.Println("over capacity:", limiter.Stats().OverCapacity.Active, "in at most 64 KiB:", limiter.MemoryBytes() <= 64<<10)

	refused, admitted := 0, 0
	for i := range 1000 {
		if !take(fmt.Sprint("newcomer ", i), 1) {
			refused++
		}
	}
	for range 10_000 {
		if take("abuser", 1) {
			admitted++
		}
	}
	fmt.Println("newcomers refused:", refused)
	fmt.Println("an abuser is stopped:", admitted < 1000)
	// Output:
	// over capacity: true in at most 64 KiB: true
	// newcomers refused: 0
	// an abuser is stopped: true
}

// noon is a fixed clock, so that the examples print the same at every time.
func noon() time.Time { return time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC) }

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A hundred requests a minute for each client address, in front of net/http. An IPv6
// client is its /64: other addresses in it do not help.
func Example_addresses() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 1_000_000, Clock: noon})
	check(err)
	limit, err := httplimit.New(limiter, &httplimit.Clients{})
	check(err)
	handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	codes := map[int]int{}
	for i := range 120 {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:1234", i)
		handler.ServeHTTP(w, r)
		codes[w.Code]++
	}
	fmt.Println(codes)
	// Output: map[200:100 429:20]
}

// Ten a second and a thousand an hour, all or nothing. By is the index of the limiter
// that decided.
func Example_secondAndHour() {
	second, err := sketchlimit.New(sketchlimit.Config{Limit: 10, Window: time.Second, Keys: 100_000, Clock: noon})
	check(err)
	hour, err := sketchlimit.New(sketchlimit.Config{Limit: 1000, Window: time.Hour, Keys: 1_000_000, Clock: noon})
	check(err)
	limits, err := sketchlimit.NewGroup(second, hour)
	check(err)

	for range 10 {
		limits.Allow("user:42")
	}
	d := limits.Take("user:42", 1)
	fmt.Println(d.Allowed, "by", []string{"the second", "the hour"}[d.By], "- the hour has", hour.Peek("user:42").Remaining)
	// Output: false by the second - the hour has 990
}

// Ten a minute for free clients and a hundred for those who pay, by one limiter.
func Example_tiers() {
	limits := map[string]int{"free": 10, "paid": 100}
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, LowestLimit: 10, Window: time.Minute, Keys: 100_000, Clock: noon})
	check(err)

	for _, tier := range []string{"free", "paid"} {
		admitted := 0
		for range 150 {
			if limiter.Do(sketchlimit.Request{Key: "user of tier " + tier, Limit: limits[tier]}).Allowed {
				admitted++
			}
		}
		fmt.Println(tier, admitted)
	}
	// Output:
	// free 10
	// paid 100
}

// Yesterday's log, through a limiter that is made today.
func Example_replay() {
	limiter, err := sketchlimit.New(sketchlimit.Config{Limit: 100, Window: time.Minute, Keys: 10_000})
	check(err)
	defer limiter.Close()
	yesterday := time.Now().AddDate(0, 0, -1).Truncate(time.Minute)

	refused := 0
	for i := range 150 { // of one client, in half a minute
		if !limiter.TakeAt(yesterday.Add(time.Duration(i)*200*time.Millisecond), "203.0.113.7", 1).Allowed {
			refused++
		}
	}
	fmt.Println(refused, "would have been refused")
	// Output: 50 would have been refused
}

// What clients have used outlives a restart.
func Example_saveAndLoad() {
	folder, err := os.MkdirTemp("", "")
	check(err)
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "limiter.snapshot")
	config := sketchlimit.Config{Limit: 100, Window: time.Hour, Keys: 100_000, Clock: noon}

	before, err := sketchlimit.New(config)
	check(err)
	before.Take("user:42", 60)
	check(before.Save(path))

	after, err := sketchlimit.New(config)
	check(err)
	check(after.Load(path))
	fmt.Println(after.Peek("user:42").Remaining, "left")
	// Output: 40 left
}

// secretHash is SHA-256 under a secret of 32 random bytes, which snapshots do not hold.
// The room keeps the key on the stack; a longer one is still hashed whole.
type secretHash [32]byte

func (h secretHash) Sum64(key []byte) uint64 {
	var room [128]byte
	sum := sha256.Sum256(append(append(room[:0], h[:]...), key...))
	return binary.LittleEndian.Uint64(sum[:])
}

// A Hash of one's own is one method. SipHash of github.com/dchest/siphash is faster,
// and its method is one line: return siphash.Hash(k0, k1, key).
func ExampleHash() {
	limiter, err := sketchlimit.New(sketchlimit.Config{
		Limit: 1, Window: time.Hour, Keys: 1000, Hash: secretHash{1, 2, 3},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(limiter.Allow("ann"), limiter.Allow("ann"), limiter.Allow("bob"))
	// Output:
	// true false true
}
