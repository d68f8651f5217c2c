package answer

import (
	"bytes"
	"slices"
	"strings"
)

// claim is what a text for people, or a code in words, says about an order.
type claim uint8

const (
	saidNothing claim = iota // nothing that matters, such as "ok"
	saidExists               // an order with this order_no exists
	saidError                // something went wrong
	saidNot                  // something was not done, or was refused
	saidUnclear              // it holds words that are not known
)

// wordKind is what a word contributes to a text.
type wordKind uint8

const (
	wordUnknown  wordKind = iota
	wordNeutral           // changes nothing
	wordOrder             // names the order
	wordPart              // part of an order's name, or of something else's: number, key
	wordExists            // says that something exists
	wordAlready           // says it together with a wordDone
	wordDone              // used, created
	wordError             // something went wrong
	wordNegation          // turns the meaning of the text
)

var wordKinds = func() map[string]wordKind {
	kinds := map[string]wordKind{}
	for kind, words := range map[wordKind]string{
		wordNeutral:  "a an the this that it its you your we our is was are has have had been be being with same in of on at by for and to ok okay success resource entity detected found previously before earlier conflict http status",
		wordOrder:    "order orders orderno ordernumber orderid ord ordno clordid",
		wordPart:     "no num number id identifier ref reference client cl merchant external request submission key value entry unique constraint violates violation transaction record code",
		wordExists:   "exists exist existing existed duplicate duplicates duplicated duplication",
		wordAlready:  "already",
		wordDone:     "used taken created placed submitted processed received registered accepted known sent made recorded stored completed",
		wordError:    "error errors err exception",
		wordNegation: "not never nothing cannot cant wont without unable neither nor non nobody aint doesnt didnt dont wasnt isnt hasnt couldnt",
	} {
		for word := range strings.FieldsSeq(words) {
			kinds[word] = kind
		}
	}
	return kinds
}()

// saidBy returns what a text says. It says saidExists only if every word of it is
// known: a text such as "position already closed" or "duplicate nonce" is about
// something else. aboutOrder says that the place of the text makes it one about the
// order_no. Otherwise only the bare words exists and duplicate need no order beside them.
func saidBy(text []byte, orderNo string, aboutOrder bool) claim {
	var buf [256]byte
	if whole := normal(buf[:], text); len(whole) == 0 || slices.Contains(noErrorWords, string(whole)) {
		return saidNothing
	}
	if len(orderNo) >= minEcho || strings.ContainsAny(orderNo, "0123456789") {
		text = without(text, orderNo)
	}
	var seen [wordNegation + 1]bool
	last := wordUnknown
	for rest := text; len(rest) > 0; {
		var word []byte
		if word, rest = nextWord(rest); len(word) == 0 {
			continue
		}
		kind := kindOfWord(word)
		if kind == wordUnknown && isFailureWord(word) || len(word) == 2 && kind == wordPart && word[0]|0x20 == 'n' && last != wordOrder && last != wordPart {
			kind = wordNegation // "no" is a negation, except in order_no
		}
		seen[kind], last = true, kind
	}
	named := aboutOrder || seen[wordOrder]
	exists := seen[wordExists] && (named || !seen[wordPart] && !seen[wordDone]) || seen[wordAlready] && seen[wordDone] && named
	switch {
	case seen[wordNegation]:
		return saidNot
	case exists && !seen[wordUnknown]:
		return saidExists
	case seen[wordError]:
		return saidError
	case seen[wordUnknown] || seen[wordExists] || seen[wordAlready]:
		return saidUnclear
	default:
		return saidNothing
	}
}

// isFailureWord reports whether a word names a failure, such as rejected.
func isFailureWord(word []byte) bool {
	var buf [32]byte
	word = lower(buf[:0], word)
	return slices.ContainsFunc(failureParts, func(p []byte) bool {
		innocent := string(p) == "err" || string(p) == "void" // as in preferred and avoid
		return !innocent && bytes.Contains(word, p)
	})
}

func kindOfWord(word []byte) wordKind {
	var buf [32]byte
	return wordKinds[string(lower(buf[:0], word))]
}

// lower appends a word's first 32 bytes in lower case, without apostrophes.
func lower(dst, word []byte) []byte {
	for _, c := range word[:min(len(word), 32)] {
		switch {
		case c == '\'':
			continue
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// nextWord cuts the first word off a text. Words end at separators, and where a name
// such as orderExists has a capital letter. Letters outside ASCII, and digits, make a
// word that is not known.
func nextWord(text []byte) (word, rest []byte) {
	i := 0
	for i < len(text) && !inWord(text[i]) {
		i++
	}
	from := i
	for i < len(text) && inWord(text[i]) && (i == from || !capitalStarts(text, i)) {
		i++
	}
	return bytes.Trim(text[from:i], "'"), text[i:]
}

func inWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c >= 0x80 || c == '\''
}

// capitalStarts reports whether a word of a name starts at i.
func capitalStarts(text []byte, i int) bool {
	isUpper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	isLower := func(c byte) bool { return c >= 'a' && c <= 'z' }
	return isUpper(text[i]) && (isLower(text[i-1]) || isUpper(text[i-1]) && i+1 < len(text) && isLower(text[i+1]))
}

// without removes the order_no where it stands by itself.
func without(text []byte, orderNo string) []byte {
	at := bytes.Index(text, []byte(orderNo))
	if at < 0 || at > 0 && inWord(text[at-1]) && text[at-1] != '\'' || at+len(orderNo) < len(text) && inWord(text[at+len(orderNo)]) && text[at+len(orderNo)] != '\'' {
		return text
	}
	return slices.Concat(text[:at], []byte(" "), text[at+len(orderNo):])
}

// namesOrder reports whether a text or a name has a word for the order.
func namesOrder(text []byte) bool {
	for len(text) > 0 {
		var word []byte
		if word, text = nextWord(text); len(word) > 0 && kindOfWord(word) == wordOrder {
			return true
		}
	}
	return false
}

// isFinalRefusal reports whether a word about an order's state says that the order does
// not stand, unlike the words error and failed, which APIs also use for a request that
// was refused because the order exists.
func isFinalRefusal(text []byte) bool {
	var buf [64]byte
	word := normal(buf[:], text)
	general := slices.ContainsFunc([]string{"err", "fail", "exception"}, func(p string) bool { return bytes.Contains(word, []byte(p)) }) ||
		slices.Contains([]string{"false", "no", "ko", "nok", "badrequest", "unsuccessful"}, string(word))
	return stateStance(word) == stanceAgainst && !general && len(bytes.Trim(word, "0123456789")) > 0
}
