package sign_test

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// explained is a body that every known mistake signs differently.
const explained = `{"timestamp":77,"😀":"<&>","ﬁ":{"b":"<&>\u2028","a":null},"coupon":null}`

const hexSecret = "0123456789abcdef"

func explain(t *testing.T, given string) sign.Explanation {
	t.Helper()
	e, err := sign.Explain([]byte(explained), hexSecret, 5, given)
	require.NoError(t, err)
	return e
}

func TestExplain(t *testing.T) {
	e := explain(t, "")
	require.Equal(t, "{\"timestamp\":5,\"😀\":\"<&>\",\"ﬁ\":{\"b\":\"<&>\u2028\",\"a\":null},\"coupon\":null}", e.Canonical)
	require.Equal(t, "coupon=null&timestamp=5&😀=<&>&ﬁ={\"b\":\"<&>\u2028\",\"a\":null}", e.StringToSign)
	require.Equal(t, reference(hexSecret, e.StringToSign), e.Signature)
	require.Nil(t, e.Given)
	codes := map[order.WarningCode]int{}
	for _, w := range e.Warnings {
		codes[w.Code]++
	}
	require.Equal(t, map[order.WarningCode]int{order.WarnName: 2, order.WarnUnsorted: 1, order.WarnNull: 1}, codes)

	plain, err := sign.Explain([]byte(`{}`), "s", 1, "")
	require.NoError(t, err)
	text, err := json.Marshal(plain)
	require.NoError(t, err)
	require.JSONEq(t, `{"canonical":"{\"timestamp\":1}","string_to_sign":"timestamp=1","signature":"`+reference("s", "timestamp=1")+`","warnings":[]}`, string(text))
}

// The strings are written out by hand: they are what implementations with that
// mistake sign.
func TestExplainFindsKnownMistakes(t *testing.T) {
	const nested, right = "{\"b\":\"<&>\u2028\",\"a\":null}", "coupon=null&timestamp=5&😀=<&>&ﬁ={\"b\":\"<&>\u2028\",\"a\":null}"
	decoded, err := hex.DecodeString(hexSecret)
	require.NoError(t, err)
	for _, c := range []struct {
		name, given string
		want        []sign.ReasonCode
	}{
		{"bytes", reference(hexSecret, "coupon=null&timestamp=5&ﬁ="+nested+"&😀=<&>"), []sign.ReasonCode{sign.ReasonSortedByBytes}},
		{"nested", reference(hexSecret, "coupon=null&timestamp=5&😀=<&>&ﬁ={\"a\":null,\"b\":\"<&>\u2028\"}"), []sign.ReasonCode{sign.ReasonNestedSorted}},
		{"top null", reference(hexSecret, "timestamp=5&😀=<&>&ﬁ="+nested), []sign.ReasonCode{sign.ReasonNullDropped}},
		{"every null", reference(hexSecret, "timestamp=5&😀=<&>&ﬁ={\"b\":\"<&>\u2028\"}"), []sign.ReasonCode{sign.ReasonNullDropped}},
		{"html", reference(hexSecret, `coupon=null&timestamp=5&😀=<&>&ﬁ={"b":"\u003c\u0026\u003e\u2028","a":null}`), []sign.ReasonCode{sign.ReasonEscapedHTML}},
		{"unstamped", reference(hexSecret, "coupon=null&😀=<&>&ﬁ="+nested), []sign.ReasonCode{sign.ReasonUnstamped}},
		{"another timestamp", reference(hexSecret, "coupon=null&timestamp=77&😀=<&>&ﬁ="+nested), []sign.ReasonCode{sign.ReasonAnotherTimestamp}},
		{"hex secret", reference(string(decoded), right), []sign.ReasonCode{sign.ReasonHexSecret}},
		{"newline", reference(hexSecret+"\n", right), []sign.ReasonCode{sign.ReasonNewlineSecret}},
		{"upper case", strings.ToUpper(reference(hexSecret, right)), []sign.ReasonCode{sign.ReasonUpperCase}},
		{"Go's maps", reference(hexSecret, `coupon=null&timestamp=5&ﬁ={"a":null,"b":"\u003c\u0026\u003e\u2028"}&😀=<&>`),
			[]sign.ReasonCode{sign.ReasonSortedByBytes, sign.ReasonNestedSorted, sign.ReasonEscapedHTML}},
		{"much at once", strings.ToUpper(reference(string(decoded), "timestamp=77&😀=<&>&ﬁ="+nested)),
			[]sign.ReasonCode{sign.ReasonUpperCase, sign.ReasonNullDropped, sign.ReasonAnotherTimestamp, sign.ReasonHexSecret}},
		{"another secret", reference("x", right), nil},
		{"another body", reference(hexSecret, right+"&z=1"), nil},
		{"no hex", strings.Repeat("g", 64), nil},
		{"too short", "abcd", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			given := explain(t, c.given).Given
			require.False(t, given.Matches)
			require.Equal(t, c.given, given.Signature)
			var codes []sign.ReasonCode
			for _, reason := range given.Reasons {
				codes = append(codes, reason.Code)
				require.NotEmpty(t, reason.Message)
				require.Contains(t, given.String(), reason.Message)
			}
			require.Equal(t, c.want, codes)
		})
	}
}

// Mistakes that make no difference to a body must not be named.
func TestExplainNamesOnlyMistakesThatMatter(t *testing.T) {
	e, err := sign.Explain([]byte(`{"a":{"b":1},"timestamp":77}`), hexSecret, 5, reference(hexSecret+"\n", `a={"b":1}`))
	require.NoError(t, err)
	require.Len(t, e.Given.Reasons, 2)
	require.Equal(t, sign.ReasonUnstamped, e.Given.Reasons[0].Code)
	require.Equal(t, sign.ReasonNewlineSecret, e.Given.Reasons[1].Code)
}

func TestExplainRecognisesTheRightSignature(t *testing.T) {
	given := explain(t, explain(t, "").Signature).Given
	require.True(t, given.Matches)
	require.Empty(t, given.Reasons)
	require.Equal(t, "the given signature is right", given.String())
}

func TestExplainErrors(t *testing.T) {
	_, err := sign.Explain([]byte(`{"a":1e999}`), "s", 5, "")
	var refused *order.Error
	require.ErrorAs(t, err, &refused)
	_, err = sign.Explain([]byte(`{}`), "", 5, "")
	require.ErrorIs(t, err, sign.ErrNoSecret)
	_, err = sign.Explain([]byte(`{}`), "s", 0, "")
	require.ErrorIs(t, err, sign.ErrTimestamp)
}

// The vectors' own signatures, explained at another time: the search must build
// the very strings that the signer builds, but for the timestamp.
func TestExplainFindsTheTimestampOfVectors(t *testing.T) {
	const later = order.MaxTimestamp - 1 // no vector's
	for _, v := range readVectors(t) {
		if v.Error != "" {
			continue
		}
		e, err := sign.Explain([]byte(v.SentBody), v.Secret, later, v.Signature)
		require.NoError(t, err)
		require.Len(t, e.Given.Reasons, 1, v.Name)
		require.Equal(t, sign.ReasonAnotherTimestamp, e.Given.Reasons[0].Code, v.Name)
	}
}
