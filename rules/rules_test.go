package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/testkit"
	"github.com/sketchlimit/sketchlimit/rules"
)

// clock is a time that tests set; it starts at the epoch, where all windows begin.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

// loaded is rules of one file that a test can write again.
type loaded struct {
	*rules.Rules
	clock *clock
	file  string
}

func load(t testing.TB, text string) *loaded {
	t.Helper()
	l := &loaded{clock: &clock{time.Unix(0, 0)}, file: filepath.Join(t.TempDir(), "rules.yaml")}
	l.write(t, text)
	var err error
	l.Rules, err = rules.Options{MaxMemoryBytes: 64 << 20, Hash: sketchlimit.MapHash(), Clock: l.clock.read}.Load(l.file)
	require.NoError(t, err)
	return l
}

func (l *loaded) write(t testing.TB, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(l.file, []byte(text), 0o600))
}

// take sends a request of one unit with these descriptors, and returns what of it
// is left for each.
func (l *loaded) take(domain string, descriptors ...string) string {
	list := make([]rules.Descriptor, len(descriptors))
	for i, d := range descriptors {
		list[i] = descriptor(d)
	}
	admitted, statuses := l.Take(domain, 1, list...)
	answer := "refused"
	if admitted {
		answer = "admitted"
	}
	for _, s := range statuses {
		switch {
		case s.Rule == nil || s.Rule.Unlimited:
			answer += " -"
		case s.Allowed:
			answer += fmt.Sprint(" ", s.Remaining)
		default:
			answer += fmt.Sprint(" !", s.Remaining)
		}
	}
	return answer
}

func TestCountersAreLimitedEach(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: 10s, requests_per_unit: 2}}
  - {key: user, value: root, rate_limit: {unit: 10s, requests_per_unit: 1}}
  - {key: user, value: mallory, rate_limit: {unit: 10s, requests_per_unit: 0}}
  - {key: user, value: friend}
  - {key: user, value: owner, rate_limit: {unlimited: true}}
`)
	for _, want := range []string{"admitted 1", "admitted 0", "refused !0"} {
		require.Equal(t, want, l.take("api", "user=ann"))
	}
	require.Equal(t, "admitted 1", l.take("api", "user=bob"))
	require.Equal(t, "admitted 0", l.take("api", "user=root"))
	require.Equal(t, "refused !0", l.take("api", "user=root"))
	require.Equal(t, "refused !0", l.take("api", "user=mallory"))
	for range 3 {
		require.Equal(t, "admitted -", l.take("api", "user=friend"))
		require.Equal(t, "admitted -", l.take("api", "user=owner"))
		require.Equal(t, "admitted -", l.take("other", "user=ann"))
		require.Equal(t, "admitted -", l.take("api", "nobody=knows"))
		require.Equal(t, "admitted", l.take("api"))
	}

	_, statuses := l.Take("api", 1, descriptor("user=ann"), descriptor("user=mallory"))
	require.Equal(t, sketchlimit.Decision{Limit: 2, RetryAfter: 10 * time.Second, ResetAfter: 10 * time.Second}, statuses[0].Decision)
	require.Equal(t, sketchlimit.Decision{RetryAfter: sketchlimit.Never}, statuses[1].Decision)

	l.clock.now = l.clock.now.Add(10 * time.Second)
	require.Equal(t, "admitted 1", l.take("api", "user=ann"))
}

func TestAlgorithms(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: fixed, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: sliding, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: sliding_window}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: token_bucket, keys: 1000}}
  - {key: burst, rate_limit: {unit: hour, requests_per_unit: 60, algorithm: token_bucket, burst: 2, keys: 1000}}
`)
	for _, key := range []string{"fixed=x", "sliding=x", "bucket=x", "burst=x"} {
		require.Equal(t, "admitted 1", l.take("api", key))
		require.Equal(t, "admitted 0", l.take("api", key))
	}
	require.Equal(t, "refused !0", l.take("api", "burst=x"))
	l.clock.now = l.clock.now.Add(time.Minute)
	require.Equal(t, "admitted 1", l.take("api", "fixed=x"))
	require.Equal(t, "refused !0", l.take("api", "sliding=x"))
	require.Equal(t, "admitted 1", l.take("api", "bucket=x"))
	require.Equal(t, "admitted 0", l.take("api", "burst=x"), "one a minute flows back")
	require.Equal(t, 2, l.Match("api", descriptor("bucket=x")).Burst, "the limit, unless given")
}

