package pages

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit/internal/pageview"
)

// site returns the site that make site has built.
func site(t *testing.T) http.Handler {
	if _, err := os.Stat("../../site/index.html"); err != nil {
		t.Skip("no site: make site builds it")
	}
	return http.FileServer(http.Dir("../../site"))
}

// drive opens the site in frames, as a telephone and a desk show it, light or dark as its
// address says. It searches, and posts to /found what it saw. The picture keeps it
// loading until then.
const drive = `<!DOCTYPE html><title>look</title><img src="/until-found">
<iframe src="/index.html?q=token+bucket" width="1280" height="900"></iframe>
<script>
const looks = [], scheme = location.search.slice(1), search = document.querySelector('iframe')
search.style = 'color-scheme: ' + scheme
for (const page of ['index', 'comparison', 'migrating', 'architecture', 'whatif'])
	for (const width of [390, 1280]) {
		const frame = document.createElement('iframe')
		Object.assign(frame, { src: '/' + page + '.html', width: width, height: 900 })
		frame.style = 'border: 0; color-scheme: ' + scheme
		const look = { name: page + ', ' + width + ', ' + scheme, width }
		frame.onload = () => setTimeout(() => {
			look.scroll = frame.contentDocument.documentElement.scrollWidth
			const rgb = frame.contentWindow.getComputedStyle(frame.contentDocument.body).backgroundColor
			look.bright = Math.max(...rgb.match(/[0-9.]+/g).slice(0, 3))
		}, 500)
		looks.push(look)
		document.body.append(frame)
	}
const poll = setInterval(() => {
	const found = [...search.contentDocument.querySelectorAll('.md-search-result__item a')].map(a => a.pathname)
	if (!found.length || looks.some(l => l.bright === undefined)) return
	clearInterval(poll)
	fetch('/found', { method: 'POST', body: JSON.stringify({ found, looks }) })
}, 100)
</script>`

// The search runs in the browser, and finds the page on token buckets. No page is wider
// than the telephone, and all are dark where the reader wants that.
func TestSite(t *testing.T) {
	lookAt(t, "light", 200, 255)
	lookAt(t, "dark", 0, 80)
}

func lookAt(t *testing.T, scheme string, darkest, brightest float64) {
	files, posted := site(t), make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/drive":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Write([]byte(drive))
		case "/found":
			body, _ := io.ReadAll(r.Body)
			posted <- body
		case "/until-found":
			for start := time.Now(); len(posted) == 0 && time.Since(start) < 90*time.Second; {
				select {
				case body := <-posted:
					posted <- body
				case <-time.After(100 * time.Millisecond):
				}
			}
		default:
			files.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	pageview.Browse(t, "--dump-dom", server.URL+"/drive?"+scheme)
	require.NotEmpty(t, posted, "no result within 90 s")
	var saw struct {
		Found []string
		Looks []struct {
			Name                  string
			Width, Scroll, Bright float64
		}
	}
	require.NoError(t, json.Unmarshal(<-posted, &saw))
	require.Contains(t, saw.Found, "/algorithms.html")
	require.Len(t, saw.Looks, 10)
	for _, l := range saw.Looks {
		require.LessOrEqual(t, l.Scroll, l.Width, "%s: wider than its frame", l.Name)
		require.LessOrEqual(t, l.Bright, brightest, "%s: brightness of the ground", l.Name)
		require.GreaterOrEqual(t, l.Bright, darkest, "%s: brightness of the ground", l.Name)
	}
}

// No page of the site loads anything from another host.
func TestSiteLoadsNothingFromElsewhere(t *testing.T) {
	site(t)
	loads := regexp.MustCompile(`<(?:script|img|iframe)\b[^>]*\bsrc="?(?:https?:)?//|<link\b[^>]*\brel="?(?:stylesheet|icon|preload|preconnect)\b[^>]*\bhref="?(?:https?:)?//|url\("?https?:`)
	for _, broken := range []string{`<script src="https://x/a.js">`, `<img alt="" src=//x/a.png>`, `<link rel="stylesheet" href="http://x/a.css">`, `url(https://x/a.woff)`} {
		require.Regexp(t, loads, broken)
	}
	root := os.DirFS("../../site")
	names, err := os.ReadDir("../../site")
	require.NoError(t, err)
	checked := 0
	for _, name := range names {
		if strings.HasSuffix(name.Name(), ".html") {
			require.NotRegexp(t, loads, read(t, root, name.Name()), name.Name())
			checked++
		}
	}
	require.Greater(t, checked, 30)
}
