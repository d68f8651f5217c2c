package console

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"orderpost/internal/files/importer"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
)

// functions are what templates may call.
var functions = template.FuncMap{
	"static":   staticURL,
	"alike":    alike,
	"count":    count,
	"rate":     fleet.RateText,
	"stamp":    moment,
	"age":      age,
	"plural":   plural,
	"plain":    plain,
	"clip":     shorten,
	"due":      due,
	"sentence": sentence,
	"typable":  typable,
	"warned":   warnedRows,
	"tone":     tone,
	"took":     took,
	"meaning":  func(o order.Outcome) string { return o.Meaning() },
	"dict":     dict,
	"size":     size,
	"yes":      yes,
	"minus":    func(a, b int) int { return a - b },
	"coloured": resultTone,
	"formats":  importer.Formats,
}

// parameters returns those of an address: names and values in turn. An empty value is left out.
func parameters(pairs ...string) url.Values {
	q := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// address returns the address of a page with parameters.
func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// unlessZero writes a number for an address; 0 = "".
func unlessZero(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// dict makes a map of names and values, for templates that take several.
func dict(pairs ...any) (map[string]any, error) {
	out := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is not a name", pairs[i])
		}
		out[name] = pairs[i+1]
	}
	return out, nil
}

// count writes a whole number with thousands apart.
func count(n any) string {
	text := fmt.Sprint(n)
	digits := strings.TrimPrefix(text, "-")
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return strings.TrimSuffix(text, digits) + b.String()
}

// stamp writes a time for people, in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// moment writes a time as an element of a page. console.js adds the time of the reader's
// place to it.
func moment(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `">` + stamp(t) + "</time>") //nolint:gosec // digits only
}

// age writes how long ago a time is, in one unit.
func age(now, t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return span(now.Sub(t))
}

func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than a second"
	case d < 2*time.Minute:
		return plural(int(d.Seconds()), "second", "seconds")
	case d < 2*time.Hour:
		return plural(int(d.Minutes()), "minute", "minutes")
	case d < 48*time.Hour:
		return plural(int(d.Hours()), "hour", "hours")
	default:
		return plural(int(d.Hours()/24), "day", "days")
	}
}

// took writes how long something lasted.
func took(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return span(d)
}

// plural writes a number with its noun.
func plural(n any, one, many string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + one
	}
	return count(n) + " " + many
}

// shorten returns the first n bytes of a text, with a mark where it was cut.
func shorten(s string, n int) string { return order.Clip(s, n) }

// sentence makes a phrase begin with a capital and end with a full stop. The name of a file, a
// column or a setting stays as it is.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	s = strings.TrimSuffix(s, ".") + "."
	if word, _, _ := strings.Cut(s, " "); strings.ContainsAny(strings.TrimRight(word, ".,:;"), "./_:=") {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// plain shows the characters of foreign text that would hide, reorder or control
// what is around it. Templates escape markup by themselves.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError, !unicode.IsPrint(r):
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// typable returns what a field may show: nothing, if the text has characters that a
// field would hide.
func typable(s string) string {
	if plain(s) != s {
		return ""
	}
	return s
}