// A request that is refused takes nothing from the rules that would have admitted it.
func TestAllOrNothing(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: second, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: blocked, rate_limit: {unit: hour, requests_per_unit: 0}}
`)
	both := []string{"hour=x", "second=x"}
	require.Equal(t, "admitted 9 0", l.take("api", both...))
	for range 20 {
		require.Equal(t, "refused 9 !0", l.take("api", both...))
	}
	require.EqualValues(t, 20, l.All()[0].Stats().Denied)
	require.Zero(t, l.All()[1].Stats().Denied)
	require.Equal(t, "refused 9 !0 !0", l.take("api", append(both, "blocked=x")...))
	require.EqualValues(t, 21, l.All()[0].Stats().Denied, "also where another rule blocks")
	l.clock.now = l.clock.now.Add(time.Second)
	require.Equal(t, "admitted 8 0", l.take("api", both...))
	require.Equal(t, "admitted 7", l.take("api", "hour=x"))
}

// Descriptors of a request that lead to one counter are asked for their sum in one
// step. Or else a request that waited until a unit is free would take that, be refused
// another one, and so for ever.
func TestOneCounterIsAskedOnce(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: path, value: /items/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 6, algorithm: token_bucket}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 9}}
`)
	twice := []string{"path=/items/1", "path=/items/2"}
	for _, want := range []string{"admitted 4 4", "admitted 2 2", "admitted 0 0", "refused !0 !0", "refused !0 !0"} {
		require.Equal(t, want, l.take("api", twice...))
	}
	require.EqualValues(t, 4, l.All()[0].Stats().Denied)
	l.clock.now = l.clock.now.Add(10 * time.Minute)
	require.Equal(t, "refused !1 !1", l.take("api", twice...))
	_, statuses := l.Take("api", 1, descriptor(twice[0]), descriptor(twice[1]))
	require.Equal(t, 10*time.Minute, statuses[1].RetryAfter)
	l.clock.now = l.clock.now.Add(10 * time.Minute)
	require.Equal(t, "admitted 0 0", l.take("api", twice...))
	require.Equal(t, "admitted 7 8 7", l.take("api", "user=1", "user=2", "user=1"))
}

// Rules in shadow mode count what passes, and show in Stats what they would not let
// pass, once.
func TestShadowsCountWhatPasses(t *testing.T) {
	for _, others := range []string{"", ", more=x"} { // with one rule that may refuse, and with two
		l := load(t, `
domain: api
descriptors:
  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: more, rate_limit: {unit: hour, requests_per_unit: 100}}
`)
		both := strings.Split("shadow=x, plain=x"+others, ", ")
		require.Regexp(t, "^admitted 2 0", l.take("api", both...))
		require.Regexp(t, "^refused 2 !0", l.take("api", both...))
		require.Equal(t, "admitted 1", l.take("api", "shadow=x"))
		require.Equal(t, "admitted 0", l.take("api", "shadow=x"))
		require.Equal(t, "admitted !0", l.take("api", "shadow=x"))
		require.Regexp(t, "^refused !0 !0", l.take("api", both...))
		require.EqualValues(t, 2, l.All()[0].Stats().Denied)
		require.EqualValues(t, 2, l.All()[1].Stats().Denied)
	}
}

func TestZeroUnitsOnlyLook(t *testing.T) {
	l := load(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 2}}]")
	for range 3 {
		admitted, statuses := l.Take("api", 0, descriptor("user=ann"))
		require.True(t, admitted)
		require.Equal(t, 2, statuses[0].Remaining)
	}
	l.take("api", "user=ann")
	l.take("api", "user=ann")
	admitted, _ := l.Take("api", 0, descriptor("user=ann"))
	require.False(t, admitted)
	admitted, _ = l.Take("api", -1, descriptor("user=bob"))
	require.False(t, admitted)
}

