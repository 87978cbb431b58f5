package caddylimit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/internal/machine"
)

// Counts outlive a config. Keys, matchers and what is around the zone may change.
func TestReload(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	s.load(limit("key a\nwindow 1m\nevents 10"))
	s.want(200, 6, "GET", "/")
	first := current()["api"]
	s.load(limit("match {\nmethod GET\n}\nkey {http.request.header.none}a\nwindow 60s\nevents 10\nkeys 1", "jitter 1"))
	s.want(200, 4, "GET", "/")
	s.want(429, 1, "GET", "/")
	require.Same(t, first, current()["api"])
	require.Error(t, s.try(limit("key a\nevents 0\nwindow 1m")))
	s.want(429, 1, "GET", "/")
	s.load(limit("key a\nwindow 2m\nevents 10")) // in windows of another length, nobody can tell what has been used
	s.want(200, 10, "GET", "/")
	require.Len(t, current(), 1)
}

// What was used counts against another limit, too, and in another size, until its
// window is over.
func TestReloadWithOtherSettings(t *testing.T) {
	for _, algorithm := range []string{"sliding", "fixed", "bucket"} {
		t.Run(algorithm, func(t *testing.T) {
			advance := setTime(t, minute)
			s := newServer(t)
			load := func(settings string) {
				s.load(limit("key a\nlimit 100 1d\nwindow 1m\nalgorithm " + algorithm + "\n" + settings))
			}
			load("events 10")
			s.want(200, 6, "GET", "/")
			load("events 20")
			s.want(200, 14, "GET", "/")
			s.want(429, 1, "GET", "/")
			load("events 15")
			s.want(429, 1, "GET", "/")
			load("events 30\nkeys 1000")
			load("events 25\nkeys 2000") // before anybody has come
			s.want(200, 5, "GET", "/")
			s.want(429, 3, "GET", "/")
			require.NotNil(t, current()["api"].limiters[0].formers.Load())
			advance(3 * time.Minute)
			s.want(200, 25, "GET", "/")
			s.want(429, 1, "GET", "/")
			require.Nil(t, current()["api"].limiters[0].formers.Load())
			require.NotNil(t, current()["api"].limiters[1].formers.Load())
			require.Zero(t, current()["api"].limiters[0].Stats().Overdraft)
		})
	}
}

// Settings that change for ever do not take memory for ever, and a key that comes is
// not forgotten.
func TestManyReloads(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	for turn := range 10 {
		s.load(limit(fmt.Sprintf("key a\nwindow 1d\nevents %d", 100+turn)))
		s.want(200, 1, "GET", "/")
		if turn > 0 {
			require.Len(t, *current()["api"].limiters[0].formers.Load(), min(turn, maxFormers))
		}
	}
	require.Equal(t, 99, current()["api"].limiters[0].Peek("a").Remaining) // of 109
}

// A Caddyfile that asks for more memory than the machine has is refused, and the server
// goes on with the one before.
func TestReloadWithMoreMemoryThanThereIs(t *testing.T) {
	most, _, ok := machine.Memory()
	if !ok || most > 1<<45 {
		t.Skip("the machine does not say, or has enough")
	}
	setTime(t, minute)
	s := newServer(t)
	s.load(limit("key a\nwindow 1d\nevents 10"))
	s.want(200, 4, "GET", "/")
	require.ErrorContains(t, s.try(limit(fmt.Sprintf("key a\nwindow 1d\nevents 10\nmemory %dGiB", 2*(most>>30+1)))), "must be at most")
	// Nor together with others, which by themselves would fit.
	part := most * 2 / 3
	two := limit(fmt.Sprintf("key a\nwindow 1d\nevents 10\nmemory %d", part))
	held.Add(int64(part))
	defer held.Add(-int64(part))
	require.ErrorContains(t, s.try(two), "with that of all zones and of the config that runs: ")
	s.want(200, 6, "GET", "/")
	s.want(429, 1, "GET", "/")
}

