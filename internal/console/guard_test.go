package console

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

// patience is how long a test waits for something that takes milliseconds.
const patience = 2 * time.Minute

// TestHtmx is the file that the project htmx.org published.
func TestHtmx(t *testing.T) {
	content, err := static.ReadFile("static/htmx.min.js")
	require.NoError(t, err)
	require.Equal(t, htmxHash, fmt.Sprintf("%x", sha256.Sum256(content)), "htmx.org "+htmxVersion)
	require.Contains(t, string(content), `"`+htmxVersion+`"`)
	licence, err := static.ReadFile("static/htmx.LICENSE")
	require.NoError(t, err)
	require.Contains(t, string(licence), "Zero-Clause BSD")
}

// TestHeaders are on every answer, whoever asks.
func TestHeaders(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	for _, path := range []string{"/", "/fleet", "/nothing", "/login", staticURL("console.css")} {
		h := b.do(http.MethodGet, path, nil).Header
		require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"), path)
		if !strings.HasPrefix(path, "/static/") {
			require.Equal(t, "no-store", h.Get("Cache-Control"), path)
		}
	}
}

// TestNothingInline: a page has neither scripts nor styles in it, which the policy
// would stop.
func TestNothingInline(t *testing.T) {
	files, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, f := range files {
		text, err := templateFiles.ReadFile("templates/" + f.Name())
		require.NoError(t, err)
		for _, no := range []string{"<style", " style=", " onclick", " onload", "javascript:", "hx-on", "js:"} {
			require.NotContains(t, string(text), no, f.Name())
		}
		require.Equal(t, strings.Count(string(text), "<script "), strings.Count(string(text), "<script src="), f.Name())
	}
}

func TestForeignNamesAreRefused(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Hosts = []string{"console.example.com"} })
	b := r.loggedIn()
	for host, status := range map[string]int{
		"localhost": http.StatusOK, "127.0.0.1:9465": http.StatusOK, "[::1]:9465": http.StatusOK, "Console.Example.com": http.StatusOK, "console.example.com:8443": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "127.0.0.1.evil.example": http.StatusMisdirectedRequest, "10.0.0.1": http.StatusMisdirectedRequest,
	} {
		b.header.Set("Host", host)
		a := b.do(http.MethodGet, "/login", nil)
		require.Equal(t, status, a.StatusCode, host)
		if status != http.StatusOK {
			require.NotContains(t, a.page, "<html")
		}
	}
}

// TestForgedRequests from other websites do nothing.
func TestForgedRequests(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	b.header.Set("Sec-Fetch-Site", "cross-site")
	require.Contains(t, text(b.send(http.StatusForbidden, "/logout")), "This request came from another website, so nothing was done.")
	b.header.Set("Sec-Fetch-Site", "same-site")
	b.send(http.StatusForbidden, "/refresh", "pause", "on")
	b.header.Del("Sec-Fetch-Site")
	require.Contains(t, b.open(http.StatusOK, "/"), "Log out")
}

// TestLinkInAMail: the browser sends no SameSite=Strict cookie with a link from
// elsewhere, so the page asks for itself once more.
func TestLinkInAMail(t *testing.T) {
	b := newRig(t).browser()
	b.header.Set("Sec-Fetch-Site", "cross-site")
	b.header.Set("Sec-Fetch-Mode", "navigate")
	require.Contains(t, b.open(http.StatusOK, "/order?no=%22%3E%3Cb%3E"), `<meta http-equiv="refresh" content="0; url=/order?no=%22%3E%3Cb%3E">`)
	b.header.Set("Sec-Fetch-Site", "same-origin")
	require.Contains(t, b.open(http.StatusOK, "/order?no=1"), "Log in")
}

