package sign_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// explained is a body that other readings of the contract sign differently.
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

func TestExplainRecognisesTheRightSignature(t *testing.T) {
	given := explain(t, explain(t, "").Signature).Given
	require.True(t, given.Matches)
	require.Equal(t, "the given signature is right", given.String())

	other := explain(t, strings.ToUpper(explain(t, "").Signature)).Given
	require.False(t, other.Matches)
	require.Contains(t, other.String(), "lower-case hex")
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
