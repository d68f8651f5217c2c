package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// TestEveryRouteRefuses walks all routes as nobody and as each role: whoever lacks
// the role is refused by name, and nobody is let in without a login.
func TestEveryRouteRefuses(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	people := map[Role]*browser{Viewer: r.as("viewer"), Importer: r.as("importer"), Operator: r.as("operator")}
	nobody := r.browser()
	nobody.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	seen := 0
	for _, rt := range routes() {
		method, path, found := strings.Cut(rt.pattern, " ")
		require.True(t, found, rt.pattern)
		path = strings.TrimSuffix(path, "{$}")
		path = strings.NewReplacer("{", "", "}", "", "...", "").Replace(path)
		var form url.Values
		if method == http.MethodPost {
			form = url.Values{}
		}
		if rt.need == Anybody {
			continue
		}
		seen++
		require.NotEmpty(t, rt.does, "%s: whoever is refused would not learn what", rt.pattern)
		a := nobody.do(method, path, form)
		if method == http.MethodPost {
			require.Equal(t, http.StatusUnauthorized, a.StatusCode, rt.pattern)
		} else {
			require.Equal(t, http.StatusSeeOther, a.StatusCode, rt.pattern)
			require.True(t, strings.HasPrefix(a.Header.Get("Location"), "/login?back="), rt.pattern)
		}
		for role, b := range people {
			if role >= rt.need || path == "/logout" {
				continue
			}
			a := b.do(method, path, form)
			require.Equal(t, http.StatusForbidden, a.StatusCode, "%s as %s", rt.pattern, role)
			require.Contains(t, text(a.page), rt.does+" needs the role "+rt.need.String()+", and yours is "+role.String()+".", rt.pattern)
		}
	}
	require.Greater(t, seen, 10)
}

// TestOnlyKnownRoutesChangeSomething: a form needs POST, and a GET never acts.
func TestOnlyKnownRoutesChangeSomething(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	for _, rt := range routes() {
		require.Regexp(t, `^(GET|POST) /`, rt.pattern)
	}
	b := r.as("operator")
	b.send(http.StatusNotFound, "/fleet")
}

// TestTheAddressOfAForm is not a page: whoever reloads it is led to the page that it
// belongs to, and nothing is done.
func TestTheAddressOfAForm(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("operator")
	for path, page := range map[string]string{"/books/stop": "/books", "/letters/act": "/letters", "/letters/export": "/letters", "/logout": "/", "/refresh": "/"} {
		a := b.do(http.MethodGet, path, nil)
		require.Equal(t, http.StatusOK, a.StatusCode, path)
		require.Equal(t, page, a.Request.URL.Path)
		require.Contains(t, text(a.page), "This address only takes a form, so nothing was done. Here is the page that it belongs to.")
	}
	a := b.do(http.MethodGet, "/jobs/gone/stop", nil)
	require.Equal(t, "/jobs/gone", a.Request.URL.Path)
	require.Contains(t, text(a.page), "This job is not known any more.")
	for _, rt := range routes() { // none of them is a page that does not exist
		if method, path, _ := strings.Cut(rt.pattern, " "); method == http.MethodPost {
			path = strings.NewReplacer("{", "", "}", "").Replace(path)
			require.NotContains(t, text(b.do(http.MethodGet, path, nil).page), "There is no such page.", path)
		}
	}
	b.open(http.StatusNotFound, "/nowhere")
	b.send(http.StatusNotFound, "/nowhere")
}

// TestViewersHaveAConnectionOfTheirOwn: what a viewer asks for goes to the broker
// by the connection that cannot write, and nobody else's does.
func TestViewersHaveAConnectionOfTheirOwn(t *testing.T) {
	r := newRig(t)
	r.settles("A-1", answered(order.Accepted, 200, "", "{}"))
	r.viewers = r.open("viewers", false)
	r.Server = r.console(func(c *Config) { c.Users = usersFile(t) })
	viewer, importer := r.as("viewer"), r.as("importer")
	require.Contains(t, text(viewer.open(http.StatusOK, "/order?no=A-1")), "accepted")
	r.viewers.Close()
	require.Equal(t, http.StatusServiceUnavailable, viewer.do(http.MethodGet, "/order?no=A-1", nil).StatusCode)
	require.Contains(t, text(importer.open(http.StatusOK, "/order?no=A-1")), "accepted")
}
