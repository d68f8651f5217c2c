package sign_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderpost/internal/order"
)

// The three test rules of contract section 5.2, as properties of all bodies.

var timestamps = rapid.Int64Range(1, order.MaxTimestamp)

// fields draws the members of a body, spelled, with distinct names.
var fields = rapid.Custom(func(t *rapid.T) []string {
	seed := rapid.Uint64().Draw(t, "seed")
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z_]{1,6}|[0-9]{1,3}|[A-Z😀ﬁ]`), 1, 6, rapid.ID[string]).Draw(t, "names")
	members := make([]string, 0, len(names))
	for i, name := range names {
		g := generatorOf(seed, uint64(i))
		if name != order.FieldTimestamp {
			members = append(members, g.text(name)+":"+g.value(2))
		}
	}
	return members
})

func signatureOf(t *rapid.T, secret string, members []string, timestampMS int64) string {
	o, err := order.Canonicalize([]byte("{" + strings.Join(members, ",") + "}"))
	require.NoError(t, err)
	signer := newSigner(t, secret)
	body, signature, err := signer.Sign(nil, o, timestampMS)
	require.NoError(t, err)
	require.NoError(t, signer.Verify(body, signature))
	require.True(t, json.Valid(body))
	return signature
}

// "Two bodies with the same fields in different key order produce the same signature."
func TestKeyOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, ms := fields.Draw(t, "members"), timestamps.Draw(t, "timestamp")
		shuffled := rapid.Permutation(members).Draw(t, "shuffled")
		require.Equal(t, signatureOf(t, "s", members, ms), signatureOf(t, "s", shuffled, ms))
	})
}

// "Changing any field value, or the timestamp, changes the signature."
func TestEveryValueMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, ms := fields.Draw(t, "members"), timestamps.Draw(t, "timestamp")
		if len(members) == 0 {
			t.Skip("a body of a timestamp alone")
		}
		before := signatureOf(t, "s", members, ms)
		other := timestamps.Filter(func(other int64) bool { return other != ms }).Draw(t, "other timestamp")
		require.NotEqual(t, before, signatureOf(t, "s", members, other))

		changed := rapid.IntRange(0, len(members)-1).Draw(t, "changed")
		name, value := splitMember(t, members[changed])
		members[changed] = name + ":" + anotherValue(value)
		require.NotEqual(t, before, signatureOf(t, "s", members, ms), "%s: %s", members[changed], value)
	})
}

// "A different API Secret gives a different signature."
func TestTheSecretMatters(t *testing.T) {
	secrets := rapid.StringN(1, 80, -1)
	rapid.Check(t, func(t *rapid.T) {
		members, ms := fields.Draw(t, "members"), timestamps.Draw(t, "timestamp")
		one, two := secrets.Draw(t, "one"), secrets.Draw(t, "two")
		// HMAC pads its key with zero bytes: such secrets are one key.
		if strings.TrimRight(one, "\x00") == strings.TrimRight(two, "\x00") {
			t.Skip("the same key")
		}
		require.NotEqual(t, signatureOf(t, one, members, ms), signatureOf(t, two, members, ms))
	})
}

// splitMember takes a spelled "name":value apart.
func splitMember(t *rapid.T, member string) (name, value string) {
	decoder := json.NewDecoder(strings.NewReader(member))
	_, err := decoder.Token()
	require.NoError(t, err)
	at := decoder.InputOffset()
	return member[:at], strings.TrimLeft(member[at:], ": \t\r\n")
}

// anotherValue gives a value that differs, also in its signed text, from any
// spelling of the given one.
func anotherValue(value string) string {
	return `["another",` + value + `]`
}