func TestModes(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, value: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, value: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: quota, value: s, quota_mode: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
`)
	require.Equal(t, "admitted 4 0", l.take("api", "plain=1", "shadow=1"))
	require.Equal(t, "admitted 3 !0", l.take("api", "plain=1", "shadow=1"))
	require.Equal(t, "admitted !0", l.take("api", "shadow=1"))

	require.Equal(t, "admitted 0 1", l.take("api", "quota=a", "quota=b"))
	require.Equal(t, "admitted !0 0", l.take("api", "quota=a", "quota=b"), "one quota has some left")
	require.Equal(t, "refused !0 !0", l.take("api", "quota=a", "quota=b"))
	require.Equal(t, "refused 3 !0 !0", l.take("api", "plain=1", "quota=a", "quota=b"))
	require.Equal(t, "refused !0", l.take("api", "quota=a"))
	require.Equal(t, "admitted !0 !0", l.take("api", "quota=a", "quota=s"), "a shadow does not refuse")
}

// One rule replaces another by name, also if it is unlimited, or replaced itself; the
// counts of what is replaced stay as they are.
func TestReplaces(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: user, rate_limit: {name: general, unit: hour, requests_per_unit: 1}}
  - {key: path, rate_limit: {name: special, unit: hour, requests_per_unit: 3, replaces: [{name: general}]}}
  - {key: free, rate_limit: {unlimited: true, replaces: [{name: special}, {name: nobody}]}}
  - {key: nameless, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: open, rate_limit: {name: open, unlimited: true}}
  - {key: closed, rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: open}]}}
`)
	require.Equal(t, "admitted - 2 0", l.take("api", "user=1", "path=1", "nameless=1"))
	require.Equal(t, "admitted - - -", l.take("api", "free=1", "path=1", "user=1"))
	require.Equal(t, "admitted 0", l.take("api", "user=1"))
	require.Equal(t, "admitted 1 -", l.take("api", "path=1", "user=1"))
	_, statuses := l.Take("api", 1, descriptor("open=1"), descriptor("closed=1"))
	require.True(t, statuses[0].Rule.Unlimited, "there is nothing to replace")
}

