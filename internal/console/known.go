package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

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