// TestTheLinkWorksOnce and only for its time; another one is printed on request.
func TestTheLinkWorksOnce(t *testing.T) {
	r := newRig(t)
	link := strings.TrimPrefix(r.lastLink(), r.URL())
	first := r.browser()
	require.Contains(t, first.open(http.StatusOK, link), "anna")
	second := r.browser()
	require.Contains(t, text(second.open(http.StatusUnauthorized, link)), "This link was used already")
	require.Contains(t, text(second.send(http.StatusOK, "/login/link")), "A new link was printed in the terminal.")
	require.Contains(t, second.open(http.StatusOK, strings.TrimPrefix(r.lastLink(), r.URL())), "anna")
	token := r.link.renew(time.Now().Add(-linkTime))
	require.Contains(t, text(second.open(http.StatusUnauthorized, "/login?token="+token)), "This link is older than 15 minutes. Print a new one in the terminal.")
	require.Contains(t, text(second.open(http.StatusUnauthorized, "/login?token=x")), "This is not a link that this console has printed since it was started.")
	for range tryBurst {
		second.do(http.MethodPost, "/login/link", url.Values{})
	}
	require.Contains(t, text(second.send(http.StatusTooManyRequests, "/login/link")), "Too many attempts")
}

// TestLogin: names and passwords, roles that change, and a session that ends.
func TestLogin(t *testing.T) {
	users := usersFile(t)
	r := newRig(t, func(c *Config) { c.Users = users })
	b := r.browser()
	require.Contains(t, b.open(http.StatusOK, "/fleet"), `name="back" value="/fleet"`)
	require.Contains(t, text(b.send(http.StatusUnauthorized, "/login", "name", "viewer", "password", "wrong")), "This name and password do not belong together.")
	require.Contains(t, text(b.send(http.StatusUnauthorized, "/login", "name", "nobody", "password", "wrong")), "This name and password do not belong together.")
	a := b.do(http.MethodPost, "/login", url.Values{"name": {"viewer"}, "password": {"viewerviewerviewer"}, "back": {"/fleet"}})
	require.Equal(t, "/fleet", a.Request.URL.Path)
	for _, back := range []string{"//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"} {
		a = b.do(http.MethodPost, "/login", url.Values{"name": {"viewer"}, "password": {"viewerviewerviewer"}, "back": {back}})
		require.Equal(t, r.URL()+"/", a.Request.URL.String(), back)
	}
	require.Contains(t, text(b.send(http.StatusOK, "/logout")), "You are logged out.")
	require.Contains(t, text(b.open(http.StatusOK, "/")), "Password")

	b = r.as("viewer")
	loginEnds := func(why string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(b.open(http.StatusOK, "/"), "Password") }, time.Minute, 10*time.Millisecond, why)
	}
	text, err := os.ReadFile(users)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(users, []byte(strings.Replace(string(text), "viewer:viewer:", "viewer:importer:", 1)), 0o600))
	loginEnds("another role needs another login")

	b = r.as("importer")
	hash, err := bcrypt.GenerateFromPassword([]byte("importerimporterimporter"), bcrypt.MinCost) // even the same one
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(users, fmt.Appendf(nil, "importer:importer:%s\n", hash), 0o600))
	loginEnds("another password needs another login")
}

// TestPasswordsAreNotGuessed: a name and an address have ten tries.
func TestPasswordsAreNotGuessed(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.browser()
	for range tryBurst {
		b.send(http.StatusUnauthorized, "/login", "name", "operator", "password", "wrong")
	}
	require.Contains(t, text(b.send(http.StatusTooManyRequests, "/login", "name", "operator", "password", "operatoroperatoroperator")), "Too many attempts")
}

// TestCookies: scripts and other websites do not get them, a login has a new one,
// and none is sent in plain text where the browser speaks TLS.
func TestCookies(t *testing.T) {
	r := newRig(t)
	b := r.browser()
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	one := b.do(http.MethodGet, strings.TrimPrefix(r.lastLink(), r.URL()), nil).Cookies()
	require.Len(t, one, 1)
	require.True(t, one[0].HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, one[0].SameSite)
	r.announceLink()
	two := b.do(http.MethodGet, strings.TrimPrefix(r.lastLink(), r.URL()), nil).Cookies()
	require.NotEqual(t, one[0].Value, two[0].Value)
	require.Nil(t, r.sessions.find(one[0].Value), "the session before is over")

	r.Server = r.console(func(c *Config) {
		c.Proxies, c.UserHeader, c.ProxyRole = []string{"127.0.0.1"}, "X-Forwarded-User", "viewer"
	})
	b = r.browser()
	b.header.Set("X-Forwarded-User", "bo")
	b.header.Set("X-Forwarded-Proto", "https")
	c := b.do(http.MethodGet, "/", nil).Cookies()
	require.Equal(t, "__Host-orderpost", c[0].Name)
	require.True(t, c[0].Secure)
}

