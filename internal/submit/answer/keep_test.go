package answer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKeep: members of an answer become fields of results, exactly as they stand; what is none, or too much, is left out.
func TestKeep(t *testing.T) {
	r, err := ParseRules("r.yaml", []byte("keep:\n  order_id: body.data.id\n  ref: body.ref\n  live: body.data.live\n  more: body.data\n"))
	require.NoError(t, err)
	for body, want := range map[string]map[string]string{
		`{"data":{"id":12345678901234567890,"live":true},"ref":"R-1"}`: {"order_id": "12345678901234567890", "live": "true", "ref": "R-1"},
		`{"data":{"id":"7"}}`:           {"order_id": "7"},
		`{"data":{"id":null},"ref":""}`: nil,
		`{"data":[{"id":"7"}]}`:         nil,
		`"7"`:                           nil,
		`not JSON`:                      nil,
		`{"ref":"a","ref":"b"}`:         nil,
		`{"ref":"` + strings.Repeat("x", 201) + `"}`: nil,
	} {
		require.Equal(t, want, r.Kept(&Answer{Status: 200, Body: []byte(body), Complete: true}), body)
	}
	require.Nil(t, r.Kept(&Answer{Status: 200, Body: []byte(`{"ref":"R`)}), "the answer is cut off")
	require.Nil(t, (*Rules)(nil).Kept(&Answer{}))

	for text, want := range map[string]string{
		"keep:\n  Order: body.id\n": `r.yaml:2: keep: "Order" is no name`,
		"keep:\n  id: data.id\n":    `r.yaml:2: keep: id: "data.id" is no member of the answer, as in body.data.id`,
		"keep:\n  id: body.\n":      `is no member of the answer`,
		"keep: [id]\n":              `r.yaml:1: `,
		"keep:\n  a: body.a\n  b: body.a\n  c: body.a\n  d: body.a\n  e: body.a\n  f: body.a\n  g: body.a\n  h: body.a\n  i: body.a\n  j: body.a\n  k: body.a\n": "it names 11 members",
		"keep: {}\n": "it names 0 members",
	} {
		_, err := ParseRules("r.yaml", []byte(text))
		require.ErrorContains(t, err, want, text)
	}
}
