package gateway

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/rs/zerolog"

	"orderpost/internal/gateway/door"
	"orderpost/internal/order"
	"orderpost/internal/platform/livefile"
	"orderpost/internal/platform/textfile"
)

// Scope is one thing that a client may do.
type Scope string

// The scopes.
const (
	// Submit: bring orders.
	Submit Scope = "submit"
	// Read: see the outcomes of the client's own orders.
	Read Scope = "read"
	// ReadAll: see every outcome. It includes Read.
	ReadAll Scope = "read:all"
	// Cancel: withdraw the orders that the client may see.
	Cancel Scope = "cancel"
)

// Scopes lists every scope.
func Scopes() []Scope { return []Scope{Submit, Read, ReadAll, Cancel} }

// The limits of a client whose entry sets none.
const (
	defaultRate     = 200
	defaultInFlight = 64
	defaultWaiting  = 500
)

// Entry is a client as the file of clients has it.
type Entry struct {
	// Name is the client's name, and the Order-Source of its orders.
	Name   string  `yaml:"name"`
	Scopes []Scope `yaml:"scopes"`
	// Tokens are one or two hashes, each "sha256-" and 64 hex digits. With two of them a
	// token can be replaced without a moment in which neither works.
	Tokens []string `yaml:"tokens,omitempty"`
	// Certificates are names that a client's certificate has, instead of tokens or beside
	// them: subject:CN=shop,O=Example, dns:shop.example.com, or uri:spiffe://example.com/shop.
	Certificates []string `yaml:"certificates,omitempty"`
	// Rate is the most requests per second, and the most orders per second on the lines
	// of a stream.
	Rate int `yaml:"rate,omitempty"`
	// InFlight is the most requests at work at once, Waiting the most long polls and
	// feeds at once.
	InFlight int `yaml:"in_flight,omitempty"`
	Waiting  int `yaml:"waiting,omitempty"`
	// MaxBody is the largest order in bytes.
	MaxBody int `yaml:"max_body,omitempty"`
}

// NewEntry makes an entry with a new token, or for a client with a certificate of these
// names. Only the token's hash is in the entry.
func NewEntry(name string, scopes []Scope, certificates ...string) (e Entry, token string, err error) {
	if len(certificates) > 0 {
		e = Entry{Name: name, Scopes: scopes, Certificates: certificates}
		return e, "", e.check()
	}
	token = "op_" + rand.Text() + rand.Text()
	e = Entry{Name: name, Scopes: scopes, Tokens: []string{hashPrefix + hex.EncodeToString(hashed(token))}}
	return e, token, e.check()
}

// YAML returns the entry as lines of the file of clients, below "clients:".
func (e Entry) YAML() (string, error) {
	text, err := yaml.Marshal([]Entry{e})
	return string(text), err
}

const hashPrefix = "sha256-"

func hashed(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// clientName has no colon, because the name begins the ids of the client's submissions
// (submissionID).
var (
	clientName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	tokenHash  = regexp.MustCompile(`^sha256-[0-9a-f]{64}$`)
)

// check returns every mistake of the entry. It never repeats a hash.
func (e Entry) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !clientName.MatchString(e.Name) {
		bad("name: %q is not 1 to 64 letters, digits, dots, _ and -, beginning with a letter or a digit", e.Name)
	}
	if len(e.Scopes) == 0 {
		bad("scopes: none; give some of %s", joined(Scopes()))
	}
	for _, s := range e.Scopes {
		if !slices.Contains(Scopes(), s) {
			bad("scopes: %q is none of %s", s, joined(Scopes()))
		}
	}
	if n := len(e.Tokens); n > 2 || n == 0 && len(e.Certificates) == 0 {
		bad("tokens: %d; give one hash, or two while a token is replaced", n)
	}
	for i, t := range e.Tokens {
		if !tokenHash.MatchString(t) {
			bad("tokens: number %d is not sha256- and 64 lower-case hex digits; it must be the hash of the token, never the token", i+1)
		}
	}
	for i, name := range e.Certificates {
		if kind, text, _ := strings.Cut(name, ":"); text == "" || !slices.Contains([]string{bySubject, byDNS, byURI}, kind+":") || kind+":" == byDNS && text != strings.ToLower(text) {
			bad("certificates: number %d is not subject:CN=…, dns: and a host in lower case, or uri: and a URI", i+1)
		}
	}
	for name, n := range map[string]int{"rate": e.Rate, "in_flight": e.InFlight, "waiting": e.Waiting, "max_body": e.MaxBody} {
		if n < 0 {
			bad("%s: %d is below 0", name, n)
		}
	}
	if e.MaxBody > order.MaxBody {
		bad("max_body: %d; no order may have more than %d bytes", e.MaxBody, order.MaxBody)
	}
	return errors.Join(errs...)
}

