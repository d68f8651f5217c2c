package console

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// lookalike is an order number that looks like another one. The two are different orders,
// for orderpost and for the API, and nobody can tell them apart on a screen.
type lookalike struct {
	// Twin is the order number that it looks like, in its usual characters.
	Twin string
	// Says are sentences about the characters that differ.
	Says []string
}

// Link is the address of the twin's page.
func (l *lookalike) Link() string { return orderAddress(l.Twin) }

// twins are letters of other scripts, and signs, that fonts draw like one of ASCII.
var twins = func() map[rune]rune {
	out := make(map[rune]rune)
	for from, to := range map[string]string{
		"АВЕЅІЈКМНОРСТУХԚԜҮһаеѕіјорсухԛԁӏ": "ABESIJKMHOPCTYXQWYhaesijopcyxqdl", // Cyrillic
		"ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοινϳ":               "ABEZHIKMNOPTYXoivj",               // Greek
		"‐‑‒–—−﹣⁃․‚⁄∕‘’ʹ′":                 "--------.,//''''",                 // signs
	} {
		plain := []rune(to)
		for i, r := range []rune(from) {
			out[r] = plain[i]
		}
	}
	return out
}()

// alike says what an order number looks like; nil = like itself. A number whose letters are
// all of one other script looks like itself, unless each of them has a twin.
func alike(no string) *lookalike {
	l := &lookalike{}
	whole := norm.NFC.String(no)
	if whole != no {
		l.Says = append(l.Says, "It has letters in parts (Unicode NFD), which look as if they were whole.")
	}
	narrow := width.Fold.String(whole)
	if narrow != whole {
		l.Says = append(l.Says, "It has full-width or half-width characters.")
	}
	latin, own := false, false // own: a letter that cannot be mistaken for a Latin one
	for _, r := range narrow {
		_, has := twins[r]
		latin = latin || unicode.Is(unicode.Latin, r)
		own = own || !has && unicode.In(r, unicode.Cyrillic, unicode.Greek)
	}
	var odd []string
	place := 0
	l.Twin = strings.Map(func(r rune) rune {
		place++
		twin, has := twins[r]
		if !has || unicode.IsLetter(r) && own && !latin {
			return r
		}
		odd = append(odd, fmt.Sprintf("%c at place %d is %s (%U) and looks like %c", r, place, script(r), r, twin))
		return twin
	}, narrow)
	if n := len(odd); n > 5 {
		odd = append(odd[:5], fmt.Sprintf("%d more", n-5))
	}
	if len(odd) > 0 {
		l.Says = append(l.Says, strings.Join(odd, "; ")+".")
	}
	if l.Twin == no {
		return nil
	}
	return l
}

func script(r rune) string {
	switch {
	case unicode.Is(unicode.Cyrillic, r):
		return "Cyrillic"
	case unicode.Is(unicode.Greek, r):
		return "Greek"
	default:
		return "another sign"
	}
}
