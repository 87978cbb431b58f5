package deploy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binary builds the service once.
var binary = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "sketchlimitd")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-C", "../cmd/sketchlimitd", "-o", folder+string(filepath.Separator), ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(folder, "sketchlimitd"), nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

func built(t *testing.T) string {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	return path
}

// knownVariables are those that the service has, as --help tells.
func knownVariables(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.Command(built(t), "--help").Output()
	require.NoError(t, err)
	known := map[string]bool{"GOMEMLIMIT": true}
	for _, m := range regexp.MustCompile(`(?m)^  ([A-Z][A-Z0-9_]+) `).FindAllStringSubmatch(string(out), -1) {
		known[m[1]] = true
	}
	require.Greater(t, len(known), 50)
	return known
}

// serve starts the service with variables until the test ends, and returns the
// addresses of what it listens for.
func serve(t *testing.T, variables []string) map[string]string {
	t.Helper()
	c := exec.Command(built(t))
	c.Env = append(os.Environ(), variables...)
	c.Env = append(c.Env, "HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_PORT=0", "PROMETHEUS_ADDR=127.0.0.1:0",
		"LOG_FORMAT=text", "SHUTDOWN_DELAY=0s")
	stderr, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		c.Process.Signal(os.Interrupt)
		c.Wait()
	})
	addresses := map[string]string{}
	line := regexp.MustCompile(`listening for=(\w+) address=(\S+)`)
	scanner := bufio.NewScanner(stderr)
	var log strings.Builder
	for len(addresses) < 4 && scanner.Scan() {
		log.WriteString(scanner.Text() + "\n")
		if m := line.FindStringSubmatch(scanner.Text()); m != nil {
			addresses[m[1]] = m[2]
		}
	}
	require.Len(t, addresses, 4, log.String())
	go io.Copy(io.Discard, stderr)
	return addresses
}

// get returns the status and the body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// The unit is one that systemd takes, and its variables are the service's.
func TestSystemd(t *testing.T) {
	unit, err := os.ReadFile("sketchlimitd.service")
	require.NoError(t, err)
	known := knownVariables(t)
	variables := regexp.MustCompile(`(?m)^Environment=(.*)$`).FindSubmatch(unit)
	require.NotNil(t, variables)
	for _, v := range strings.Fields(string(variables[1])) {
		name, _, _ := strings.Cut(v, "=")
		require.True(t, known[name], name)
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze: only the variables were checked")
	}
	path := filepath.Join(t.TempDir(), "sketchlimitd.service")
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(unit, []byte("/usr/local/bin/sketchlimitd"), []byte(built(t))), 0o600))
	out, err := exec.Command(verify, "verify", "--man=no", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "sketchlimitd.service:", "what it does not know, it ignores")
}

// instructions are the lines of a Dockerfile.
func instructions(t *testing.T) (all [][2]string) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if word, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && word != "#" {
			all = append(all, [2]string{word, rest})
		}
	}
	return all
}

// The image is made as the Dockerfile says, into a folder, and the service runs with
// nothing else in sight and as nobody.
func TestDockerfile(t *testing.T) {
	if os.Getenv("SKETCHLIMIT_IMAGE") == "" {
		t.Skip("SKETCHLIMIT_IMAGE is not set: make image builds all of it without cgo, which takes a minute or two")
	}
	source, err := filepath.Abs("..")
	require.NoError(t, err)
	out, image := t.TempDir(), t.TempDir()
	moved := strings.NewReplacer("/out/", out+"/", "/src", source)
	var user, entry string
	stage := 0
	for _, i := range instructions(t) {
		switch word, rest := i[0], i[1]; word {
		case "FROM":
			stage++
			require.Equal(t, []string{"golang:1.26 AS build", "scratch"}[stage-1], rest)
		case "RUN":
			c := exec.Command("sh", "-c", moved.Replace(rest))
			c.Dir = source
			text, err := c.CombinedOutput()
			require.NoError(t, err, "%s", text)
		case "COPY":
			if stage == 1 {
				continue // the folder is where it is
			}
			f := strings.Fields(strings.TrimPrefix(rest, "--from=build "))
			require.Len(t, f, 2)
			to := filepath.Join(image, f[1])
			if strings.HasSuffix(f[1], "/") {
				to = filepath.Join(to, filepath.Base(f[0]))
			}
			data, err := os.ReadFile(moved.Replace(f[0]))
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
			require.NoError(t, os.WriteFile(to, data, 0o755))
		case "USER":
			user = rest
		case "ENTRYPOINT":
			entry = strings.Trim(rest, `[]"`)
		}
	}
	require.Equal(t, "65532:65532", user)
	require.NoError(t, os.Chmod(image, 0o755))
	if os.Getuid() != 0 {
		t.Skip("not root: the image was made, and not run")
	}
	c := exec.Command(entry, "--version")
	c.Env, c.Dir, c.SysProcAttr = []string{}, "/", inImage(image)
	text, err := c.CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Contains(t, string(text), "sketchlimitd ")
}

// until waits for something that happens soon.
func until(t *testing.T, what func() bool, format string, args ...any) {
	t.Helper()
	require.Eventually(t, what, 30*time.Second, 100*time.Millisecond, append([]any{format}, args...)...)
}