func joined(scopes []Scope) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// readEntries reads a file of clients. Its error names every mistake, and repeats no line
// of the file, because somebody may have written a token where its hash belongs.
func readEntries(text []byte) ([]Entry, error) {
	var file struct {
		Clients []Entry `yaml:"clients"`
	}
	if err := textfile.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s", yaml.FormatError(err, false, false))
	}
	if len(file.Clients) == 0 {
		return nil, errors.New(`it names nobody: write "clients:" and an entry for each`)
	}
	var errs []error
	names, ways := make(map[string]bool), make(map[string]bool)
	for i, e := range file.Clients {
		if err := e.check(); err != nil {
			errs = append(errs, fmt.Errorf("client %d: %w", i+1, err))
		}
		if names[e.Name] {
			errs = append(errs, fmt.Errorf("client %d: the name %q is there already", i+1, e.Name))
		}
		for _, t := range e.Tokens {
			if ways[t] {
				errs = append(errs, fmt.Errorf("client %d: one of its tokens is there already; each client needs its own", i+1))
			}
			ways[t] = true
		}
		for _, name := range e.Certificates {
			if ways[name] {
				errs = append(errs, fmt.Errorf("client %d: the certificate %q is there already; each client needs its own", i+1, name))
			}
			ways[name] = true
		}
		names[e.Name] = true
	}
	return file.Clients, errors.Join(errs...)
}

// client is one program that is known, or every program of this machine.
type client struct {
	name string
	// by is the hash of the token, or the name in the certificate, that this client is known
	// by; "" = every program of this machine.
	by      string
	scopes  []Scope
	maxBody int
	limits  *limits
}

// may reports whether the client has a scope.
func (c *client) may(s Scope) bool {
	return slices.Contains(c.scopes, s) || s == Read && slices.Contains(c.scopes, ReadAll)
}

// sees reports whether the client may know of this submission. Its id alone tells whose it is if
// so many orders wait that nobody looks for one of them, and if the order was accepted before: its
// result keeps the source of the first submission.
func (c *client) sees(o door.Outcome) bool {
	return c.may(ReadAll) || o.Source == c.name || c.owns(o.Source) || c.owns(o.ID) && (o.Source == "" || !o.Pending)
}

// owns reports whether a submission's id, or the source of an order that came in a file,
// is the client's.
func (c *client) owns(id string) bool { return strings.HasPrefix(id, c.name+":") }

// localClient is who asks when there is no file of clients: any program of this machine.
func localClient() *client {
	return &client{name: "local", scopes: Scopes(), maxBody: order.MaxBody,
		limits: newLimits(Entry{InFlight: 1024, Waiting: 20_000})}
}

// clients finds the client of a token or a certificate in a file that is read again when it changes. The
// keys are client.by.
type clients struct {
	*livefile.Live[map[string]*client]
	limits map[string]*limits // by name: they outlive a change of the file
}

// openClients reads a file of clients. A file that is wrong later locks nobody out.
func openClients(path string, log zerolog.Logger) (c *clients, err error) {
	c = &clients{}
	c.Live, err = livefile.OpenLive(livefile.Options{Setting: "ORDERPOST_GATEWAY_CLIENTS", Path: path, Guard: true, Log: log}, c.take)
	return c, err
}

// find returns the client of a token; nil = nobody's.
func (c *clients) find(token string) *client {
	return c.Get()[hashPrefix+hex.EncodeToString(hashed(token))]
}

// findCertified returns the client of a certificate; nil = nobody's, or more than one's.
func (c *clients) findCertified(cert *x509.Certificate) (found *client) {
	known := c.Get()
	for _, name := range namesOf(cert) {
		one := known[name]
		if one != nil && found != nil && one.name != found.name {
			return nil
		}
		found = cmp.Or(found, one)
	}
	return found
}

// again returns the client that a token or certificate is known by now; nil = nobody's any more.
func (c *clients) again(was *client) *client { return c.Get()[was.by] }

// certificateName begins a name in Entry.Certificates.
const (
	bySubject = "subject:"
	byDNS     = "dns:"
	byURI     = "uri:"
)

// namesOf returns the names of a certificate as an entry has them.
func namesOf(cert *x509.Certificate) []string {
	names := []string{bySubject + cert.Subject.String()}
	for _, host := range cert.DNSNames {
		names = append(names, byDNS+strings.ToLower(host))
	}
	for _, u := range cert.URIs {
		names = append(names, byURI+u.String())
	}
	return names
}

// take replaces the clients. What a client has under way counts against its
// new limits, and goes on if the client may still do it (recheck).
func (c *clients) take(text []byte) (map[string]*client, error) {
	entries, err := readEntries(text)
	if err != nil {
		return nil, err
	}
	known, kept := make(map[string]*client), make(map[string]*limits)
	for _, e := range entries {
		l := c.limits[e.Name]
		if l == nil {
			l = newLimits(e)
		} else {
			l.set(e)
		}
		kept[e.Name] = l
		for _, by := range slices.Concat(e.Tokens, e.Certificates) {
			known[by] = &client{name: e.Name, by: by, scopes: e.Scopes, maxBody: cmp.Or(e.MaxBody, order.MaxBody), limits: l}
		}
	}
	c.limits = kept
	return known, nil
}
