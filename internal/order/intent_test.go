package order_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/patient"
)

func canonical(t *testing.T, body string) *order.Order {
	t.Helper()
	o, err := order.Canonicalize([]byte(body))
	require.NoError(t, err)
	return o
}

func TestStampHasItsPlace(t *testing.T) {
	for _, c := range []struct{ name, body, without, with, toSign string }{
		{"none, empty", `{}`, `{}`, `{"timestamp":9}`, "timestamp=9"},
		{"none", `{"a":1}`, `{"a":1}`, `{"a":1,"timestamp":9}`, "a=1&timestamp=9"},
		{"alone", `{"timestamp":1}`, `{}`, `{"timestamp":9}`, "timestamp=9"},
		{"first", `{"timestamp":1,"z":2}`, `{"z":2}`, `{"timestamp":9,"z":2}`, "timestamp=9&z=2"},
		{"middle", `{"z":2,"timestamp":{"q":[]},"b":3}`, `{"z":2,"b":3}`, `{"z":2,"timestamp":9,"b":3}`, "b=3&timestamp=9&z=2"},
		{"last", `{"z":2,"timestamp":null}`, `{"z":2}`, `{"z":2,"timestamp":9}`, "timestamp=9&z=2"},
		{"before an index", `{"timestamp":1,"7":2}`, `{"7":2}`, `{"7":2,"timestamp":9}`, "7=2&timestamp=9"},
		{"among indexes", `{"9":0,"timestamp":1,"z":3,"7":2}`, `{"7":2,"9":0,"z":3}`, `{"7":2,"9":0,"timestamp":9,"z":3}`, "7=2&9=0&timestamp=9&z=3"},
		{"behind a name and an index", `{"z":3,"7":2,"timestamp":1,"a":4}`, `{"7":2,"z":3,"a":4}`, `{"7":2,"z":3,"timestamp":9,"a":4}`, "7=2&a=4&timestamp=9&z=3"},
		{"nested ones stay", `{"o":{"timestamp":1.0}}`, `{"o":{"timestamp":1}}`, `{"o":{"timestamp":1},"timestamp":9}`, `o={"timestamp":1}&timestamp=9`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := canonical(t, c.body)
			require.Equal(t, c.without, string(o.Canonical()))
			require.Equal(t, "-"+c.with, string(o.AppendBody([]byte("-"), 9)))
			require.Equal(t, "-"+c.toSign, string(o.AppendStringToSign([]byte("-"), 9)))
		})
	}
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

func TestCanonicalIsACopy(t *testing.T) {
	o := canonical(t, `{"a":1}`)
	o.Canonical()[0] = '#'
	require.Equal(t, `{"a":1}`, string(o.Canonical()))
}

// One order serves concurrent attempts, and parsing shares pooled parsers: run
// under the race detector.
func TestOrdersAreSafeForConcurrentUse(t *testing.T) {
	o := canonical(t, `{"a":1,"o":{"b":null,"a":1e21}}`)
	want := string(o.AppendBody(nil, 7)) + o.BodyHash()
	var workers sync.WaitGroup
	results := make([]string, 8)
	for i := range results {
		workers.Go(func() {
			for range 50 {
				again, err := order.Canonicalize(o.AppendBody(nil, 7))
				if err != nil || len(again.Warnings()) != len(o.Warnings()) {
					return
				}
				results[i] = string(o.AppendBody(nil, 7)) + again.BodyHash()
			}
		})
	}
	workers.Wait()
	for _, got := range results {
		require.Equal(t, want, got)
	}
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
