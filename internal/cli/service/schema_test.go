package service_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/order/schema"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/queuetest"
)

// TestANewSchemaDecidesNothingThatWasBegun: an order whose attempt was lost before there
// was a schema is posted again and ends by the API's answer. A fresh order that breaks the
// schema ends as invalid, is never posted, and can be replayed once the schema is right.
func TestANewSchemaDecidesNothingThatWasBegun(t *testing.T) {
	for _, policy := range []order.Policy{order.Resubmit, order.Park} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy)
			lost := make(chan struct{})
			var done atomic.Bool
			a := r.start("a", &netcut.Dialer{}, transport(func(req *http.Request) (*http.Response, error) {
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err == nil && req.Method == http.MethodPost {
					_ = resp.Body.Close()
					if done.CompareAndSwap(false, true) {
						close(lost)
					}
					return nil, errNobody // the order exists, and the answer is lost
				}
				return resp, err
			}))
			r.publish(a.q, "begun")
			<-lost
			a.stop()
			a.ended <- <-a.ended

			var err error
			r.schema, err = schema.Parse("s.json", []byte(`{"properties":{"qty":{"const":"2"}}}`))
			require.NoError(t, err)
			b := r.start("b", &netcut.Dialer{}, nil)
			r.publish(b.q, "fresh")
			records := r.settled(b.q)
			fresh, begun := records["fresh"], records["begun"]
			require.Equal(t, order.OutcomeInvalid, fresh.Outcome())
			require.Equal(t, "invalid: schema, qty", fresh.Reason)
			require.Equal(t, `qty: "1" is not "2" (order schema, /properties/qty/const)`, fresh.Error)
			require.Zero(t, fresh.Attempts)
			require.Zero(t, r.attempts("fresh"))
			want := order.OutcomeAccepted
			if policy == order.Park {
				want = order.OutcomeUnknown
			}
			require.Equal(t, want, begun.Outcome(), "%+v", begun)
			b.stop()
			b.ended <- <-b.ended

			r.schema = nil
			c := r.start("c", &netcut.Dialer{}, nil)
			_, err = c.q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "fresh", Body: queuetest.Body("fresh"), ID: "again"})
			require.NoError(t, err)
			require.Eventually(t, func() bool { return r.api.Created("fresh") == 1 }, time.Minute, 5*time.Millisecond)
			require.Equal(t, order.OutcomeAccepted, r.settled(c.q)["fresh"].Outcome())
		})
	}
}
