package submit

import (
	"strings"
	"unicode/utf8"
)

// mask shows as much of a key as a person needs to tell pairs apart: two
// characters at either end, and nothing of a short one.
func mask(key string) string {
	if len(key) < 12 {
		return "****"
	}
	return key[:2] + "…" + key[len(key)-2:]
}

// scrubber removes API keys from text that others wrote: an API may well
// answer `unknown key AK123…`, and answers are recorded and logged.
type scrubber struct{ replacer *strings.Replacer }

func newScrubber(pairs []KeyPair) scrubber {
	var args []string
	for _, p := range pairs {
		if p.Key != "" {
			args = append(args, p.Key, mask(p.Key))
		}
	}
	return scrubber{strings.NewReplacer(args...)}
}

func (s scrubber) clean(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// bounded cuts text to at most limit bytes at a rune boundary and makes it
// valid UTF-8.
func bounded(text string, limit int) string {
	if len(text) > limit {
		for limit > 0 && !utf8.RuneStart(text[limit]) {
			limit--
		}
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
