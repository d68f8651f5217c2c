package sign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"orderpost/internal/order"
)

// mistakes is a combination of mistakes: in building the string to sign, in the
// timestamp, and in the use of the secret.
type mistakes struct {
	reading
	anotherStamp bool
	key          ReasonCode // "" = the secret is used unchanged
}

// search returns the first combination of mistakes that produces sum. No smaller
// combination produces it.
func search(o *order.Order, secret string, timestampMS int64, sum []byte) (mistakes, bool) {
	body := readTree(o.Canonical())
	keys := keysOf(secret)
	ownStamp, hasOwn := o.Timestamp()
	for _, m := range allMistakes {
		key, ok := keys[m.key]
		if !ok || m.anotherStamp && !hasOwn {
			continue
		}
		timestamp := timestampMS
		if m.anotherStamp {
			timestamp = ownStamp
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(m.stringToSign(body, strconv.FormatInt(timestamp, 10))))
		if hmac.Equal(mac.Sum(nil), sum) {
			return m, true
		}
	}
	return mistakes{}, false
}

// keysOf returns the HMAC keys that implementations make of a secret.
func keysOf(secret string) map[ReasonCode][]byte {
	keys := map[ReasonCode][]byte{"": []byte(secret), ReasonNewlineSecret: []byte(secret + "\n")}
	if decoded, err := hex.DecodeString(secret); err == nil {
		keys[ReasonHexSecret] = decoded
	}
	return keys
}

// allMistakes lists every combination. A combination comes before all that contain
// it. search therefore never reports a mistake that has no effect on the body.
var allMistakes = combineMistakes()

func combineMistakes() []mistakes {
	var all []mistakes
	for flags := range 1 << 3 {
		for nulls := range dropNull(dropNullChoices) {
			for _, key := range []ReasonCode{"", ReasonHexSecret, ReasonNewlineSecret} {
				r := reading{byBytes: flags&1 != 0, sortNested: flags&2 != 0, escapeHTML: flags&4 != 0, dropNull: nulls}
				stampless := r
				stampless.unstamped = true
				all = append(all, mistakes{r, false, key}, mistakes{r, true, key}, mistakes{stampless, false, key})
			}
		}
	}
	return all
}

// codes returns the codes of the mistakes.
func (m mistakes) codes() []ReasonCode {
	var codes []ReasonCode
	for _, c := range []struct {
		made bool
		code ReasonCode
	}{
		{m.byBytes, ReasonSortedByBytes},
		{m.sortNested, ReasonNestedSorted},
		{m.dropNull != keepNull, ReasonNullDropped},
		{m.escapeHTML, ReasonEscapedHTML},
		{m.unstamped, ReasonUnstamped},
		{m.anotherStamp, ReasonAnotherTimestamp},
		{m.key != "", m.key},
	} {
		if c.made {
			codes = append(codes, c.code)
		}
	}
	return codes
}
