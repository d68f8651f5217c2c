package submit

import (
	"encoding/base64"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"

	"orderpost/internal/submit/answer"
)

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