// TestTheAddressBehindProxies is the last one that is no named proxy's, whatever ports and hops
// stand beside it.
func TestTheAddressBehindProxies(t *testing.T) {
	t.Parallel()
	s := &Server{proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}
	for given, want := range map[string]string{
		"203.0.113.7":                              "203.0.113.7",
		"203.0.113.7:51234":                        "203.0.113.7",
		"2001:db8::7":                              "2001:db8::7",
		"[2001:db8::7]":                            "2001:db8::7",
		"[2001:db8::7]:51234":                      "2001:db8::7",
		"::ffff:203.0.113.7":                       "203.0.113.7",
		"[::ffff:203.0.113.7]:1":                   "203.0.113.7",
		"192.0.2.9, 203.0.113.7":                   "203.0.113.7",
		"192.0.2.9,203.0.113.7:5":                  "203.0.113.7",
		"203.0.113.7, 10.0.0.5":                    "203.0.113.7",
		"192.0.2.9, 203.0.113.7:1, 10.1.1.1:2":     "203.0.113.7",
		"203.0.113.7:5, [fd00::1]:6, 10.0.0.5:443": "203.0.113.7",
		"10.0.0.9, 10.0.0.5":                       "10.0.0.9",
		"unknown":                                  "127.0.0.1",
		"203.0.113.7, unknown, 10.0.0.5":           "10.0.0.5",
		"":                                         "127.0.0.1",
	} {
		r := &http.Request{RemoteAddr: "127.0.0.1:4711", Header: http.Header{"X-Forwarded-For": {given}}}
		require.Equal(t, want, s.client(r), given)
	}
	r := &http.Request{RemoteAddr: "127.0.0.1:4711", Header: http.Header{"X-Forwarded-For": {"192.0.2.9", "203.0.113.7:1", "10.0.0.5"}}}
	require.Equal(t, "203.0.113.7", s.client(r), "in several headers")
	r.RemoteAddr = "192.0.2.1:4711"
	require.Equal(t, "192.0.2.1", s.client(r), "it is no proxy's")
}

// TestSessionsEnd by age, by idleness, and to make room. A page that refreshes
// itself keeps none open.
func TestSessionsEnd(t *testing.T) {
	now := time.Now()
	s := newSessions(12*time.Hour, time.Hour)
	s.now = func() time.Time { return now }
	cookie := s.begin(Person{Name: "anna"})
	now = now.Add(59 * time.Minute)
	require.NotNil(t, s.find(cookie))
	now = now.Add(2 * time.Minute)
	require.Nil(t, s.find(cookie), "idle")
	cookie = s.begin(Person{Name: "anna"})
	for range 13 {
		if found := s.find(cookie); found != nil {
			s.touch(found)
		}
		now = now.Add(59 * time.Minute)
	}
	require.Nil(t, s.find(cookie), "old")
	first := s.begin(Person{Name: "first"})
	now = now.Add(time.Second)
	for range maxSessions {
		s.begin(Person{Name: rand.Text()})
	}
	require.Nil(t, s.find(first))
	require.Len(t, s.open, maxSessions)
}

// TestOnePersonEndsOnlyTheirOwnSessions: a program that comes by the proxy without a
// cookie opens a session with each request, and nobody else loses theirs.
func TestOnePersonEndsOnlyTheirOwnSessions(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Proxies, c.UserHeader, c.ProxyRole = []string{"127.0.0.1"}, "X-Forwarded-User", "viewer"
	})
	anna := r.browser()
	anna.header.Set("X-Forwarded-User", "anna")
	anna.open(http.StatusOK, "/order")
	at, err := url.Parse(r.URL())
	require.NoError(t, err)
	cookie := anna.Jar.Cookies(at)[0].Value
	for range maxSessions + 10 {
		bot := httptest.NewRequest(http.MethodGet, r.URL()+"/order", nil)
		bot.RemoteAddr = "127.0.0.1:1"
		bot.Header.Set("X-Forwarded-User", "bot")
		answer := httptest.NewRecorder()
		r.Handler().ServeHTTP(answer, bot)
		require.Equal(t, http.StatusOK, answer.Code)
	}
	require.NotNil(t, r.sessions.find(cookie), "anna is still logged in")
	require.Len(t, r.sessions.open, 1+maxOfOne)
}

