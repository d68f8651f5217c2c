package console

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// linkTime is how long a one-time link works.
const linkTime = 15 * time.Minute

// loginLink lets in whoever sees the terminal of the console. It works once.
type loginLink struct {
	mu    sync.Mutex
	token string
	until time.Time
}

func (l *loginLink) renew(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token, l.until = rand.Text(), now.Add(linkTime)
	return l.token
}

// use reports whether the token is the link's, and ends the link if so.
func (l *loginLink) use(token string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	right := l.token != "" && now.Before(l.until) && subtle.ConstantTimeCompare([]byte(token), []byte(l.token)) == 1
	if right {
		l.token = ""
	}
	return right
}

// Each address may try a password 10 times at once and then every 6 seconds, and so
// may each name. At most two are compared at a time, because each takes 200 ms.
const (
	tryBurst   = 10
	tryEvery   = 6 * time.Second
	maxTriers  = 10_000
	maxCompare = 2
)

// attempts limits logins.
type attempts struct {
	mu      sync.Mutex
	by      map[string]*rate.Limiter
	compare chan struct{}
}

func newAttempts() *attempts {
	return &attempts{by: make(map[string]*rate.Limiter), compare: make(chan struct{}, maxCompare)}
}

// allow reports whether all of the keys may try once more.
func (a *attempts) allow(keys ...string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.by) > maxTriers {
		for key, l := range a.by {
			if l.Tokens() >= tryBurst {
				delete(a.by, key)
			}
		}
	}
	ok := true
	for _, key := range keys {
		if a.by[key] == nil {
			if len(a.by) > maxTriers {
				return false // more than ten thousand names or addresses try at once
			}
			a.by[key] = rate.NewLimiter(rate.Every(tryEvery), tryBurst)
		}
		ok = a.by[key].Allow() && ok
	}
	return ok
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
	if err := s.users.load(); err != nil {
		s.log.Error().Err(err).Msg("the file of users cannot be read; those known before stay")
	}
	var found *session
	if c, err := r.Cookie(s.cookieName(r)); err == nil {
		found = s.sessions.find(c.Value)
	}
	p, named := s.proxied(r)
	switch {
	case named && (found == nil || found.Person != p):
		cookie := s.sessions.begin(p)
		s.setCookie(w, r, cookie, int(s.cfg.SessionTime.Seconds()))
		return s.sessions.find(cookie)
	case found != nil && found.How == "proxy" && !named:
		return nil
	case found != nil && found.How == "login":
		if u, known := s.users.find(found.Name); !known || u.rights != found.Rights {
			return nil // who was taken out of the file, or got another role, logs in again
		}
	}
	return found
}

func (s *Server) loginRoutes() []route {
	return []route{
		{pattern: "GET /login", serve: (*visit).loginPage},
		{pattern: "POST /login", serve: (*visit).logIn},
		{pattern: "POST /login/link", serve: (*visit).printLink},
		{pattern: "POST /logout", serve: (*visit).logOut},
	}
}

type loginPage struct {
	Back string
	// Link says that there is no file of users, and a link in the terminal lets in.
	Link, Printed bool
	// Proxy says that only the proxy names people.
	Proxy bool
	Wrong string
}

func (v *visit) loginPage() error {
	if token := v.query("token"); token != "" {
		return v.useLink(token)
	}
	return v.showLogin(http.StatusOK, loginPage{})
}

func (v *visit) showLogin(status int, p loginPage) error {
	p.Back = local(v.FormValue("back"))
	p.Link, p.Proxy = !v.s.cfg.knowsPeople(), v.s.cfg.Users == "" && v.s.cfg.UserHeader != ""
	v.status = status
	return v.render("login", "Log in", p)
}

// useLink logs in by a one-time link.
func (v *visit) useLink(token string) error {
	if v.s.cfg.knowsPeople() || !v.s.attempts.allow("link") || !v.s.link.use(token, time.Now()) {
		return v.showLogin(http.StatusUnauthorized, loginPage{Wrong: "This link was used already or is older than 15 minutes."})
	}
	v.begin(Person{Name: v.s.starter, Rights: Rights{Operator, true}, How: "link"})
	return v.done(local(v.query("back")), "")
}

// begin opens a session under a new cookie, and ends the one before it.
func (v *visit) begin(p Person) {
	if c, err := v.Cookie(v.s.cookieName(v.Request)); err == nil {
		v.s.sessions.end(c.Value)
	}
	v.s.setCookie(v.w, v.Request, v.s.sessions.begin(p), int(v.s.cfg.SessionTime.Seconds()))
	v.s.log.Info().Str("person", p.Name).Str("role", p.Rights.String()).Str("by", p.How).Str("from", v.s.client(v.Request)).Msg("logged in")
}

// logIn checks a name and a password.
func (v *visit) logIn() error {
	if v.s.cfg.Users == "" {
		return badRequest("This console has no passwords.", "Use the link in the terminal in which it was started.")
	}
	name, password := v.field("name"), v.PostFormValue("password")
	from := v.s.client(v.Request)
	if !v.s.attempts.allow("from "+from, "name "+name) {
		v.w.Header().Set("Retry-After", fmt.Sprint(int(tryEvery.Seconds())))
		return v.showLogin(http.StatusTooManyRequests, loginPage{Wrong: "Too many attempts. Wait a minute and try again."})
	}
	select {
	case v.s.attempts.compare <- struct{}{}:
	case <-v.Context().Done():
		return nil
	}
	rights, right := v.s.users.check(name, password)
	<-v.s.attempts.compare
	if !right {
		v.s.log.Warn().Str("name", name).Str("from", from).Msg("a login was refused")
		return v.showLogin(http.StatusUnauthorized, loginPage{Wrong: "This name and password do not belong together."})
	}
	v.begin(Person{Name: name, Rights: rights, How: "login"})
	return v.done(local(v.PostFormValue("back")), "")
}

// printLink prints a new link where only whoever runs the console sees it.
func (v *visit) printLink() error {
	if v.s.cfg.knowsPeople() {
		return notFound("There is no such page.", "Log in with your name.")
	}
	if !v.s.attempts.allow("link") {
		return v.showLogin(http.StatusTooManyRequests, loginPage{Wrong: "Too many attempts. Wait a minute and try again."})
	}
	v.s.announceLink()
	return v.showLogin(http.StatusOK, loginPage{Printed: true})
}

// announceLink prints a one-time link, unless people log in with names.
func (s *Server) announceLink() {
	if s.cfg.knowsPeople() {
		return
	}
	s.announce("Log in once within 15 minutes: " + s.url + "/login?token=" + url.QueryEscape(s.link.renew(time.Now())))
}

func (v *visit) logOut() error {
	if c, err := v.Cookie(v.s.cookieName(v.Request)); err == nil {
		v.s.sessions.end(c.Value)
	}
	v.s.setCookie(v.w, v.Request, "", -1)
	v.session = nil
	return v.render("goodbye", "Logged out", nil)
}
