package order_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/testing/patient"
)

func canonical(t *testing.T, body string) *order.Order {
	t.Helper()
	o, err := order.Canonicalize([]byte(body))
	require.NoError(t, err)
	return o
}

// Rule 7 on an object that is too large for sorting by insertion: names that are
// no array indexes keep their order.
func TestManyNamesKeepTheirOrder(t *testing.T) {
	var sent, want, indexes []string
	for i := range 500 {
		name := fmt.Sprintf(`"n%d":%d`, (i*7919)%500, i)
		sent, want = append(sent, name), append(want, name)
		if i%5 == 0 {
			index := 499 - i
			sent = append(sent, fmt.Sprintf(`"%d":[]`, index))
			indexes = append(indexes, fmt.Sprintf(`"%d":[]`, index))
		}
	}
	slices.Reverse(indexes) // they were sent in falling order
	body := "{" + strings.Join(append(indexes, want...), ",") + "}"
	for _, frame := range []string{"%s", `{"o":%s}`, `{"l":[0,%s,{}]}`} {
		o := canonical(t, fmt.Sprintf(frame, "{"+strings.Join(sent, ",")+"}"))
		require.Equal(t, fmt.Sprintf(frame, body), string(o.Canonical()))
	}
}

func TestTimestampOfTheBody(t *testing.T) {
	for body, want := range map[string]int64{
		`{}`: 0, `{"timestamp":1}`: 1, `{"timestamp":1.7e12}`: 1700000000000,
		`{"timestamp":9007199254740991}`: order.MaxTimestamp, `{"timestamp":9007199254740992}`: 0,
		`{"timestamp":0}`: 0, `{"timestamp":-1}`: 0, `{"timestamp":1.5}`: 0, `{"timestamp":"1"}`: 0,
		`{"timestamp":[1]}`: 0, `{"o":{"timestamp":1}}`: 0,
	} {
		got, ok := canonical(t, body).Timestamp()
		require.Equal(t, want, got, body)
		require.Equal(t, want != 0, ok, body)
	}
}

func TestOrderNoOfOrdersWithout(t *testing.T) {
	require.Empty(t, canonical(t, `{"order_no":12}`).OrderNo())
	require.Empty(t, canonical(t, `{}`).OrderNo())
	require.Equal(t, "a=b&\"c\"", canonical(t, `{"order_no":"a=b&\"c\""}`).OrderNo())
}

func TestBodyHash(t *testing.T) {
	sum := sha256.Sum256([]byte(`{"a":1,"b":"x"}`))
	want := hex.EncodeToString(sum[:])
	for _, same := range []string{`{"a":1,"b":"x"}`, `{ "a" : 1.0 , "b" : "\u0078", "timestamp":5 }`} {
		require.Equal(t, want, canonical(t, same).BodyHash())
	}
	require.NotEqual(t, want, canonical(t, `{"b":"x","a":1}`).BodyHash(), "the order of names is part of the body")
}

func TestAllocations(t *testing.T) {
	body := []byte(`{"order_no":"A-1","timeout":3600,"items":[{"sku":"a","qty":2,"price":"1.50"}],"memo":"a\nb"}`)
	o, err := order.Parse(body)
	require.NoError(t, err)
	buffer := make([]byte, 0, 1024)
	if patient.UnderRace {
		t.Skip("the race detector allocates, and makes sync.Pool forget")
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { buffer = o.AppendBody(buffer[:0], 1) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { buffer = o.AppendStringToSign(buffer[:0], 1) }))
	require.Equal(t, 1.0, testing.AllocsPerRun(100, func() { _ = o.AppendBody(nil, order.MaxTimestamp) }))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = order.Parse(body) }), 2.0)
}