// TestLostSession: a page that was open over a restart of the console asks for a
// login, and comes back to where it was.
func TestLostSession(t *testing.T) {
	b := newRig(t).browser()
	b.header.Set("Hx-Request", "true")
	b.header.Set("Hx-Current-Url", b.base+"/order?no=A-1")
	a := b.do(http.MethodGet, "/order?no=A-1", nil)
	require.Equal(t, http.StatusUnauthorized, a.StatusCode)
	require.Equal(t, "/login?back=%2Forder%3Fno%3DA-1", a.Header.Get("HX-Redirect"))
	require.Contains(t, text(newRig(t).browser().send(http.StatusUnauthorized, "/refresh", "pause", "on")), "Your login has ended, so nothing was done.")
}

// TestProxy: its header counts only from its address.
func TestProxy(t *testing.T) {
	users := usersFile(t)
	believed := newRig(t, func(c *Config) {
		c.Users, c.Proxies, c.UserHeader, c.ProxyRole = users, []string{"10.0.0.0/8", "127.0.0.1"}, "X-Forwarded-User", "viewer"
	})
	b := believed.browser()
	b.header.Set("X-Forwarded-User", "bo")
	require.Contains(t, text(b.open(http.StatusOK, "/")), "bo viewer")
	b.header.Set("X-Forwarded-User", "operator") // the same browser, another person
	require.Contains(t, text(b.open(http.StatusOK, "/")), "operator operator")
	b.header.Del("X-Forwarded-User")
	require.Contains(t, text(b.open(http.StatusOK, "/")), "Password", "the proxy names nobody any more")
	b.header["X-Forwarded-User"] = []string{"bo", "operator"}
	require.Contains(t, text(b.open(http.StatusOK, "/")), "Password", "two names are none")

	other := newRig(t, func(c *Config) {
		c.Users, c.Proxies, c.UserHeader, c.ProxyRole = users, []string{"10.0.0.1"}, "X-Forwarded-User", "operator"
	})
	b = other.browser()
	b.header.Set("X-Forwarded-User", "operator")
	require.Contains(t, text(b.open(http.StatusOK, "/")), "Password")

	none := newRig(t, func(c *Config) {
		c.Users, c.Proxies, c.UserHeader, c.ProxyRole = users, []string{"127.0.0.1"}, "X-Forwarded-User", "none"
	})
	b = none.browser()
	b.header.Set("X-Forwarded-User", "stranger")
	require.Contains(t, text(b.open(http.StatusForbidden, "/")), "The overview needs the role viewer, and yours is none.")
}

// TestGroups: the groups that the proxy names give their rights, all of them together; the file of users goes before them,
// and nobody but the proxy is believed.
func TestGroups(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Users, c.Proxies, c.UserHeader, c.ProxyRole = usersFile(t), []string{"127.0.0.1"}, "X-Forwarded-User", "none"
		c.GroupsHeader, c.GroupRoles = "X-Forwarded-Groups", []string{"finance=importer+approve", " /ops = operator "}
		require.NoError(t, c.Validate())
	})
	b := r.browser()
	b.header.Set("X-Forwarded-User", "cleo")
	b.header.Set("X-Forwarded-Groups", "staff, finance")
	require.Contains(t, text(b.open(http.StatusOK, "/")), "cleo importer")
	b.header["X-Forwarded-Groups"] = []string{"staff,finance", "/ops"}
	require.Contains(t, text(b.open(http.StatusOK, "/")), "cleo operator")
	all, member := r.groupRights(&http.Request{Header: b.header})
	require.Equal(t, []any{Rights{Role: Operator, Approve: true}, true}, []any{all, member})
	b.header.Set("X-Forwarded-Groups", "staff")
	require.Contains(t, text(b.open(http.StatusForbidden, "/")), "and yours is none.")
	b.header.Set("X-Forwarded-User", "viewer")
	b.header.Set("X-Forwarded-Groups", "/ops")
	require.Contains(t, text(b.open(http.StatusOK, "/")), "viewer viewer", "the file of users says so")
	b.header.Del("X-Forwarded-User")
	require.Contains(t, text(b.open(http.StatusOK, "/")), "Password", "groups are those of somebody")
}

