package pageview

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const sound = `<!DOCTYPE html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>Page</title>
<style>:root { color-scheme: light dark } body { font: 16px sans-serif }</style></head>
<body><main><h1>Page</h1><p>Text</p>MORE</main></body></html>`

func page(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write([]byte(text))
	})
}

func TestSoundPage(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser for seconds: without -short")
	}
	Check(t, page(strings.Replace(sound, "MORE", `<h2>Part</h2>
<table><caption>Numbers</caption><tr><td>1</table>
<div style="overflow-x: auto" tabindex="0" role="region" aria-label="wide"><p style="width: 2000px">wide</div>
<svg role="img" aria-label="A circle" viewBox="0 0 200 20" width="200"><circle r="5"/><text y="15" fill="CanvasText">fine</text></svg>`, 1)), "/")
}

// Each of these breaks one promise.
func TestBrokenPagesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser for seconds: without -short")
	}
	mux, paths := http.NewServeMux(), []string{}
	broken := map[string]struct{ more, want string }{
		"/wide":     {`<p style="width: 500px">x`, "/wide 390 light: the page is 5"},
		"/small":    {`<p style="font-size: 10px">little`, "/small 768 dark: <p> little: text of 10.0 px"},
		"/scaled":   {`<svg role="img" aria-label="x" viewBox="0 0 600 20" width="300"><text y="15" font-size="20" fill="CanvasText">far</text></svg>`, "<text> far: text of 10.0 px"},
		"/faint":    {`<p style="color: #777">faint`, "/faint 390 light: <p> faint: contrast 4.48"},
		"/dark":     {`<svg role="img" aria-label="x" width="300"><text y="15">ink</text></svg>`, "/dark 390 dark: <text> ink: contrast 1."},
		"/cut":      {`<svg role="img" aria-label="x" width="20"><text y="15" fill="CanvasText">too long</text></svg>`, "too long: cut by its picture"},
		"/on":       {`<svg role="img" aria-label="x" width="200"><g fill="CanvasText"><text y="15">one</text><text y="15" x="9">two</text></g></svg>`, "two: on other text"},
		"/sliver":   {`<p style="width: 50px">` + strings.Repeat("word ", 20), "a sliver of "},
		"/scroll":   {`<div style="overflow-x: auto"><p style="width: 2000px">wide</div>`, "<div> wide: scrolls, but not by keyboard"},
		"/table":    {`<table><tr><td>1</table>`, "<table> 1: no caption"},
		"/picture":  {`<svg width="10"></svg>`, "<svg> : no text in its place"},
		"/headings": {`<h3>deep</h3>`, "<h3> deep: a heading below one of level 1"},
		"/mains":    {`</main><main>`, "must have one main"},
	}
	for path, b := range broken {
		mux.Handle(path, page(strings.Replace(sound, "MORE", b.more, 1)))
		paths = append(paths, path)
	}
	all := problems(t, mux, paths...)
	for path, b := range broken {
		here, found := []string{}, false
		for _, p := range all {
			if strings.HasPrefix(p, path+" ") {
				here, found = append(here, p), found || strings.Contains(p, b.want)
			}
		}
		require.True(t, found, "%s: want %q, have %q", path, b.want, here)
	}
}
