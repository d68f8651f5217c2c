package sign_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// newSigner serves tests, benchmarks and rapid's checks.
func newSigner(tb require.TestingT, secret string) *sign.Signer {
	signer, err := sign.New(secret)
	require.NoError(tb, err)
	return signer
}

func canonicalize(tb testing.TB, body string) *order.Order {
	tb.Helper()
	o, err := order.Canonicalize([]byte(body))
	require.NoError(tb, err)
	return o
}

func TestNewRefusesAnEmptySecret(t *testing.T) {
	_, err := sign.New("")
	require.ErrorIs(t, err, sign.ErrNoSecret)
}

func TestTheKeyIsTheSecretAsGiven(t *testing.T) {
	o := canonicalize(t, `{"a":1}`)
	for _, secret := range []string{"s", " s", "s\n", "73", "пароль", "\x00", "\xff\xfe", strings.Repeat("k", 64), strings.Repeat("k", 65)} {
		_, signature, err := newSigner(t, secret).Sign(nil, o, 5)
		require.NoError(t, err)
		require.Equal(t, reference(secret, "a=1&timestamp=5"), signature, "%q", secret)
	}
}

func TestSignAppends(t *testing.T) {
	o := canonicalize(t, `{"a":1}`)
	body, _, err := newSigner(t, "s").Sign([]byte("before"), o, 5)
	require.NoError(t, err)
	require.Equal(t, `before{"a":1,"timestamp":5}`, string(body))
}

func TestSignRefusesTimestamps(t *testing.T) {
	signer, o := newSigner(t, "s"), canonicalize(t, `{}`)
	for _, ms := range []int64{0, -1, order.MaxTimestamp + 1, 1 << 62, -1 << 63} {
		body, signature, err := signer.Sign([]byte("as it was"), o, ms)
		require.ErrorIs(t, err, sign.ErrTimestamp, ms)
		require.Equal(t, "as it was", string(body))
		require.Empty(t, signature)
	}
	for _, ms := range []int64{1, order.MaxTimestamp} {
		_, _, err := signer.Sign(nil, o, ms)
		require.NoError(t, err)
	}
}

func TestVerify(t *testing.T) {
	signer := newSigner(t, "s")
	body := `{"b":"x","timestamp":5,"a":[1.50]}`
	right := reference("s", `a=[1.5]&b=x&timestamp=5`)
	require.NoError(t, signer.Verify([]byte(body), right))
	require.NoError(t, signer.Verify([]byte(`{"a":[15e-1],"b":"\u0078","timestamp":5.0}`), right), "another spelling of the same body")

	for name, signature := range map[string]string{
		"of another secret": reference("t", `a=[1.5]&b=x&timestamp=5`),
		"of another text":   reference("s", `a=[1.5]&b=x&timestamp=6`),
		"empty":             "", "cut": right[:63], "longer": right + "0",
		"upper case": strings.ToUpper(right),
	} {
		require.ErrorIs(t, signer.Verify([]byte(body), signature), sign.ErrSignature, name)
	}
	for _, unstamped := range []string{`{}`, `{"timestamp":"5"}`, `{"timestamp":0}`, `{"timestamp":5.5}`, `{"timestamp":null}`} {
		require.ErrorIs(t, signer.Verify([]byte(unstamped), right), sign.ErrUnstamped, unstamped)
	}
	var refused *order.Error
	require.True(t, errors.As(signer.Verify([]byte(`{"timestamp":5,"timestamp":5}`), right), &refused))
	require.Equal(t, order.CodeDuplicateName, refused.Code)
}

// Signers of different secrets share nothing, and one signer serves concurrent
// workers: run under the race detector.
func TestSignersAreSafeForConcurrentUse(t *testing.T) {
	o := canonicalize(t, `{"a":1}`)
	signers := []*sign.Signer{newSigner(t, "one"), newSigner(t, "two")}
	var workers sync.WaitGroup
	failures := make(chan string, 8)
	for i := range cap(failures) {
		secret, signer := []string{"one", "two"}[i%2], signers[i%2]
		workers.Go(func() {
			for ms := int64(1); ms < 200; ms++ {
				body, signature, err := signer.Sign(nil, o, ms)
				if err != nil || signature != reference(secret, fmt.Sprintf("a=1&timestamp=%d", ms)) || signer.Verify(body, signature) != nil {
					failures <- fmt.Sprint(secret, ms, err)
					return
				}
			}
		})
	}
	workers.Wait()
	close(failures)
	for failure := range failures {
		t.Error(failure)
	}
}

func TestTheSecretIsNeverPrinted(t *testing.T) {
	const secret = "T0p-S3cret"
	signer := newSigner(t, secret)
	_, _, err := signer.Sign(nil, canonicalize(t, `{}`), 1) // the pool now holds a keyed state
	require.NoError(t, err)
	holder := struct {
		Name    string
		Signer  *sign.Signer
		Value   sign.Signer
		private *sign.Signer
	}{"x", signer, *signer, signer}

	var printed strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		require.Equal(t, "sign.Signer(masked)", fmt.Sprintf(verb, signer))
		require.Equal(t, "sign.Signer(masked)", fmt.Sprintf(verb, *signer))
		fmt.Fprintf(&printed, verb+"\n", holder)
	}
	text, err := json.Marshal(signer)
	require.NoError(t, err)
	require.Equal(t, `"sign.Signer(masked)"`, string(text))
	for _, value := range []any{signer, *signer, holder} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		printed.Write(text)
		log := zerolog.New(&printed)
		log.Info().Any("any", value).Interface("interface", value).Msg("")
	}
	log := zerolog.New(&printed)
	log.Info().Stringer("stringer", signer).Err(signer.Verify([]byte("{}"), "")).Msg("")

	for _, leak := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprint([]byte(secret))} {
		require.NotContains(t, printed.String(), leak)
	}
	require.Contains(t, printed.String(), "masked")
	_ = holder.private
}
