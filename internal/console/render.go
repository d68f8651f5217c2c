package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed templates
var templateFiles embed.FS

// menu are the sections of the menu, in order. A section's address is that of its first page.
var menu = []section{
	{"Overview", []menuItem{{"/", "Overview", Viewer}}},
	{"Orders", []menuItem{{"/order", "Find", Viewer}, {"/pending", "Pending", Viewer}}},
	{"Imports", []menuItem{{"/imports", "Imports", Viewer}, {"/upload", "Uploaded files", Importer}, {"/approvals", "Approvals", Viewer}, {"/waiting", "Waiting room", Viewer}}},
	{"Dead letters", []menuItem{{"/letters", "Dead letters", Viewer}, {"/jobs", "Jobs", Viewer}}},
	{"Fleet", []menuItem{{"/fleet", "Fleet", Viewer}}},
	{"Books & journal", []menuItem{{"/books", "Books", Viewer}, {"/journal", "Journal", Viewer}}},
}

// section is an entry of the menu, with the pages in it.
type section struct {
	Name  string
	Pages []menuItem
}

// Path is the address of the section.
func (s section) Path() string { return s.Pages[0].Path }

// Current is "page" on the section's first page and "true" on every other page of it.
func (s section) Current(path string) string {
	for i, item := range s.Pages {
		switch current := item.Current(path); {
		case current != "" && i > 0:
			return "true"
		case current != "":
			return current
		}
	}
	return ""
}

type menuItem struct {
	Path, Name string
	Need       Role
}

// Current says whether the menu's item is the page at a path ("page"), or the page is
// one of those behind it ("true"), as an upload is behind the list of uploads.
func (i menuItem) Current(path string) string {
	switch {
	case path == i.Path:
		return "page"
	case strings.HasPrefix(path, i.Path+"/"), strings.HasPrefix(path+"/", strings.TrimSuffix(i.Path, "s")+"/"):
		return "true"
	}
	return ""
}

// pages are the templates by the name of their page. Each holds the layout.
var pages = sync.OnceValue(func() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	files, _ := fs.Glob(templateFiles, "templates/*.html") // the pattern is right
	out := make(map[string]*template.Template)
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name != "layout" && name != "parts" {
			out[name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, file))
		}
	}
	return out
})

// page is what a template gets. The page's own data is in Data.
type page struct {
	Title string
	// Path is the page's in the menu, Self its address with its parameters.
	Path, Self string
	Menu       []section
	// Section are the pages of the present section; empty if it has only one.
	Section []menuItem
	// Search is what the search field of the header holds.
	Search string
	Person Person
	Flash  *flash
	// Live: the part "live" is refreshed. Paused: the person stopped that.
	Live, Paused bool
	// NothingSent is a sentence if no worker sends.
	NothingSent string
	// Away is when the broker went out of reach; zero if it is there.
	Away    time.Time
	Now     time.Time
	Version string
	Data    any
}

// May reports whether the person has the role.
func (p page) May(role string) bool {
	rights, err := readRole(role)
	return err == nil && p.Person.Role >= rights.Role
}

// render writes a page.
func (v *visit) render(name, title string, data any) error {
	t := pages()[name]
	if t == nil {
		return fmt.Errorf("there is no template %s", name)
	}
	p := page{Title: title, Path: v.URL.Path, Self: v.URL.RequestURI(), Person: v.person(), Live: v.live,
		Now: time.Now().UTC(), Version: v.s.version, Data: data}
	if v.session != nil {
		p.NothingSent = sentence(v.s.watch.nothingSent(v.Context(), name != "problem"))
		p.Away = v.s.watch.awaySince()
		p.Menu, p.Search = menu, typable(v.query("q"))
		for _, sec := range menu {
			if sec.Current(p.Path) == "" || len(sec.Pages) == 1 {
				continue
			}
			for _, item := range sec.Pages {
				if v.may(item.Need) {
					p.Section = append(p.Section, item)
				}
			}
		}
		if !v.refreshes() {
			p.Flash = v.session.flash.Swap(nil)
		}
	}
	if c, err := v.Cookie(pauseCookie); err == nil {
		p.Paused = c.Value == "on"
	}
	var out bytes.Buffer
	if err := t.Execute(&out, p); err != nil {
		v.s.log.Error().Err(err).Str("page", name).Msg("a page of the console could not be written")
		http.Error(v.w, "The console could not write this page. Its log says why.", http.StatusInternalServerError)
		return nil
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.status != 0 {
		v.w.WriteHeader(v.status)
	}
	_, _ = v.w.Write(out.Bytes()) // nobody is there to be told of an error
	return nil
}

// pauseCookie remembers in one browser that pages do not refresh themselves.
const pauseCookie = "pause"

// setRefresh sets whether the pages of one browser refresh themselves.
func setRefresh(v *visit) error {
	value := "off"
	if v.field("pause") == "on" {
		value = "on"
	}
	http.SetCookie(v.w, &http.Cookie{Name: pauseCookie, Value: value, Path: "/", MaxAge: 30 * 24 * 3600, HttpOnly: true, Secure: v.s.secure(v.Request), SameSite: http.SameSiteStrictMode})
	return v.done(local(v.field("back")), "")
}

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
