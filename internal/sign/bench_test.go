package sign_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// benchOrder is an ordinary order whose stamped body has 300 bytes.
const benchOrder = `{"order_no":"SO-2026-00012345","timeout":3600,"amount":"1299.95","currency":"EUR",` +
	`"customer":{"id":"C-88123","name":"Ann O'Hara"},"items":[{"sku":"AX-1","qty":2,"price":"499.99"},` +
	`{"sku":"BQ-7","qty":1,"price":"299.97"}],"callback_url":"https://shop.example/cb?id=1&x=y","note":"leave at door"}`

func BenchmarkSign(b *testing.B) {
	signer, err := sign.New("0123456789abcdef0123456789abcdef")
	require.NoError(b, err)
	o, err := order.Parse([]byte(benchOrder))
	require.NoError(b, err)
	body, _, err := signer.Sign(nil, o, 1700000000000)
	require.NoError(b, err)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := signer.Sign(nil, o, 1700000000000); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	body := []byte(benchOrder)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := order.Parse(body); err != nil {
			b.Fatal(err)
		}
	}
}
