package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxSessions bounds the sessions. The one that was idle longest makes room.
const maxSessions = 1000

// maxOfOne bounds the sessions of one person. A program that a proxy names without a cookie
// opens one with each request, and ends only those of its own name.
const maxOfOne = 20

// session is one login in one browser.
type session struct {
	Person
	began, seen time.Time
	flash       atomic.Pointer[flash] // for the next page; nil = none
}

// flash is a sentence for the next page, about what was just done.
type flash struct {
	Text string
	Bad  bool
}

// sessions are the logins. A restart of the console ends them all. The map's keys
// are hashes of the cookies, so the time of a lookup tells nothing about a cookie.
type sessions struct {
	life, idle time.Duration
	now        func() time.Time

	mu   sync.Mutex
	open map[[sha256.Size]byte]*session
}

func newSessions(life, idle time.Duration) *sessions {
	return &sessions{life: life, idle: idle, now: time.Now, open: make(map[[sha256.Size]byte]*session)}
}

// begin opens a session and returns its cookie's value.
func (s *sessions) begin(p Person) (cookie string) {
	cookie = rand.Text() + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(p.Name)
	now := s.now()
	s.open[sha256.Sum256([]byte(cookie))] = &session{Person: p, began: now, seen: now}
	return cookie
}

// find returns the session of a cookie; nil if there is none, or if it has ended.
func (s *sessions) find(cookie string) *session {
	key := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.open[key]
	if found == nil {
		return nil
	}
	if s.ended(found) {
		delete(s.open, key)
		return nil
	}
	return found
}

// touch notes that a person used the session. A page that refreshes itself does not
// count: a console that nobody looks at must not stay open for ever.
func (s *sessions) touch(found *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found.seen = s.now()
}

func (s *sessions) end(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sha256.Sum256([]byte(cookie)))
}

func (s *sessions) ended(found *session) bool {
	now := s.now()
	return now.Sub(found.began) >= s.life || now.Sub(found.seen) >= s.idle
}

// sweep removes what has ended, and makes room for one more of a person.
func (s *sessions) sweep(name string) {
	maps.DeleteFunc(s.open, func(_ [sha256.Size]byte, one *session) bool { return s.ended(one) })
	all := slices.Collect(maps.Keys(s.open))
	own := slices.DeleteFunc(slices.Clone(all), func(key [sha256.Size]byte) bool { return s.open[key].Name != name })
	idlest := func(keys [][sha256.Size]byte) [sha256.Size]byte {
		return slices.MinFunc(keys, func(a, b [sha256.Size]byte) int { return s.open[a].seen.Compare(s.open[b].seen) })
	}
	switch {
	case len(own) >= maxOfOne:
		delete(s.open, idlest(own))
	case len(all) >= maxSessions:
		delete(s.open, idlest(all))
	}
}

// A browser in which a person has logged in with a password keeps a signed cookie. It lets
// nobody in. It only tells that browser apart from strangers: whoever guesses passwords
// elsewhere uses up the tries of strangers, and not those of this browser.
//
// The key is made from the hash of the person's password, so the console has no secret more
// to keep, the cookie works after a restart, and another password ends it.

// knownTime is how long a browser stays known. Browsers keep no cookie longer.
const knownTime = 400 * 24 * time.Hour

func (s *Server) knownCookie(r *http.Request) string { return s.cookieName(r) + "-known" }

// signature proves that this console made a known browser's cookie.
func (u user) signature(name, id string) []byte {
	mac := hmac.New(sha256.New, []byte(u.hash))
	_, _ = mac.Write([]byte("orderpost known browser\x00" + name + "\x00" + id))
	return mac.Sum(nil)
}

// remember makes the browser of a request known as the person's.
func (v *visit) remember(name string) {
	u, found := v.s.users.find(name)
	if !found {
		return
	}
	id := rand.Text()
	text := base64.RawURLEncoding.EncodeToString
	http.SetCookie(v.w, &http.Cookie{Name: v.s.knownCookie(v.Request), Value: text([]byte(name)) + "." + id + "." + text(u.signature(name, id)), Path: "/",
		MaxAge: int(knownTime.Seconds()), HttpOnly: true, Secure: v.s.secure(v.Request), SameSite: http.SameSiteStrictMode})
}

// known returns the id of the browser if it is known as the person's; "" = it is a
// stranger's.
func (v *visit) known(name string) (id string) {
	c, err := v.Cookie(v.s.knownCookie(v.Request))
	if err != nil {
		return ""
	}
	parts := strings.Split(c.Value, ".")
	u, found := v.s.users.find(name)
	if len(parts) != 3 || !found || u.hash == byProxy || parts[0] != base64.RawURLEncoding.EncodeToString([]byte(name)) {
		return ""
	}
	given, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !hmac.Equal(given, u.signature(name, parts[1])) {
		return ""
	}
	return parts[1]
}
