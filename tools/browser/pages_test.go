package browser

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// look is one page of the console as axe must have seen it.
type look struct {
	route string // its pattern in internal/console
	path  string
	sees  string // what the page shows of the stage's orders
}

// looks are all pages that the console has. The tests fail if a page is missing here.
var looks = []look{
	{"GET /{$}", "/", "Settled, last hour"},
	{"GET /fleet", "/fleet", "worker-1"},
	{"GET /order", "/order", "Order number"},
	{"GET /order", "/order?no=DEMO-00001", "The API created the order"},
	{"GET /order", "/order?no=MARKUP-001", "<h1>no such article</h1>"},
	{"GET /order", "/order?no=BUSY-001", "exhausted"},
	{"GET /order", "/order?no=CRASH-001", "poison"},
	{"GET /order", "/order?no=MAY-1", "cancelled"},
	{"GET /order", "/order?no=nobody%20knows", "Nothing is known about this order number."},
	{"/", "/nowhere", "There is no such page."},
}

// noLooks are routes that answer no page: what they do, other tests test.
var noLooks = []string{"GET /login", "GET /favicon.ico", "GET /static/{hash}/{file}"}

// TestPages: axe finds nothing on any page, in both colour schemes, at both widths,
// with JavaScript and without it.
func TestPages(t *testing.T) {
	s := newStage(t, rare(t))
	s.fill()
	for _, scripts := range []bool{true, false} {
		p := s.visitor(scripts)
		s.open(p, "/login")
		p.sees("Open the link that was printed")
		p.accessible("/login")
		s.logIn(p)
		p.expects("404") // /nowhere
		for _, l := range looks {
			s.open(p, l.path)
			p.sees(l.sees)
			p.accessible(l.path)
		}
		if scripts {
			s.open(p, "/")
			for _, path := range evaluate[[]string](p, `[...document.querySelectorAll("nav a")].map(a => a.getAttribute("href"))`) {
				require.True(t, slices.ContainsFunc(looks, func(l look) bool { return l.path == path }), "the menu has %s, and looks does not", path)
			}
		}
		p.click("Log out")
		p.sees("You are logged out.")
		p.accessible("/logout")
	}
}

var pattern = regexp.MustCompile(`(?:pattern: |mux\.Handle\()"((?:GET )?/[^"]*)"`)

// TestEveryPageIsLookedAt: a new page of the console cannot be forgotten here.
func TestEveryPageIsLookedAt(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join("..", "..", "internal", "console", "*.go"))
	require.NoError(t, err)
	var routes []string
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		for _, found := range pattern.FindAllStringSubmatch(string(text), -1) {
			routes = append(routes, found[1])
		}
	}
	require.Contains(t, routes, "GET /fleet")
	for _, route := range routes {
		known := slices.Contains(noLooks, route) || slices.ContainsFunc(looks, func(l look) bool { return l.route == route })
		require.True(t, known, "%s is a route of the console: put it into looks (or noLooks) in pages_test.go", route)
	}
	for _, l := range looks {
		require.Contains(t, routes, l.route, "looks has a route that the console has not")
	}
}
