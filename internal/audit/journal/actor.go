package journal

import "cmp"

// Actor is the person, or the program in place of one, that acts.
type Actor struct {
	Name string `json:"name"`
	// Known says how the name is known.
	Known Known `json:"known"`
}

// Known says how an actor's name is known. The broker checks none of this: an
// entry is as true as the program that wrote it.
type Known string

// How a name is known. The first four are checked by the program that wrote the
// entry, the others are claims.
const (
	Login       Known = "login"       // a password
	Link        Known = "link"        // the console's login link, which its terminal shows
	Proxy       Known = "proxy"       // an authenticating proxy named it
	Certificate Known = "certificate" // a client certificate names it
	Token       Known = "token"       // the token of a client of the HTTP door
	ByFlag      Known = "by"          // the flag --by
	ByUser      Known = "user"        // the variables $USER, $LOGNAME or $USERNAME, and the host
	ByProcess   Known = "process"     // nobody gave a name: the process's user id, and the host
)

// Claimed reports whether nobody has checked the name.
func (k Known) Claimed() bool {
	return k != Login && k != Link && k != Proxy && k != Certificate && k != Token
}

// meanings say in a few words how a name is known.
var meanings = map[Known]string{
	Login: "logged in", Link: "opened the login link", Proxy: "named by the proxy", Certificate: "named by a certificate",
	Token: "named by a client's token", ByFlag: "claimed by --by", ByUser: "claimed by $USER", ByProcess: "no name given",
}

// Meaning says in a few words how the name is known.
func (k Known) Meaning() string { return cmp.Or(meanings[k], "known by "+string(k)) }