func TestReload(t *testing.T) {
	const file = `
domain: api
descriptors:
  - {key: same, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: other, rate_limit: {unit: hour, requests_per_unit: 3, keys: 500}}
`
	l := load(t, file)
	memory := l.MemoryBytes()
	take := func() string { return l.take("api", "same=1") + ", " + l.take("api", "other=1") }
	require.Equal(t, "admitted 2, admitted 2", take())
	require.NoError(t, l.Reload())
	require.Equal(t, "admitted 1, admitted 1", take(), "nothing has changed")

	// What a key has used it has used of another limit, too.
	l.write(t, strings.NewReplacer("3}", "3, name: new}", "3, keys", "4, keys").Replace(file)+"  - {key: new, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	require.NoError(t, l.Reload())
	require.Equal(t, "admitted 0, admitted 1", take())
	require.Equal(t, "admitted 0", l.take("api", "new=1"))
	require.Equal(t, "new", l.Match("api", descriptor("same=1")).Name)
	require.Greater(t, l.MemoryBytes(), memory)

	// A wrong file, or none, changes nothing.
	before := l.All()
	for _, c := range []struct{ text, want string }{
		{strings.Replace(file, "hour", "our", 1), l.file + ":4: invalid rate limit unit 'our'"},
		{strings.Replace(file, "keys: 500", "keys: 200000000", 1), "must be at most 67108864; the most, "},
		{strings.Replace(file, "keys: 500", "keys: 200000000", 1), "takes the rule at " + l.file + ":5"},
		{strings.Replace(file, "keys: 500", "memory: 100", 1), l.file + ":5: memory 100, must be at least"},
	} {
		l.write(t, c.text)
		require.ErrorContains(t, l.Reload(), c.want)
		require.Equal(t, before, l.All())
	}
	require.NoError(t, os.Remove(l.file))
	require.ErrorIs(t, l.Reload(), os.ErrNotExist)
	require.Equal(t, "refused !0, admitted 0", take())

	// A size, too, carries on what was counted; another window or algorithm begins
	// anew, and so does another place.
	for _, c := range []struct{ text, want string }{
		{file, "refused !0, refused !0"},
		{strings.Replace(file, "keys: 500", "keys: 501", 1), "refused !0, refused !0"},
		{strings.Replace(file, "keys: 500", "memory: 64KiB", 1), "refused !0, refused !0"},
		{strings.Replace(file, "keys: 500", "keys: 500, overload: deny_proven", 1), "refused !0, refused !0"},
		{strings.Replace(file, "3, keys: 500", "5, keys: 500", 1), "refused !0, admitted 0"},
		{strings.Replace(file, "3, keys: 500", "5, keys: 500, unit_multiplier: 2", 1), "refused !0, admitted 4"},
		{strings.Replace(file, "keys: 500", "algorithm: sliding_window", 1), "refused !0, admitted 2"},
		{strings.Replace(file, "3, keys: 500", "3, unit_multiplier: 2", 1), "refused !0, admitted 2"},
		{strings.Replace(file, "key: other", "key: other, prefixes: {ipv4: 24, ipv6: 48}", 1), "refused !0, admitted 2"},
	} {
		l.write(t, c.text)
		require.NoError(t, l.Reload())
		require.Equal(t, c.want, take(), c.text)
	}
}

// A rule is made for the traffic that it is sized for.
func TestForecast(t *testing.T) {
	testkit.OneGoroutine(t)
	l := load(t, `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 100, keys: 10000, false_denial_rate: 0.001}}
  - {key: memory, rate_limit: {unit: minute, requests_per_unit: 100, memory: 64KiB}}
  - {key: blocked, rate_limit: {unit: minute, requests_per_unit: 0}}
`)
	rule := l.All()[0]
	f, err := rule.Forecast()
	require.NoError(t, err)
	require.Equal(t, rule.MemoryBytes(), f.MemoryBytes)
	require.LessOrEqual(t, f.Stated().FalseDenialRate, 0.001)
	require.Greater(t, f.At[4].FalseDenialRate, 0.001, "beyond the headroom")
	require.InDelta(t, 10_000, f.Keys, 100)
	more := load(t, `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 100, keys: 10000, units_per_key: 40, headroom: 4}}
`).All()[0]
	require.Greater(t, more.MemoryBytes(), 3*rule.MemoryBytes())
	f, err = more.Forecast()
	require.NoError(t, err)
	require.LessOrEqual(t, f.Stated().FalseDenialRate, 1e-5)
	require.LessOrEqual(t, f.At[2].FalseDenialRate, 1e-5, "at twice the load")
	_, err = l.All()[1].Forecast()
	require.EqualError(t, err, "tune: Traffic.Keys 0, must be 1 … 2147483647")
	_, err = l.All()[2].Forecast()
	require.EqualError(t, err, "sketchlimit: Limit 0, must be 1 … 2147483647")
}

// Of two rules that meet twenty times what they are made for, one goes on admitting
// newcomers.
func TestOverload(t *testing.T) {
	l := load(t, `
domain: api
descriptors:
  - {key: deny, rate_limit: {unit: hour, requests_per_unit: 20, keys: 1000, overload: deny}}
  - {key: spare, rate_limit: {unit: hour, requests_per_unit: 20, keys: 1000, overload: deny_proven}}
`)
	for i := range 80_000 {
		l.clock.now = l.clock.now.Add(40 * time.Millisecond)
		l.Take("api", 1, descriptor(fmt.Sprint("deny=", i/4)))
		l.Take("api", 1, descriptor(fmt.Sprint("spare=", i/4)))
	}
	deny, spare := l.All()[0], l.All()[1]
	require.Equal(t, sketchlimit.Deny, deny.Overload)
	require.Equal(t, sketchlimit.DenyProven, spare.Overload)
	require.Greater(t, deny.Stats().FalseDenialRate, 0.1, "the load is too light to tell")
	require.False(t, deny.Stats().OverCapacity.Active)
	require.True(t, spare.Stats().OverCapacity.Active)
	require.Less(t, spare.Stats().Denied, uint64(100))
	for i := range 100 {
		admitted, _ := l.Take("api", 1, descriptor(fmt.Sprint("spare=new", i)))
		require.True(t, admitted)
	}
}

func TestFiles(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "rules [of *") // no pattern
	require.NoError(t, os.Mkdir(directory, 0o700))
	write := func(name, domain string) string {
		path := filepath.Join(directory, name)
		require.NoError(t, os.WriteFile(path, []byte("domain: "+domain+"\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]"), 0o600))
		return path
	}
	_, err := rules.Load(64<<20, directory)
	require.ErrorContains(t, err, `must be at least 1 that ends in .yaml or .yml`)
	_, err = rules.Load(64 << 20)
	require.ErrorContains(t, err, `rules: no files in []`)
	_, err = rules.Load(64<<20, filepath.Join(directory, "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)

	write("a.yaml", "a")
	b := write("b.yaml", "b")
	write("c.txt", "c")
	r, err := rules.Load(64<<20, directory)
	require.NoError(t, err)
	require.Len(t, r.All(), 2)
	require.NotNil(t, r.Match("b", descriptor("k=1")))
	require.Nil(t, r.Match("c", descriptor("k=1")))
	admitted, _ := r.Take("a", 1, descriptor("k=1"))
	require.True(t, admitted)
	admitted, _ = r.Take("a", 1, descriptor("k=1"))
	require.False(t, admitted, "the wall clock")

	_, err = rules.Load(64<<20, directory, b)
	require.EqualError(t, err, b+": duplicate domain 'b' in config file")
}

// The stated total is what the heap shows.
func TestMemoryIsStated(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: api\ndescriptors:\n")
	for i := range 20 {
		fmt.Fprintf(&text, "- {key: k%d, rate_limit: {unit: hour, requests_per_unit: %d, keys: %d}}\n", i, 32+i, 100_000*(i+1))
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r, err := rules.Load(64<<20, file)
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	stated := r.MemoryBytes()
	sum := 0
	checked, err := rules.Check(file)
	require.NoError(t, err)
	for i, rule := range checked {
		require.Equal(t, r.All()[i].MemoryBytes(), rule.MemoryBytes())
	}
	for _, rule := range r.All() {
		sum += rule.MemoryBytes()
	}
	require.Equal(t, sum, stated)
	require.InEpsilon(t, stated, after.HeapAlloc-before.HeapAlloc, 0.02)
}

// A rule that leaves nothing open has one counter, and no memory for more.
func TestOneCounterIsSmall(t *testing.T) {
	l := load(t, "domain: api\ndescriptors: [{key: k, value: v, rate_limit: {unit: hour, requests_per_unit: 5}}]")
	require.Less(t, l.MemoryBytes(), 8<<10)
	require.Equal(t, 1, l.All()[0].Keys)
}

// Reloads while requests come: every decision is by one reading of the files, and the
// counter that both have never admits more than its limit.
func TestReloadUnderLoad(t *testing.T) {
	file := func(limit int) string {
		return fmt.Sprintf("domain: api\ndescriptors:\n- {key: same, rate_limit: {unit: hour, requests_per_unit: %d}}\n", limit)
	}
	l := load(t, file(1000))
	var wg sync.WaitGroup
	var admitted [4]int
	for g := range admitted {
		wg.Go(func() {
			for range 4000 {
				ok, statuses := l.Take("api", 1, descriptor("same=1"), descriptor("nobody=1"))
				if ok {
					admitted[g]++
				}
				if statuses[0].Rule == nil || statuses[1].Rule != nil {
					t.Error("a rule is missing")
				}
			}
		})
	}
	for i := range 50 {
		l.write(t, file(1000-i%3*100))
		require.NoError(t, l.Reload())
	}
	l.write(t, file(1000))
	require.NoError(t, l.Reload())
	wg.Wait()
	sum := admitted[0] + admitted[1] + admitted[2] + admitted[3]
	require.LessOrEqual(t, sum, 1000)
	for ; sum < 1000; sum++ {
		require.Equal(t, fmt.Sprint("admitted ", 999-sum), l.take("api", "same=1"), "each unit is counted once")
	}
	require.Equal(t, "refused !0", l.take("api", "same=1"))
}

func TestAllocations(t *testing.T) {
	if raced {
		t.Skip("under the race detector pools forget")
	}
	l := load(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1000000}
    descriptors: [{key: path, value: /search*, rate_limit: {unit: hour, requests_per_unit: 1000000}}]
`)
	user, path := descriptor("user=ann"), descriptor("user=ann path=/search/books")
	require.EqualValues(t, 1, testing.AllocsPerRun(100, func() { l.Take("api", 1, user) }), "the answer")
	require.EqualValues(t, 1, testing.AllocsPerRun(100, func() { l.Take("api", 1, user, path) }))
	asks := []rules.Ask{{Descriptor: user, N: 2}, {Descriptor: path}, {Descriptor: user, N: 1}, {N: 1, Override: &rules.Override{Limit: 5, Window: time.Hour}}}
	require.EqualValues(t, 1, testing.AllocsPerRun(100, func() { l.Do("api", asks...) }))
}

func TestDocsShowTheExample(t *testing.T) {
	cut := func(file, begin, end string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(text), begin)
		require.True(t, found)
		part, _, _ := strings.Cut(rest, end)
		return part
	}
	shown := strings.TrimSuffix(cut("../docs/rules.md", "```go\n", "```"), "\n")
	require.Equal(t, cut("http_test.go", "func ExampleRules_HTTP() {\n", "\n}\n"), "\t"+strings.ReplaceAll(shown, "\n", "\n\t"))
}

func ExampleRules_Take() {
	file := filepath.Join(os.TempDir(), "rules-example.yaml")
	defer os.Remove(file)
	err := os.WriteFile(file, []byte(`
domain: api
descriptors:
  - key: client
    rate_limit: {unit: hour, requests_per_unit: 100}
    descriptors:
      - {key: path, value: /search*, rate_limit: {unit: 10s, requests_per_unit: 1}}
`), 0o600)
	if err != nil {
		panic(err)
	}
	r, err := rules.Load(64<<20, file)
	if err != nil {
		panic(err)
	}
	for range 2 {
		admitted, statuses := r.Take("api", 1,
			rules.Descriptor{{"client", "ann"}},
			rules.Descriptor{{"client", "ann"}, {"path", "/search/books"}})
		fmt.Println(admitted)
		for _, s := range statuses {
			fmt.Println(" ", s.Rule.Path, s.Remaining, "of", s.Limit)
		}
	}
	// Output:
	// true
	//   client 99 of 100
	//   client.path_/search* 0 of 1
	// false
	//   client 99 of 100
	//   client.path_/search* 0 of 1
}

// Two values that count as one under XXH64, whatever its seed, do not under the hash that
// rules take if not told otherwise.
func TestHash(t *testing.T) {
	const victim, attacker = "customer-0000042", "\x83hr\xdcq\xb8\xed\x92-000\xdf{\xc1H" // the last blocks of a key
	before := strings.Repeat("x", 31)                                                    // with the length of the value, 32 bytes
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte("domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 5}}]"), 0o600))
	for _, c := range []struct {
		load  func() (*rules.Rules, error)
		falls bool
	}{
		{func() (*rules.Rules, error) { return rules.Load(64<<20, file) }, false},
		{func() (*rules.Rules, error) {
			return rules.Options{MaxMemoryBytes: 64 << 20, Hash: sketchlimit.XXHash(0)}.Load(file)
		}, true},
	} {
		l, err := c.load()
		require.NoError(t, err)
		admitted, _ := l.Take("api", 5, descriptor("user="+before+attacker))
		require.True(t, admitted)
		admitted, _ = l.Take("api", 1, descriptor("user="+before+victim))
		require.Equal(t, c.falls, !admitted)
	}
}
