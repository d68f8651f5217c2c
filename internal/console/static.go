package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

//go:embed static
var static embed.FS

// staticHash names the present content of a file in its address, so a browser may
// keep it for ever.
func staticHash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// staticURL returns the address of a file in static.
func staticURL(name string) string {
	content, err := static.ReadFile("static/" + name)
	if err != nil {
		panic(err) // a template names a file that is not there; each page's test sees it
	}
	return "/static/" + staticHash(content) + "/" + name
}

// serveStatic serves the files that belong to the pages. They are the same for
// everybody and need no login.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.PathValue("file"))
	content, err := static.ReadFile("static/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if r.PathValue("hash") == staticHash(content) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// htmx.min.js is the file dist/htmx.min.js of the npm package htmx.org, unchanged. A
// test compares it with this hash.
const (
	htmxVersion = "4.0.1"
	htmxHash    = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"
)