// TestSettingsThatWouldOpenTheConsole to others are refused by name.
func TestSettingsThatWouldOpenTheConsole(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"nobody is known":     {func(c *Config) { c.Listen, c.TLSCert, c.TLSKey = "0.0.0.0:9465", "c", "k" }, "does not know who may log in"},
		"plain text":          {func(c *Config) { c.Listen, c.Users = ":9465", "users" }, "passwords would cross the network in plain text"},
		"header from anybody": {func(c *Config) { c.UserHeader = "X-User" }, "anybody can send the header"},
		"half a certificate":  {func(c *Config) { c.TLSCert = "c" }, "a certificate needs its key"},
		"no address":          {func(c *Config) { c.Listen = "9465" }, "is not host:port"},
		"no network":          {func(c *Config) { c.Proxies = []string{"nginx"} }, "is neither an address nor a network"},
		"no role":             {func(c *Config) { c.ProxyRole = "admin" }, `"admin" is not a role`},
		"groups of nobody":    {func(c *Config) { c.GroupsHeader, c.GroupRoles = "G", []string{"a=viewer"} }, "groups are those of a person"},
		"groups without roles": {func(c *Config) {
			c.Proxies, c.UserHeader, c.GroupsHeader = []string{"10.0.0.1"}, "U", "G"
		}, "ORDERPOST_CONSOLE_GROUP_ROLES: the header of groups"},
		"no group":             {func(c *Config) { c.GroupRoles = []string{"operator"} }, `"operator" is not GROUP=ROLE`},
		"a group with no role": {func(c *Config) { c.GroupRoles = []string{"ops=admin"} }, `group ops: "admin" is not a role`},
		"a group twice":        {func(c *Config) { c.GroupRoles = []string{"ops=viewer", "ops=operator"} }, `group "ops" is there already`},
		"no name":              {func(c *Config) { c.Hosts = []string{"https://a"} }, "is not a name"},
		"two viewers":          {func(c *Config) { c.ViewerNKeyFile, c.ViewerCreds = "a", "b" }, "not both"},
		"whose inbox":          {func(c *Config) { c.ViewerInboxPrefix = "_INBOX_viewer" }, "belongs to a NATS user of its own"},
		"no connection":        {func(c *Config) { c.KeepAlive = 0 }, "ORDERPOST_CONSOLE_KEEPALIVE_TIMEOUT: 0s; give at least a second"},
		"no time":              {func(c *Config) { c.IdleTime = 0 }, "ORDERPOST_CONSOLE_IDLE_TIME: must be above 0"},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, settingsFor(t, tc.change).Validate(), tc.want) })
	}
	require.NoError(t, settingsFor(t, func(c *Config) { c.Listen, c.Users, c.Proxies = "0.0.0.0:9465", "users", []string{"10.0.0.1"} }).Validate())
	require.NoError(t, settingsFor(t).Validate())
}

func TestUserLines(t *testing.T) {
	line, err := UserLine("anna", "operator+resubmit-unknown", "a long password")
	require.NoError(t, err)
	users, err := readUsers([]byte("# people\n\n" + line + "\nbo:viewer:proxy\n"))
	require.NoError(t, err)
	require.Equal(t, Rights{Role: Operator, ResubmitUnknown: true}, users["anna"].rights)
	_, err = readUsers([]byte("anna:operator\nbo:boss:proxy\ncy:viewer:plain text\nbo:viewer:proxy"))
	for _, want := range []string{"line 1 is not name:role:hash", `line 2: "boss" is not a role`, "line 3: the third field is neither", `line 4: "bo" is there already`} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "plain text")
	for _, bad := range [][3]string{{"a:b", "viewer", "a long password"}, {"", "viewer", "a long password"}, {"a", "boss", "a long password"}, {"a", "viewer+resubmit-unknown", "a long password"}, {"a", "viewer", "short"}, {"a", "viewer", strings.Repeat("x", 73)}} {
		_, err := UserLine(bad[0], bad[1], bad[2])
		require.Error(t, err, "%v", bad)
	}
}
