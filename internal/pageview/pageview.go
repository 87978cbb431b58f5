// Package pageview opens pages in a browser without a window, and finds what some of
// their readers would stumble over: on a telephone, in the dark, without seeing, on
// paper.
package pageview

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// required makes a missing browser an error: where the gate runs, nothing is skipped.
const required = "SKETCHLIMIT_BROWSER_REQUIRED"

// Browse opens a page in a browser and returns what it prints. Without one the test is
// skipped.
func Browse(t testing.TB, args ...string) string {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv(required) == "1" {
			t.Fatalf("no chromium, and %s=1: %v", required, err)
		}
		t.Skip("no chromium: the page has not been opened in a browser")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, browser, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir(),
	}, args...)...)
	command.WaitDelay = 5 * time.Second
	out, err := command.Output()
	require.NoError(t, err)
	return string(out)
}

// Check looks at the pages of a handler as a telephone, a tablet and a desk show them,
// light and dark, and prints them.
func Check(t *testing.T, pages http.Handler, paths ...string) {
	t.Helper()
	require.Empty(t, strings.Join(problems(t, pages, paths...), "\n"))
	server := httptest.NewServer(pages)
	defer server.Close()
	for _, path := range paths {
		file := filepath.Join(t.TempDir(), "page.pdf")
		Browse(t, "--virtual-time-budget=2000", "--no-pdf-header-footer", "--print-to-pdf="+file, server.URL+path)
		pdf, err := os.ReadFile(file)
		require.NoError(t, err, path)
		require.True(t, bytes.HasPrefix(pdf, []byte("%PDF-")), path)
	}
}

//go:embed look.html
var look string

var found = regexp.MustCompile(`<pre id="found">(.*?)</pre>`)

// problems returns what is wrong with the pages. They are opened in frames of a page
// that looks into them. A frame is as wide, and as dark, as it is told to be.
func problems(t *testing.T, pages http.Handler, paths ...string) (all []string) {
	t.Helper()
	list, err := json.Marshal(paths)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/look" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Write([]byte(strings.Replace(look, "PATHS", string(list), 1)))
			return
		}
		pages.ServeHTTP(w, r)
	}))
	defer server.Close()
	dom := Browse(t, "--dump-dom", "--virtual-time-budget=20000", server.URL+"/look")
	text := found.FindStringSubmatch(dom)
	require.Len(t, text, 2, "the look at the pages did not end")
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(text[1])), &all), text[1])
	return all
}
