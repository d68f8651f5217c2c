package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/client"
)

// client connects the Go package with a role's rights.
func (s *secured) client(t *testing.T, role string) *client.Client {
	t.Helper()
	set := s.settings[role]
	c, err := client.Connect(t.Context(), s.url, client.NKeyFile(set["ORDERPOST_NATS_NKEY_FILE"]), client.CAFile(set["ORDERPOST_NATS_CA_FILE"]),
		client.Certificate(set["ORDERPOST_NATS_CERT_FILE"], set["ORDERPOST_NATS_KEY_FILE"]), client.InboxPrefix(set["ORDERPOST_NATS_INBOX_PREFIX"]),
		client.Patience(0))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// TestTheClientHasTheRightsOfAProducer: they suffice for all but a cancellation, which is
// refused and not waited for; and whoever may only look stores nothing.
func TestTheClientHasTheRightsOfAProducer(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	settings, _ := api(t)
	startWorker(t, s.as("worker", settings))
	c := s.client(t, "producer")
	orders := []client.Order{
		{ID: "s1", Body: []byte(`{"order_no":"A-1","timeout":30}`)},
		{ID: "s2", Body: []byte(`{"order_no":"A-2","timeout":30}`), Lane: "bulk"},
		{ID: "s3", Body: []byte(`{"order_no":"A-3","timeout":30}`), NotBefore: time.Now().Add(time.Hour)},
	}
	var receipts []client.Receipt
	for r, err := range c.SubmitAll(t.Context(), slices.Values(orders)) {
		require.NoError(t, err)
		require.Equal(t, client.Stored, r.Status)
		receipts = append(receipts, r)
	}
	for _, r := range receipts[:2] {
		o, err := c.Wait(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, "accepted", o.Outcome)
		again, err := c.Submit(t.Context(), orders[slices.Index(receipts, r)])
		require.NoError(t, err)
		require.Equal(t, client.Same, again.Status)
	}
	o, err := c.Outcome(t.Context(), receipts[2])
	require.NoError(t, err)
	require.True(t, o.Pending)
	seen := 0
	for o, err := range c.Outcomes(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, "accepted", o.Outcome)
		if seen++; seen == 2 {
			break
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = c.Cancel(ctx, receipts[2])
	require.ErrorContains(t, err, "ermission")
	_, err = s.client(t, "viewer").Submit(ctx, client.Order{Body: []byte(`{"order_no":"A-4","timeout":30}`)})
	require.ErrorContains(t, err, "a right is missing")
	require.NoError(t, ctx.Err())
	o, err = s.client(t, "operator").Cancel(ctx, receipts[2])
	require.NoError(t, err)
	require.Equal(t, "cancelled", o.Outcome)
	r, err := s.client(t, "gateway").Submit(ctx, client.Order{Body: []byte(`{"order_no":"A-5","timeout":30}`), NotBefore: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	o, err = s.client(t, "gateway").Cancel(ctx, r)
	require.NoError(t, err)
	require.Equal(t, "cancelled", o.Outcome)
}
