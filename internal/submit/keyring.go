package submit

import (
	"encoding/base64"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"orderpost/internal/submit/answer"
)

// keyring holds the account's key pairs, which pair is in use, and what the API's
// answers showed about each pair.
type keyring struct {
	source KeySource
	log    zerolog.Logger
	scrub  atomic.Pointer[scrubber]

	mu      sync.Mutex
	pairs   []*pairState
	active  int  // the index of the pair in use; those before it are bad
	allBad  bool // the pair in use, the last one, is bad, too
	lastErr string
}

func newKeyring(source KeySource, log zerolog.Logger) (*keyring, error) {
	k := &keyring{source: source, log: log}
	pairs, err := k.read()
	if err != nil {
		return nil, err
	}
	k.take(pairs)
	return k, nil
}

func (k *keyring) read() ([]KeyPair, error) {
	pairs, err := k.source.Pairs()
	if err != nil {
		return nil, err
	}
	return pairs, checkPairs(pairs)
}

// where names the settings that hold the pairs.
func (k *keyring) where() string {
	if named, ok := k.source.(interface{ Where() string }); ok {
		return named.Where()
	}
	return "ORDERPOST_API_KEY and ORDERPOST_API_SECRET"
}

// take replaces the pairs and makes the first one active. Of a pair that stays it is known
// what it accepted, but it is no longer bad.
func (k *keyring) take(pairs []KeyPair) {
	var states []*pairState
	known := pairs
	for _, p := range pairs {
		s := &pairState{KeyPair: p, shared: &shared{}}
		for _, old := range k.pairs {
			if old.KeyPair == p {
				s.shared = old.shared
			}
		}
		states = append(states, s)
	}
	for _, old := range k.pairs {
		known = append(known[:len(known):len(known)], old.KeyPair) // an answer to a request in flight may show its key
	}
	k.scrub.Store(newScrubber(known))
	k.pairs, k.active, k.allBad = states, 0, false
}

// use returns the active pair.
func (k *keyring) use() *pairState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pairs[k.active]
}

// reload reads the pairs from the source again. If that fails, the pairs stay, and
// the error is logged once.
func (k *keyring) reload() (changed bool) {
	pairs, err := k.read()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if err.Error() != k.lastErr {
			k.lastErr = err.Error()
			k.log.Error().Str("error", k.lastErr).Msg("cannot reload the API keys; going on with the old ones")
		}
		return false
	}
	k.lastErr = ""
	if slices.EqualFunc(k.pairs, pairs, func(old *pairState, p KeyPair) bool { return old.KeyPair == p }) {
		return false
	}
	k.take(pairs)
	k.log.Info().Int("pairs", len(pairs)).Stringer("key", pairs[0]).Msg("API keys reloaded")
	return true
}

// note says why the pairs could not be read again; "" = they could.
func (k *keyring) note() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lastErr == "" {
		return ""
	}
	return "going on with the old API keys: " + k.lastErr
}

// markBad marks the pair in use as bad and switches to the next one. none says that all
// pairs are bad. A pair that is in use no more changes nothing.
func (k *keyring) markBad(p *pairState) (next *pairState, none bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.pairs[k.active] != p:
	case k.active == len(k.pairs)-1:
		k.allBad = true
		return p, true
	default:
		k.active++
	}
	return k.pairs[k.active], false
}

// retryAll begins again with the first pair if all are bad.
func (k *keyring) retryAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.allBad {
		k.active, k.allBad = 0, false
	}
}

// inUse reports whether the pair is the active one and not bad.
func (k *keyring) inUse(p *pairState) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pairs[k.active] == p && !k.allBad
}

// scrubber masks API keys in text from outside. An API may answer "unknown key
// AK123…", and answers are recorded and logged. The scrubber finds a key in plain
// text, escaped for JSON, URLs or HTML, and in Base64 or hex.
type scrubber struct{ forms []keyForm }

// keyForm is one way to write a key.
type keyForm struct {
	plain   string         // "" = pattern is set
	pattern *regexp.Regexp // matches a key with escaped characters
	mask    string
}

// minHidden is the shortest encoded form that the scrubber looks for.
const minHidden = 12

func newScrubber(pairs []KeyPair) *scrubber {
	s := &scrubber{}
	for _, p := range pairs {
		if p.Key == "" {
			continue
		}
		masked := mask(p.Key)
		s.forms = append(s.forms, keyForm{plain: p.Key, mask: masked}, keyForm{pattern: escaped(p.Key), mask: masked})
		for _, text := range encoded(p.Key) {
			s.forms = append(s.forms, keyForm{plain: text, mask: masked})
		}
	}
	return s
}

// escaped returns a pattern for a key with escaped characters: `\"` and `\u0041`
// (JSON, also nested), %41 (URLs, also escaped twice), &amp; and &#65; (HTML).
func escaped(key string) *regexp.Regexp {
	var p strings.Builder
	for _, c := range []byte(key) {
		fmt.Fprintf(&p, `(?:\\*%s|\\+(?:u00|x)(?i:%02x)|%%(?:25)*(?i:%02x)|&#0*%d;|&#[xX]0*(?i:%x);`, regexp.QuoteMeta(string(c)), c, c, c, c)
		if name := html.EscapeString(string(c)); name != string(c) {
			p.WriteString("|" + name)
		}
		if c == '"' {
			p.WriteString("|&quot;")
		}
		p.WriteString(")")
	}
	return regexp.MustCompile(p.String())
}

// encoded returns the key in hex, and the parts that every Base64 of a text with the
// key contains, for the three offsets at which the key may begin.
func encoded(key string) []string {
	var out []string
	for lead := range 3 {
		raw := []byte(strings.Repeat("\x00", lead) + key)
		from, to := (lead*8+5)/6, len(raw)*8/6 // characters that hold bits of the key alone
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			out = append(out, e.EncodeToString(raw)[from:to])
		}
	}
	out = append(out, fmt.Sprintf("%x", key), fmt.Sprintf("%X", key))
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(s string) bool { return len(s) < minHidden })
}

func (s *scrubber) clean(text string) string {
	if s == nil {
		return text
	}
	escapes := strings.ContainsAny(text, `\%&`)
	for _, f := range s.forms {
		switch {
		case f.pattern == nil:
			if strings.Contains(text, f.plain) {
				text = strings.ReplaceAll(text, f.plain, f.mask)
			}
		case escapes:
			text = f.pattern.ReplaceAllLiteralString(text, f.mask)
		}
	}
	return text
}

// Excerpt returns at most the first limit bytes of text without keys. It masks keys
// before it cuts, because it would not recognize half a key.
func (s *scrubber) Excerpt(text []byte, limit int) string {
	const margin = 1024 // longer than a key in any form
	return answer.Bounded(s.clean(string(text[:min(len(text), limit+margin)])), limit)
}
