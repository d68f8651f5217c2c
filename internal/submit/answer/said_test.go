package answer

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSaid(t *testing.T) {
	for body, want := range map[string]string{
		`{"code":40012,"message":"balance 12.50 of account 7781 is too low"}`:       "40012: balance # of account # is too low",
		`{"code":0,"order_no":"A-100"}`:                                             "0",
		`{"error":"insufficient_balance","message":"order was NOT created"}`:        "insufficient_balance: order was NOT created",
		`{"error":{"code":"INVALID_PRICE","message":"price of A-100 is off"}}`:      "INVALID_PRICE: price of # is off",
		`{"errors":[{"field":"amount","detail":"must be positive"}]}`:               "must be positive",
		`{"errors":{"amount":["must be at least 10"]}}`:                             "amount: must be at least #",
		`{"errors":["first","second"]}`:                                             "first",
		`{"status":"rejected","order_no":"A-100","created":false}`:                  "rejected",
		`{"status":{"code":17,"message":"closed"}}`:                                 "17: closed",
		`{"result":{"ret_code":"E40012","ret_msg":"symbol \"BTC-EUR\" is halted"}}`: "E40012: symbol # is halted",
		`{"message":"unknown customer anna@example.org"}`:                           "unknown customer #",
		`{"code":"req-20261123000017","msg":"no"}`:                                  "req-#: no",
		`{"data":{"id":5}}`: "",
		`{}`:                "",
		`[]`:                "",
		`7`:                 "",
		"":                  "",
		"<html>\n<head><title>502 Bad Gateway</title></head>": "# Bad Gateway",
		"\n\n  upstream connect error\nmore":                  "upstream connect error",
		`{"message":"` + strings.Repeat("long ", 40) + `"}`:   "long long long long long long long long long long long long…",
		"{\"message\":\"two\\nlines and \\u0007 a bell\"}":    "two lines and  a bell",
	} {
		a := Answer{Status: 422, Body: []byte(body), Complete: true}
		require.Equal(t, want, a.Said("A-100"), "%s", body)
	}
	require.Empty(t, (&Answer{Body: []byte(`{"code":1}`), Complete: true}).Said("A"), "no answer was read")
	cut := Answer{Status: 500, Body: []byte(`{"code":1,"mess`)}
	require.Empty(t, cut.Said("A"))
}

// Thousands of refusals for one reason say one thing.
func TestSaidHasFewValues(t *testing.T) {
	seen := map[string]bool{}
	for i := range 2000 {
		no := fmt.Sprintf("R-%05d", i)
		a := Answer{Status: 422, Complete: true, Body: fmt.Appendf(nil, `{"code":40012,"message":"order %s: balance %d.%02d at 2026-11-23T10:%02d:00Z is too low (request 8f14e45f-ceea-467f-a%03d-%012d)"}`, no, i, i%100, i%60, i%1000, i)}
		seen[a.Said(no)] = true
	}
	require.Len(t, seen, 1, "%v", seen)
}

// Whatever the body, the result is short, valid and printable.
func TestSaidIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.OneOf(rapid.StringN(0, 300, -1), rapid.Map(rapid.String(), func(s string) string { return fmt.Sprintf(`{"message":%q}`, s) })).Draw(t, "body")
		said := (&Answer{Status: 400, Body: []byte(body), Complete: true}).Said("A-1")
		require.LessOrEqual(t, utf8.RuneCountInString(said), maxSaid)
		require.True(t, utf8.ValidString(said))
		require.NotContains(t, said, "\n")
	})
}
