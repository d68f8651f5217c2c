package service_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/testing/netcut"
)

// R8: one order makes its worker panic each time. It is found out by suspect
// notes and handled alone; the others are not taken along.
func TestR8AnOrderThatPanicsIsParkedAndTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	for !parksWhatPanics(t) {
		t.Log("the machine is so busy that an order in hand was taken away: once more")
	}
}

// parksWhatPanics tells the story once, and reports whether no claim lapsed in it.
func parksWhatPanics(t *testing.T) bool {
	r := newRig(t, order.Resubmit)
	var panics atomic.Int64
	w := r.start("w", &netcut.Dialer{}, transport(func(req *http.Request) (*http.Response, error) {
		sent, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(sent), "P-1") {
			panics.Add(1)
			panic("this order is too much for me")
		}
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(strings.NewReader(string(sent)))
		return http.DefaultTransport.RoundTrip(again)
	}))
	nos := []string{"P-1"}
	for i := range 40 {
		nos = append(nos, fmt.Sprint("E-", i))
	}
	r.publish(w.q, nos...)
	recs := r.settled(w.q)
	if w.q.Claims.Lost() > 0 {
		return false
	}
	for no, rec := range recs {
		if no != "P-1" {
			require.Equal(t, order.OutcomeAccepted, rec.Outcome(), no)
			require.Zero(t, rec.Suspects, "%s was taken for the one that panics", no)
		}
	}
	require.Equal(t, order.OutcomeUnknown, recs["P-1"].Outcome(), "an attempt may have left before the panic")
	require.Equal(t, 3, recs["P-1"].Suspects)
	require.EqualValues(t, 3, panics.Load())
	require.Equal(t, 3, recs["P-1"].Attempts, "each panic may have come after the request")
	return true
}
