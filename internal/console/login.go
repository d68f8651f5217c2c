package console

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// linkTime is how long a one-time link works.
const linkTime = 15 * time.Minute

// maxLinks bounds the links that are remembered. More than can be printed while one of
// them works, so that nobody who asks for new ones ends another.
const maxLinks = 200

// loginLink lets in whoever sees the terminal of the console. Each link works once.
type loginLink struct {
	mu      sync.Mutex
	printed []*oneTime // oldest first
}

type oneTime struct {
	token string
	until time.Time // by the monotonic clock: a clock that is set does not change it
	used  bool
}

func (l *loginLink) renew(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	link := &oneTime{token: rand.Text(), until: now.Add(linkTime)}
	l.printed = append(l.printed[max(0, len(l.printed)+1-maxLinks):], link)
	return link.token
}

// use ends the link of a token. It returns why the token lets nobody in; "" = it does.
// Nobody guesses 130 bits, so the number of tries is not limited: a limit would only let
// a stranger use it up.
func (l *loginLink) use(token string, now time.Time) (wrong string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found *oneTime
	for _, link := range l.printed {
		if subtle.ConstantTimeCompare([]byte(token), []byte(link.token)) == 1 {
			found = link
		}
	}
	switch {
	case found == nil:
		return "This is not a link that this console has printed since it was started."
	case found.used:
		return "This link was used already."
	case !now.Before(found.until):
		return "This link is older than 15 minutes."
	}
	found.used = true
	return ""
}

// An address may try a password 10 times at once and then every 6 seconds, and so may a
// browser that is known as the person's. All strangers together may try one name more
// often than one address may, so that no address alone keeps others from a name.
const (
	tryBurst  = 10
	tryEvery  = 6 * time.Second
	nameBurst = 60
	nameEvery = time.Second
	maxTriers = 10_000
)

// tries limits what each of many may try.
type tries struct {
	burst int
	every time.Duration

	mu sync.Mutex
	by map[string]*rate.Limiter
}

// allow reports whether the key may try once more.
func (t *tries) allow(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.by) >= maxTriers {
		for key, l := range t.by {
			if l.Tokens() >= float64(t.burst) {
				delete(t.by, key)
			}
		}
	}
	if t.by[key] == nil {
		if len(t.by) >= maxTriers {
			return false // more than ten thousand try at once
		}
		if t.by == nil {
			t.by = make(map[string]*rate.Limiter)
		}
		t.by[key] = rate.NewLimiter(rate.Every(t.every), t.burst)
	}
	return t.by[key].Allow()
}

// attempts limits logins.
type attempts struct {
	addresses, names, browsers, links tries
	// strangers and known hold one comparison of passwords each, because one takes 200 ms.
	strangers, known chan struct{}
}

func newAttempts() *attempts {
	return &attempts{addresses: tries{burst: tryBurst, every: tryEvery}, names: tries{burst: nameBurst, every: nameEvery},
		browsers: tries{burst: tryBurst, every: tryEvery}, links: tries{burst: tryBurst, every: tryEvery},
		strangers: make(chan struct{}, 1), known: make(chan struct{}, 1)}
}

// lane reports whether a password may be compared now, and where. browser is the id of a
// browser that is known as the person's. An address that may not try is not counted for
// the name.
func (a *attempts) lane(browser, from, name string) (lane chan struct{}, allowed bool) {
	if browser != "" {
		return a.known, a.browsers.allow(browser)
	}
	return a.strangers, a.addresses.allow(network(from)) && a.names.allow(name)
}

// network returns what one party can be expected to hold of the addresses: an IPv4
// address, or an IPv6 network of 64 bits.
func network(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil || addr.Is4() {
		return address
	}
	p, _ := addr.Prefix(64) // 64 bits are in range
	return p.String()
}

// cookieName is the session's cookie. A browser takes one with the prefix __Host-
// only from this host and over TLS.
func (s *Server) cookieName(r *http.Request) string {
	if s.secure(r) {
		return "__Host-orderpost"
	}
	return "orderpost"
}

func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(r), Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: s.secure(r), SameSite: http.SameSiteStrictMode})
}

// login returns the session of a request; nil if there is none. A person whom the
// proxy names needs no login: the session is opened on the way, and ends when the
// proxy names somebody else.
func (s *Server) login(w http.ResponseWriter, r *http.Request) *session {
	var found *session
	if c, err := r.Cookie(s.cookieName(r)); err == nil {
		found = s.sessions.find(c.Value)
	}
	p, named := s.proxied(r)
	switch {
	case named && (found == nil || found.Person != p):
		cookie := s.sessions.begin(p)
		s.setCookie(w, r, cookie, int(sessionTime.Seconds()))
		return s.sessions.find(cookie)
	case found != nil && found.How == "proxy" && !named:
		return nil
	case found != nil && found.How == "login":
		if u, known := s.users.find(found.Name); !known || u != (user{found.Rights, found.hash}) {
			return nil // who was taken out of the file, or got another role or password, logs in again
		}
	}
	return found
}