// What one key has used is charged once, however many requests of it come at the same
// time.
func TestCarriedOnce(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	s.load(limit("key {http.request.uri.path}\nwindow 1m\nevents 10"))
	for path := range 10 {
		s.want(200, 4, "GET", fmt.Sprint("/", path))
	}
	s.load(limit("key {http.request.uri.path}\nwindow 1m\nevents 20"))
	var all sync.WaitGroup
	var admitted atomic.Int64
	for range 20 {
		all.Go(func() {
			for path := range 10 {
				if response, _ := s.ask("GET", fmt.Sprint("/", path)); response.StatusCode == http.StatusOK {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 160, admitted.Load())
}

// A name stands for one zone. The error names what differs.
func TestSameNameOtherSettings(t *testing.T) {
	s := newServer(t)
	handle := func(path, zone string, handler ...string) string {
		return "handle /" + path + "* {\n" + limit(zone, handler...) + "\n}\n"
	}
	const a, b = "key a\nwindow 1h\nevents 10", "key a\nwindow 1h\nevents 11"
	const twice = `zone "api": twice with different settings: `
	differ := func(want, one string) {
		t.Helper()
		require.ErrorContains(t, s.try(one), twice+want)
	}
	differ("limits 10 in 1h0m0s and 11 in 1h0m0s, must be the same, or another name", handle("a", a)+handle("b", b))
	s.load(handle("a", a))
	differ("limits 11 in 1h0m0s and 10 in 1h0m0s", handle("a", b)+handle("b", a))
	differ("limits 10 in 1h0m0s and 11 in 1h0m0s", handle("a", a)+handle("b", b))
	s.load(handle("a", b) + handle("b", b))
	differ("keys 1 and 100000, must be the same, or another name; without keys and memory they are 100000, or 1 if key has",
		handle("a", a)+handle("b", "key {client_ip}\nwindow 1h\nevents 10"))
	differ("algorithm sliding and fixed", handle("a", a)+handle("b", a+"\nalgorithm fixed"))
	differ("snapshot_interval 1m0s and 5m0s, must be the same", handle("a", a)+handle("b", a, "snapshot_interval 5m"))
	differ("snapshot_interval 1m0s and off, must be the same", handle("a", a)+handle("b", a, "snapshot_interval off"))
	differ("storage, must be the same", handle("a", a)+handle("b", a, "storage file_system "+s.storage))
	s.load(handle("a", a, "snapshot_interval 5m") + handle("b", a, "snapshot_interval 5m"))
}

// Two sites that have a zone in common count together, and so does one of them if the
// other goes.
func TestSameZoneTwice(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	handler := limit("key a\nwindow 1h\nevents 10")
	s.load("handle /a* {\n" + handler + "\n}\nhandle /b* {\n" + handler + "\n}")
	s.want(200, 5, "GET", "/a")
	s.want(200, 5, "GET", "/b")
	s.want(429, 1, "GET", "/a")
	s.load("handle /a* {\n" + handler + "\n}")
	s.want(429, 1, "GET", "/a")
}

// Configs that come while requests do: no request fails, and each is counted once. So
// it is if each config has other settings, and so another limiter.
func TestReloadUnderLoad(t *testing.T) {
	t.Run("same", func(t *testing.T) { reloadUnderLoad(t, 0) })
	t.Run("others", func(t *testing.T) { reloadUnderLoad(t, 1) })
}

func reloadUnderLoad(t *testing.T, more int) {
	const events, callers = 2000, 8
	setTime(t, minute)
	s := newServer(t)
	config := func(turn int) string {
		return fmt.Sprintf("vars turn %d\n%s", turn, limit(fmt.Sprintf("key static\nwindow 1h\nevents %d\nkeys %d", events, 1+turn*more)))
	}
	s.load(config(0))
	var admitted, refused, others, closed atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 2 * events / callers {
				r, _ := http.NewRequest("GET", "http://caddy/", nil)
				response, again, err := s.do(r)
				closed.Add(int64(again))
				if err != nil {
					t.Error(err)
					continue
				}
				response.Body.Close()
				switch response.StatusCode {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					others.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	reloads := 0
	for going := true; going; {
		select {
		case <-done:
			going = false
		default:
			reloads++
			s.load(config(reloads))
		}
	}
	t.Logf("%d admitted, %d refused, %d connections closed at once, %d reloads",
		admitted.Load(), refused.Load(), closed.Load(), reloads)
	require.Zero(t, others.Load())
	require.EqualValues(t, events, admitted.Load())
	require.EqualValues(t, events, refused.Load())
	require.Greater(t, reloads, 1)
}

// kept returns the files of the zone's snapshots.
func (s *server) kept() []string {
	files, err := filepath.Glob(filepath.Join(s.storage, "sketch_rate_limit", "*", "*"))
	require.NoError(s.t, err)
	return files
}

// Counts outlive a stop, by a snapshot in Caddy's storage.
func TestRestart(t *testing.T) {
	for _, algorithm := range []string{"sliding", "fixed", "bucket"} {
		t.Run(algorithm, func(t *testing.T) {
			setTime(t, minute)
			s := newServer(t)
			config := limit("key {http.request.header.User}\nlimit 10 1h\nlimit 20 1d\nkeys 1000\nalgorithm " + algorithm)
			s.load(config)
			s.want(200, 7, "GET", "/", "User", "ann")
			require.NoError(t, caddy.Stop())
			require.Len(t, s.kept(), 2)
			s.load(config)
			s.want(200, 3, "GET", "/", "User", "ann")
			s.want(429, 1, "GET", "/", "User", "ann")
			s.want(200, 10, "GET", "/", "User", "bob")
			require.NotContains(t, written.text(), "counts were not")

			// A config that is validated, in another process usually, is asked nothing
			// and so saves nothing.
			require.NoError(t, caddy.Stop())
			before, err := os.Stat(s.kept()[0])
			require.NoError(t, err)
			adapted, err := s.adapt(config)
			require.NoError(t, err)
			var c caddy.Config
			require.NoError(t, json.Unmarshal(adapted, &c))
			require.NoError(t, caddy.Validate(&c))
			after, err := os.Stat(s.kept()[0])
			require.NoError(t, err)
			require.Equal(t, before.ModTime(), after.ModTime())
		})
	}
}

// A snapshot is as long as what came, not as what may come.
func TestSnapshotsAreCompressed(t *testing.T) {
	s := newServer(t)
	s.load(limit("key {http.request.uri.path}\nwindow 1h\nevents 5\nkeys 1e7"))
	s.want(200, 1, "GET", "/")
	require.Greater(t, current()["api"].limiters[0].MemoryBytes(), 20<<20)
	require.NoError(t, caddy.Stop())
	file, err := os.Stat(s.kept()[0])
	require.NoError(t, err)
	require.Less(t, file.Size(), int64(1<<20))
	t.Log(file.Size(), "bytes")
}

// A snapshot is also written now and then.
func TestSnapshotInterval(t *testing.T) {
	s := newServer(t)
	s.load(limit("key a\nwindow 1h\nevents 10\nkeys 10", "snapshot_interval 1s"))
	require.Empty(t, s.kept())
	s.want(200, 1, "GET", "/")
	require.Eventually(t, func() bool { return len(s.kept()) == 1 }, 30*time.Second, 10*time.Millisecond)
}

func TestSnapshotsOff(t *testing.T) {
	s := newServer(t)
	s.load(limit("key a\nwindow 1h\nevents 10", "snapshot_interval off"))
	s.want(200, 1, "GET", "/")
	require.NoError(t, caddy.Stop())
	require.Empty(t, s.kept())
}

// A snapshot that is damaged or of another limiter is told of and left behind, and what
// others left long ago is deleted.
func TestSnapshotsRefused(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	config := limit("key a\nwindow 1h\nevents 10", "storage file_system "+s.storage)
	s.load(config)
	s.want(200, 10, "GET", "/")
	require.NoError(t, caddy.Stop())
	file := s.kept()[0]
	snapshot, err := os.ReadFile(file)
	require.NoError(t, err)
	old := filepath.Join(filepath.Dir(file), "another")
	young := filepath.Join(filepath.Dir(file), "one-more")
	require.NoError(t, os.WriteFile(old, nil, 0o600))
	require.NoError(t, os.WriteFile(young, nil, 0o600))
	require.NoError(t, os.Chtimes(old, time.Time{}, time.Now().Add(-25*time.Hour)))
	for name, damaged := range map[string][]byte{
		"cut":     snapshot[:len(snapshot)/2],
		"changed": append(snapshot[:len(snapshot)-1:len(snapshot)-1], snapshot[len(snapshot)-1]^1),
		"empty":   {},
		"foreign": []byte(strings.Repeat("something else", 100)),
	} {
		written.Reset()
		require.NoError(t, os.WriteFile(file, damaged, 0o600))
		s.load(config)
		s.want(200, 1, "GET", "/")
		require.Contains(t, written.text(), "counts were not restored", name)
		require.NoError(t, caddy.Stop())
	}
	require.NoFileExists(t, old)
	require.FileExists(t, young)
}

// A storage that fails is told of, and the limits go on.
func TestStorageFails(t *testing.T) {
	s := newServer(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.storage, "sketch_rate_limit"), nil, 0o600)) // where a folder should be
	s.load(limit("key a\nwindow 1h\nevents 2"))
	s.want(200, 2, "GET", "/")
	s.want(429, 1, "GET", "/")
	require.NoError(t, caddy.Stop())
	require.Contains(t, written.text(), "counts were not saved")
}

// So is a place where the instance cannot keep its number.
func TestNoInstanceNumber(t *testing.T) {
	s := newServer(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("XDG_DATA_HOME", file)
	s.load(limit("key a\nwindow 1h\nevents 2"))
	s.want(200, 2, "GET", "/")
	s.want(429, 1, "GET", "/")
	require.Contains(t, written.text(), "counts are not kept over a restart")
}

// A config that Caddy refuses changes nothing of the one that runs: its zones are kept
// as that says.
func TestRefusedConfig(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	good := limit("key a\nwindow 1h\nevents 10")
	s.load(good)
	require.Error(t, s.try(limit("key a\nwindow 1h\nevents 10", "snapshot_interval off", "zone zz {\nlimit 1 1m\nipv4_prefix 33\n}")))
	s.want(200, 10, "GET", "/")
	require.NoError(t, caddy.Stop())
	require.Len(t, s.kept(), 1)
	s.load(good)
	s.want(429, 1, "GET", "/")
}

// While the server of a config ends, the next one serves: together they admit what the
// new limit is.
func TestHeirs(t *testing.T) {
	setTime(t, minute)
	s := newServer(t)
	s.load(limit("key a\nwindow 1h\nevents 100"))
	s.want(200, 1, "GET", "/")
	before := current()["api"].limiters[0]
	s.load(limit("key a\nwindow 1h\nevents 101"))
	s.want(200, 60, "GET", "/")
	look := sketchlimit.Request{Key: "a", Peek: true}
	before.carry(look)
	require.Equal(t, 39, before.Do(look).Remaining) // of 100
	require.IsType(t, new(sketchlimit.Limiter), (*current()["api"].limiters[0].formers.Load())[0].Limiter)
}
