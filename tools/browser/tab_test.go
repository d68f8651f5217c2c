package browser

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// serve serves one page of HTML, and /other to go to.
func serve(t *testing.T, head, body string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; style-src 'unsafe-inline'; script-src 'nonce-x'; img-src * data:")
		fmt.Fprintf(w, `<!doctype html><html lang="en"><head><title>A page</title><link rel="icon" href="data:,"><meta name="viewport" content="width=device-width">%s</head><body><main><h1>A page</h1>%s</main></body></html>`, head, body)
	})
	mux.HandleFunc("POST /other", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><p>You said %s</p>`, strings.ToUpper(r.FormValue("word")))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

const form = `<form method="post" action="/other"><label for="w">Word</label><input id="w" name="word"><button>Say it</button></form><p id="p">no script</p>
<script nonce="x">document.getElementById("p").textContent = "a script"</script>`

// TestTab: what a person can do, with and without scripts, and both are clean.
func TestTab(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string]bool{"a script": true, "no script": false} {
		p := open(t, "http://127.0.0.1", scripts)
		base := serve(t, "", form)
		p.host = strings.TrimPrefix(base, "http://")
		p.goTo(base)
		p.sees(name)
		p.accessible("the page")
		p.fill("Word", "hello")
		p.click("Say it")
		p.sees("You said HELLO")
		require.Empty(t, p.heardFaults())
	}
}

// TestTabNotices: what no page may do is noticed, or every other test proves nothing.
func TestTabNotices(t *testing.T) {
	t.Parallel()
	notices := func(body, fault string) {
		t.Helper()
		base := serve(t, "", body)
		p := open(t, base, true)
		p.goTo(base)
		p.until(fault, func() bool { return strings.Contains(strings.Join(p.heardFaults(), "\n"), fault) })
		p.expects("") // all of them
	}
	notices(`<script>1</script>`, "Content Security Policy")
	notices(`<script nonce="x">undefined.x</script>`, "script error")
	notices(`<img alt="" src="http://example.com/x.png">`, "a request to another host: http://example.com/x.png")
	notices(`<img alt="" src="/missing.png">`, "404")
}

// TestAxeNotices: each scheme and each width is looked at.
func TestAxeNotices(t *testing.T) {
	t.Parallel()
	base := serve(t, `<style>body{background:#fff;color:#000} .d,.n,.w{color:inherit}
@media (prefers-color-scheme:dark){body{background:#000;color:#fff}.d{color:#222}}
@media (max-width:400px){.n{color:#eee;background:#fff}}
@media (min-width:1000px){.w{width:5000px}}</style>`, `<p class="d">dark</p><p class="n">narrow</p><p class="w">wide</p><img src="data:,">`)
	p := open(t, base, true)
	p.goTo(base)
	found := strings.Join(p.violations(), "\n")
	for _, want := range []string{`dark at 360 px: Elements must meet`, `dark at 1280 px: Elements must meet`, `light at 360 px: Elements must meet`,
		`light at 1280 px: Images must have`, `at 1280 px the page is`} {
		require.Contains(t, found, want)
	}
	require.NotContains(t, found, "light at 1280 px: Elements must meet")
	require.NotContains(t, found, "at 360 px the page is")
}

// TestScreenshots: the same page gives the same bytes, and the colour scheme others.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	base := serve(t, `<meta name="color-scheme" content="light dark">`, "<p>text</p>")
	p := open(t, base, true)
	p.goTo(base)
	light := p.screenshot()
	require.Equal(t, light, p.screenshot())
	picture, err := png.Decode(bytes.NewReader(light))
	require.NoError(t, err)
	require.Equal(t, wide, picture.Bounds().Dx())
	p.scheme("dark")
	require.NotEqual(t, light, p.screenshot())
}
