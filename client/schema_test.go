package client_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/client"
)

// TestOrderSchema: an order that breaks the schema is not stored. A schema that cannot be
// used is an error of Connect.
func TestOrderSchema(t *testing.T) {
	file := filepath.Join(t.TempDir(), "order.schema.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"properties":{"amount":{"multipleOf":0.01}}}`), 0o600))
	c, err := client.Connect(t.Context(), "", client.DataDir(dataDir), client.OrderSchema(file))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Submit(t.Context(), client.Order{Body: []byte(`{"order_no":"schema-1","timeout":30,"amount":4.355}`)})
	var bad *client.InvalidError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "amount: 4.355 is not a multiple of 0.01 (order schema, /properties/amount/multipleOf); correct the order", bad.Error())
	_, err = c.Outcome(t.Context(), client.Receipt{OrderNo: "schema-1"})
	require.ErrorIs(t, err, client.ErrUnknownOrder)
	r, err := c.Submit(t.Context(), client.Order{Body: []byte(`{"order_no":"schema-1","timeout":30,"amount":4.35}`)})
	require.NoError(t, err)
	o, err := c.Wait(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "accepted", o.Outcome)

	require.NoError(t, os.WriteFile(file, []byte(`{"properties":{"a":{"$ref":"https://example.com/a.json"}}}`), 0o600))
	_, err = client.Connect(t.Context(), "", client.DataDir(dataDir), client.OrderSchema(file))
	require.ErrorContains(t, err, `it refers to "https://example.com/a.json", which is not in the file: nothing is fetched`)
}
