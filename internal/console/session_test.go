package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

// proxiedFrom lets a test's browsers come from any address.
func proxiedFrom(t *testing.T, users string) func(*Config) {
	return func(c *Config) { c.Users, c.Proxies = users, []string{"127.0.0.1"} }
}

// guess tries a wrong password from an address.
func (b *browser) guess(name, from string) int {
	b.Helper()
	b.header.Set("X-Forwarded-For", from)
	return b.do(http.MethodPost, "/login", url.Values{"name": {name}, "password": {"wrong"}}).StatusCode
}

// TestOneAddressLocksNobodyOut: whoever guesses without end from one address has ten tries,
// and the person logs in from another one meanwhile.
func TestOneAddressLocksNobodyOut(t *testing.T) {
	r := newRig(t, proxiedFrom(t, usersFile(t)))
	attacker := r.browser()
	refused := 0
	for range 5 * nameBurst {
		if attacker.guess("operator", "203.0.113.7") == http.StatusTooManyRequests {
			refused++
		}
	}
	require.Greater(t, refused, 4*nameBurst)
	person := r.browser()
	person.header.Set("X-Forwarded-For", "192.0.2.1")
	require.Contains(t, person.send(http.StatusOK, "/login", "name", "operator", "password", strings.Repeat("operator", 3)), "Log out")
}

// TestAKnownBrowserIsNeverLockedOut, even if many addresses guess. Its cookie lets nobody
// in, and cannot be made by others.
func TestAKnownBrowserIsNeverLockedOut(t *testing.T) {
	users := usersFile(t)
	r := newRig(t, proxiedFrom(t, users))
	person := r.as("operator")
	person.send(http.StatusOK, "/logout")
	require.Contains(t, text(person.open(http.StatusOK, "/")), "Password", "the cookie of a known browser lets nobody in")
	guesser := r.browser()
	for i := range 3 * nameBurst {
		guesser.guess("operator", fmt.Sprintf("198.51.%d.%d", 100+i/200, i%200))
	}
	stranger := r.browser()
	login := []string{"name", "operator", "password", strings.Repeat("operator", 3)}
	stranger.header.Set("X-Forwarded-For", "192.0.2.9")
	stranger.send(http.StatusTooManyRequests, "/login", login...)
	require.Contains(t, person.send(http.StatusOK, "/login", login...), "Log out")

	// The same browser has ten tries, too.
	person.send(http.StatusOK, "/logout")
	last := 0
	for range tryBurst + 1 {
		last = person.do(http.MethodPost, "/login", url.Values{"name": {"operator"}, "password": {"wrong"}}).StatusCode
	}
	require.Equal(t, http.StatusTooManyRequests, last)

	knownAs := func(name, value string) string {
		req := httptest.NewRequest(http.MethodPost, "/login", nil)
		req.AddCookie(&http.Cookie{Name: "orderpost-known", Value: value})
		v := &visit{Request: req, s: r.Server}
		return v.known(name)
	}
	at, err := url.Parse(r.URL() + "/login")
	require.NoError(t, err)
	var value string
	for _, c := range person.Jar.Cookies(at) {
		if c.Name == "orderpost-known" {
			value = c.Value
		}
	}
	require.NotEmpty(t, knownAs("operator", value))
	require.Empty(t, knownAs("chief", value), "it is one person's")
	parts := strings.Split(value, ".")
	for _, forged := range []string{"", "x", parts[0] + "." + parts[1] + ".", parts[0] + ".AAAA." + parts[2], strings.Replace(value, ".", "..", 1)} {
		require.Empty(t, knownAs("operator", forged), forged)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("another password"), bcrypt.MinCost)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(users, fmt.Appendf(nil, "operator:operator:%s\n", hash), 0o600))
	require.Eventually(t, func() bool { return knownAs("operator", value) == "" }, time.Minute, 10*time.Millisecond, "another password ends it")
}

// TestNobodyEndsTheLinkOfAnother: pictures on a website that point at the login link, and
// strangers who ask for new links, leave the one in the terminal alone.
func TestNobodyEndsTheLinkOfAnother(t *testing.T) {
	r := newRig(t)
	link := strings.TrimPrefix(r.lastLink(), r.URL())
	victim := r.browser()
	victim.header.Set("Sec-Fetch-Site", "cross-site")
	victim.header.Set("Sec-Fetch-Mode", "no-cors")
	victim.header.Set("Sec-Fetch-Dest", "image")
	for range 12 {
		require.Contains(t, text(victim.open(http.StatusForbidden, "/login?token=x")), "so the link was left alone")
	}
	victim.open(http.StatusForbidden, link)
	stranger := r.browser()
	for range 3 * tryBurst {
		stranger.do(http.MethodPost, "/login/link", url.Values{})
		stranger.open(http.StatusUnauthorized, "/login?token=guess")
	}
	victim.header = http.Header{}
	require.Contains(t, victim.open(http.StatusOK, link), "Log out")
}

// TestLoginsDoNotDependOnTheWallClock: a clock that is set neither ends a login nor
// prolongs it, because what is compared has the monotonic clock's reading.
func TestLoginsDoNotDependOnTheWallClock(t *testing.T) {
	monotonic := func(what string, at time.Time) {
		require.NotEqual(t, at.Round(0).String(), at.String(), what+" has only the wall clock's time")
	}
	r := newRig(t)
	b := r.loggedIn()
	for _, s := range r.sessions.open {
		monotonic("the login's begin", s.began)
		monotonic("the last request", s.seen)
	}
	monotonic("the link's end", r.link.printed[0].until)
	r.refuses("R-1")
	preview := b.preview("act", "replay", "which", "all")
	monotonic("the preview's end", r.jobs.Find(strings.TrimPrefix(preview, "/jobs/")).Ended())
}
