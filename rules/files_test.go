package rules_test

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/rules"
)

// What templates write: empty documents around the one, booleans of YAML 1.1, large
// numbers as floats.
func TestTemplates(t *testing.T) {
	l := load(t, "---\r\n# Source: limits.yaml\r\n---\r\n"+`
domain: yes
descriptors:
  - key: on
    value: off
    shadow_mode: yes
    quota_mode: Off
    detailed_metric: n
    rate_limit: {unit: Minute, requests_per_unit: 1e+06, unlimited: no}
  - {key: a, value: 1.5.2, shadow_mode: TRUE, rate_limit: {unit: day, requests_per_unit: 1_000}}
---
---
# the end
`)
	rule := l.Match("yes", descriptor("on=off"))
	require.NotNil(t, rule)
	require.Equal(t, 1_000_000, rule.Limit)
	require.True(t, rule.Shadow)
	require.False(t, rule.Quota)
	require.False(t, rule.NamedByRequest)
	require.Equal(t, 1000, l.All()[1].Limit)
	require.True(t, l.All()[1].Shadow)
}

// A rule without a number blocks, as in the reference, and says so.
func TestLimitsThatAreNotStated(t *testing.T) {
	l := load(t, `domain: api
descriptors:
- {key: a, rate_limit: {unit: day}}
- {key: b, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: c, rate_limit: {unlimited: true}}
`)
	all := l.All()
	require.Equal(t, l.file+":3: no requests_per_unit, blocks all requests: 0 says so without this warning", all[0].Warning)
	require.Zero(t, all[0].Limit)
	require.Empty(t, all[1].Warning)
	require.Empty(t, all[2].Warning)
}

// Above 0.6 times a limit of more than 16 the stated size misses its goal.
func TestUnitsPerKeyNearTheLimit(t *testing.T) {
	l := load(t, `domain: api
descriptors:
- {key: a, rate_limit: {unit: day, requests_per_unit: 20, keys: 1000, units_per_key: 12}}
- {key: b, rate_limit: {unit: day, requests_per_unit: 20, keys: 1000, units_per_key: 13}}
- {key: c, rate_limit: {unit: day, requests_per_unit: 16, keys: 1000, units_per_key: 16}}
`)
	all := l.All()
	require.Empty(t, all[0].Warning)
	require.Equal(t, l.file+":4: units_per_key 13, above 12, 0.6 times the limit, first requests of new keys are denied: state less and a higher headroom", all[1].Warning)
	require.Empty(t, all[2].Warning)
}

// A reload for which the machine has not the memory is refused, and the rules stay as
// they were.
func TestMemoryThatThereIsNot(t *testing.T) {
	if runtime.GOOS != "linux" || strconv.IntSize < 64 {
		t.Skip("nobody says how much there is")
	}
	l, err := rules.Options{MaxMemoryBytes: math.MaxInt}.New(rules.File{Name: "rules.yaml", Data: []byte("domain: api\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n")})
	require.NoError(t, err)
	require.True(t, l.Do("api", ask(1, "a=1")).Admitted)
	err = l.Replace(rules.File{Name: "rules.yaml", Data: []byte("domain: api\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1, memory: 65536GiB}}\n")})
	require.ErrorContains(t, err, "rules.yaml:3: memory 70368744177664, takes ")
	require.False(t, l.Do("api", ask(1, "a=1")).Admitted)
}

// A limit that does not fit is lower, and says so.
func TestLimitsAreHeld(t *testing.T) {
	l := load(t, `domain: api
descriptors:
- {key: a, rate_limit: {unit: day, requests_per_unit: 2147483647}}
- {key: b, rate_limit: {unit: day, requests_per_unit: 4294967295}}
- {key: c, rate_limit: {unit: day, requests_per_unit: 2147483648, algorithm: token_bucket}}
`)
	all := l.All()
	require.Empty(t, all[0].Warning)
	require.Equal(t, l.file+":4: requests_per_unit 4294967295, is held to 2147483647", all[1].Warning)
	require.Equal(t, l.file+":5: requests_per_unit 2147483648, is held to 2147483647", all[2].Warning)
	require.Equal(t, math.MaxInt32, all[1].Limit)
	require.Equal(t, math.MaxInt32, all[2].Burst)
	require.True(t, l.Do("api", ask(math.MaxInt32, "b=1")).Admitted)
	require.False(t, l.Do("api", ask(1, "b=1")).Admitted)
}