type loginPage struct {
	Back string
	// Link says that there is no file of users, and a link in the terminal lets in.
	Link, Printed bool
	// Proxy says that only the proxy names people.
	Proxy bool
	Wrong string
}

func openLogin(v *visit) error {
	if token := v.query("token"); token != "" {
		return useLink(v, token)
	}
	return showLogin(v, http.StatusOK, loginPage{})
}

func showLogin(v *visit, status int, p loginPage) error {
	p.Back = local(v.FormValue("back"))
	p.Link, p.Proxy = !v.s.cfg.knowsPeople(), v.s.cfg.Users == "" && v.s.cfg.UserHeader != ""
	v.status = status
	return v.render("login", "Log in", p)
}

// useLink logs in by a one-time link.
func useLink(v *visit, token string) error {
	if v.s.cfg.knowsPeople() {
		return showLogin(v, http.StatusUnauthorized, loginPage{Wrong: "This console lets people in by their names, and by no link."})
	}
	if dest := v.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" {
		// A page of another website asks for it as a picture or a script. A person opens it.
		return &problem{status: http.StatusForbidden, what: "A website asked for this address in the background, so the link was left alone.", todo: "Open the link in a window of its own."}
	}
	if wrong := v.s.link.use(token, time.Now()); wrong != "" {
		return showLogin(v, http.StatusUnauthorized, loginPage{Wrong: wrong + " Print a new one in the terminal."})
	}
	beginSession(v, Person{Name: v.s.starter, Rights: Rights{Role: Operator, ResubmitUnknown: true}, How: "link"})
	return v.done(local(v.query("back")), "")
}

// beginSession opens a session under a new cookie, and ends the one before it.
func beginSession(v *visit, p Person) {
	if c, err := v.Cookie(v.s.cookieName(v.Request)); err == nil {
		v.s.sessions.end(c.Value)
	}
	v.s.setCookie(v.w, v.Request, v.s.sessions.begin(p), int(sessionTime.Seconds()))
	v.s.log.Info().Str("person", p.Name).Str("role", p.Rights.String()).Str("by", p.How).Str("from", v.s.client(v.Request)).Msg("logged in")
}

// logIn checks a name and a password.
func logIn(v *visit) error {
	if v.s.cfg.Users == "" {
		return badRequest("This console has no passwords.", "Use the link in the terminal in which it was started.")
	}
	name, password := v.field("name"), v.PostFormValue("password")
	from := v.s.client(v.Request)
	lane, allowed := v.s.attempts.lane(v.known(name), from, name)
	if !allowed {
		v.w.Header().Set("Retry-After", fmt.Sprint(int(tryEvery.Seconds())))
		return showLogin(v, http.StatusTooManyRequests, loginPage{Wrong: "Too many attempts. Wait a minute and try again."})
	}
	select {
	case lane <- struct{}{}:
	case <-v.Context().Done():
		return nil
	}
	u, right := v.s.users.check(name, password)
	<-lane
	if !right {
		v.s.log.Warn().Str("name", name).Str("from", from).Msg("a login was refused")
		return showLogin(v, http.StatusUnauthorized, loginPage{Wrong: "This name and password do not belong together."})
	}
	beginSession(v, Person{Name: name, Rights: u.rights, How: "login", hash: u.hash})
	v.remember(name)
	return v.done(local(v.PostFormValue("back")), "")
}

// printLink prints a new link where only whoever runs the console sees it.
func printLink(v *visit) error {
	if v.s.cfg.knowsPeople() {
		return notFound("There is no such page.", "Log in with your name.")
	}
	if !v.s.attempts.links.allow("") {
		return showLogin(v, http.StatusTooManyRequests, loginPage{Wrong: "Too many attempts. Wait a minute and try again."})
	}
	v.s.announceLink()
	return showLogin(v, http.StatusOK, loginPage{Printed: true})
}

// announceLink prints a one-time link, unless people log in with names.
func (s *Server) announceLink() {
	if s.cfg.knowsPeople() {
		return
	}
	s.announce("Log in once within 15 minutes: " + s.url + "/login?token=" + url.QueryEscape(s.link.renew(time.Now())))
}

func logOut(v *visit) error {
	if c, err := v.Cookie(v.s.cookieName(v.Request)); err == nil {
		v.s.sessions.end(c.Value)
	}
	v.s.setCookie(v.w, v.Request, "", -1)
	v.session = nil
	return v.render("goodbye", "Logged out", nil)
}
