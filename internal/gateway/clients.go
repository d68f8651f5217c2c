package gateway

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/rs/zerolog"

	"orderpost/internal/door"
	"orderpost/internal/order"
	"orderpost/internal/textfile"
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
	names, tokens, certificates := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for i, e := range file.Clients {
		if err := e.check(); err != nil {
			errs = append(errs, fmt.Errorf("client %d: %w", i+1, err))
		}
		if names[e.Name] {
			errs = append(errs, fmt.Errorf("client %d: the name %q is there already", i+1, e.Name))
		}
		for _, t := range e.Tokens {
			if tokens[t] {
				errs = append(errs, fmt.Errorf("client %d: one of its tokens is there already; each client needs its own", i+1))
			}
			tokens[t] = true
		}
		for _, name := range e.Certificates {
			if certificates[name] {
				errs = append(errs, fmt.Errorf("client %d: the certificate %q is there already; each client needs its own", i+1, name))
			}
			certificates[name] = true
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

// lookEvery is how often the file of clients is looked at, at most.
const lookEvery = time.Second

// clients finds the client of a token. The file is read again when it changes. After an
// error, the clients stay who they were: a file that is being edited locks nobody out.
type clients struct {
	path string
	log  zerolog.Logger

	mu      sync.RWMutex
	byToken map[string]*client
	// byCertificate has the names of certificates as an entry has them.
	byCertificate map[string]*client
	limits        map[string]*limits // by name: they outlive a change of the file
	looked        time.Time
	modified      time.Time
	size          int64
	wrong         string // the error of the last look, so that it is logged once
}

// find returns the client of a token; nil = nobody's.
func (c *clients) find(token string) *client {
	c.look()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byToken[hashPrefix+hex.EncodeToString(hashed(token))]
}

// findCertified returns the client of a certificate; nil = nobody's, or more than one's.
func (c *clients) findCertified(cert *x509.Certificate) (found *client) {
	c.look()
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, name := range namesOf(cert) {
		one := c.byCertificate[name]
		if one != nil && found != nil && one.name != found.name {
			return nil
		}
		found = cmp.Or(found, one)
	}
	return found
}

// again returns the client that a token or certificate is known by now; nil = nobody's any more.
func (c *clients) again(was *client) *client {
	c.look()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return cmp.Or(c.byToken[was.by], c.byCertificate[was.by])
}

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

// look reads the file again if it changed, once a second at most.
func (c *clients) look() {
	c.mu.RLock()
	fresh := time.Since(c.looked) < lookEvery
	c.mu.RUnlock()
	if fresh {
		return
	}
	err := c.load()
	c.mu.Lock()
	defer c.mu.Unlock()
	wrong := ""
	if err != nil {
		wrong = err.Error()
	}
	if wrong != c.wrong {
		if c.wrong = wrong; err != nil {
			c.log.Error().Err(err).Msg("the file of clients cannot be used; those known before stay")
		} else {
			c.log.Info().Str("file", c.path).Msg("the file of clients can be used again")
		}
	}
}

// load reads the file if it changed.
func (c *clients) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = time.Now()
	info, err := os.Stat(c.path)
	if err == nil {
		err = private(c.path, info)
	}
	if err != nil {
		return fmt.Errorf("ORDERPOST_GATEWAY_CLIENTS: %w", err)
	}
	if c.byToken != nil && info.ModTime().Equal(c.modified) && info.Size() == c.size {
		return nil
	}
	text, err := textfile.Read(c.path)
	if err != nil {
		return fmt.Errorf("ORDERPOST_GATEWAY_CLIENTS: %w", err)
	}
	entries, err := readEntries(text)
	if err != nil {
		return fmt.Errorf("ORDERPOST_GATEWAY_CLIENTS: %s: %w", c.path, err)
	}
	c.take(entries)
	c.modified, c.size = info.ModTime(), info.Size()
	return nil
}

// take replaces the clients. What a client has under way counts against its
// new limits, and goes on if the client may still do it (recheck). The caller holds mu.
func (c *clients) take(entries []Entry) {
	byToken, byCertificate, kept := make(map[string]*client), make(map[string]*client), make(map[string]*limits)
	for _, e := range entries {
		l := c.limits[e.Name]
		if l == nil {
			l = newLimits(e)
		} else {
			l.set(e)
		}
		kept[e.Name] = l
		known := func(by string) *client {
			return &client{name: e.Name, by: by, scopes: e.Scopes, maxBody: cmp.Or(e.MaxBody, order.MaxBody), limits: l}
		}
		for _, t := range e.Tokens {
			byToken[t] = known(t)
		}
		for _, name := range e.Certificates {
			byCertificate[name] = known(name)
		}
	}
	c.byToken, c.byCertificate, c.limits = byToken, byCertificate, kept
}

// private returns an error if anybody on the machine can change the file: they could let
// themselves in.
func private(path string, info os.FileInfo) error {
	if mode := info.Mode(); runtime.GOOS != "windows" && mode.Perm()&0o002 != 0 {
		return fmt.Errorf("anybody on this machine may write %s (mode %04o) and let themselves in; run chmod o-w %s", path, mode.Perm(), path)
	}
	return nil
}