// Folders as Kubernetes mounts them: links into a hidden folder, which is not read a
// second time.
func TestFolders(t *testing.T) {
	root := t.TempDir()
	write := func(name, domain string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("domain: "+domain+"\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]"), 0o600))
	}
	link := func(to, name string) { require.NoError(t, os.Symlink(to, filepath.Join(root, name))) }
	write("config/..2026/a.yaml", "a")
	write("config/..2026/sub/b.yml", "b")
	write("config/.c.yaml", "c")
	write("config/deep/er/d.yaml", "d")
	write("config/e.txt", "e")
	link("..2026", "config/..data")
	link("..data/a.yaml", "config/a.yaml")
	link("..data/sub", "config/sub")
	link("../..", "config/deep/er/back")
	link("nowhere", "config/nothing")
	r, err := rules.Load(64<<20, filepath.Join(root, "config"))
	require.NoError(t, err)
	var domains []string
	for _, rule := range r.All() {
		domains = append(domains, rule.Domain)
	}
	require.Equal(t, []string{"a", "d", "b"}, domains)

	link("nowhere", "config/nothing.yaml")
	require.ErrorIs(t, r.Reload(), os.ErrNotExist)
}

func TestMergeDomains(t *testing.T) {
	file := func(name, text string) rules.File {
		return rules.File{Name: name, Data: []byte("domain: api\ndescriptors:\n" + text)}
	}
	a := file("a", "- {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}\n- {key: w, value: x*, rate_limit: {unit: hour, requests_per_unit: 1}}")
	b := file("b", "- {key: b, rate_limit: {unit: hour, requests_per_unit: 2}}\n- {key: w, value: xy*, rate_limit: {unit: hour, requests_per_unit: 2}}")
	o := rules.Options{MaxMemoryBytes: 64 << 20}
	_, err := o.New(a, b)
	require.EqualError(t, err, "b: duplicate domain 'api' in config file")
	o.MergeDomains = true
	r, err := o.New(a, b)
	require.NoError(t, err)
	require.Equal(t, "a:3", r.Match("api", descriptor("a=1")).Line)
	require.Equal(t, "b:3", r.Match("api", descriptor("b=1")).Line)
	require.Equal(t, "a:4", r.Match("api", descriptor("w=xyz")).Line, "the first that fits")
	require.EqualError(t, r.Replace(a, b, a), "a:3: duplicate descriptor composite key 'api.a'")

	folder := t.TempDir()
	for _, f := range []rules.File{a, b} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, f.Name+".yaml"), f.Data, 0o600))
	}
	_, err = rules.Check(folder)
	require.ErrorContains(t, err, "duplicate domain")
	all, err := o.Check(folder)
	require.NoError(t, err)
	require.Len(t, all, 4)
}

func TestStatsOfFiles(t *testing.T) {
	const text = "domain: api\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]"
	l := load(t, text)
	require.Equal(t, rules.Stats{Loads: 1}, l.Stats())
	l.write(t, "domain: [")
	err := l.Reload()
	require.Error(t, err)
	l.Take("apo", 1, descriptor("k=1"))
	l.Take("api", 1, descriptor("k=1"))
	l.Take("apo", 1)
	require.Equal(t, rules.Stats{Loads: 1, FailedLoads: 1, LastError: err, UnknownDomains: 2}, l.Stats())
	l.write(t, text)
	require.NoError(t, l.Reload())
	require.Equal(t, rules.Stats{Loads: 2, FailedLoads: 1, UnknownDomains: 2}, l.Stats())
}
