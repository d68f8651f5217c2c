package settle_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// TestR3AnIntentThatOnlyAsksIsNeverPosted: whatever lookups find, whatever the policy, and also where
// nobody said how the API is asked.
func TestR3AnIntentThatOnlyAsksIsNeverPosted(t *testing.T) {
	certain := order.History{Attempts: 1}
	doubt := order.History{Attempts: 1, Unsure: true}
	q, n := openQueue(t, startBroker(t), "w1"), 0
	for name, c := range map[string]struct {
		asks bool
		span time.Duration
		ends []order.Report // of its submissions, in order
		want order.Outcome
	}{
		"the API has it":                        {true, time.Hour, []order.Report{{End: order.EndAnswer, Verdict: order.Duplicate, History: doubt}}, order.OutcomeAccepted},
		"the API has it, at the second look":    {true, time.Hour, []order.Report{{End: order.EndLookup, History: doubt}, {End: order.EndAnswer, Verdict: order.Duplicate, History: doubt}}, order.OutcomeAccepted},
		"it was refused":                        {true, time.Hour, []order.Report{{End: order.EndAnswer, Verdict: order.Rejected, Final: true, History: certain}}, order.OutcomeRejected},
		"the API has none":                      {true, time.Hour, []order.Report{{End: order.EndAbsent, Final: true, History: certain}}, order.OutcomeExhausted},
		"it has none, and the rules say repost": {true, time.Hour, []order.Report{{End: order.EndAbsent, Final: true, Repost: true, History: certain}}, order.OutcomeExhausted},
		"the worker stops":                      {true, time.Hour, []order.Report{{End: order.EndHandBack, History: doubt}, {End: order.EndAnswer, Verdict: order.Duplicate, History: doubt}}, order.OutcomeAccepted},
		"nobody said how it is asked":           {false, time.Hour, nil, order.OutcomeUnknown},
		"the time for it is over":               {true, -time.Second, nil, order.OutcomeUnknown},
	} {
		for _, policy := range []order.Policy{order.Resubmit, order.Park} {
			t.Run(name+", "+policy.String(), func(t *testing.T) {
				n++
				no := fmt.Sprint("A-", n)
				l := deadLetter(t, q, no, order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, History: doubt})
				lookedUp := fmt.Sprint("lookup:", l.Seq)
				o := settle.ReplayOptions{Person: anna, LookupUntil: time.Now().Add(c.span)}
				require.Equal(t, settle.ReplayInDoubt, replay(t, q, l, settle.ReplayOptions{}))
				require.Equal(t, settle.Replayed, replay(t, q, l, o))
				require.Equal(t, settle.ReplayedBefore, replay(t, q, l, o))
				require.Equal(t, settle.ReplayPending, replay(t, q, l, settle.ReplayOptions{Person: anna, ResubmitUnknown: true}), "one thing after the other")
				ends := c.ends
				handler := settle.NewHandler(q.Worker, settle.HandlerOptions{Policy: policy, Asks: func(*order.Order, order.History) bool { return c.asks },
					Draining: func() bool { return false },
					Submit: func(_ context.Context, s *order.Submission) *order.Report {
						require.True(t, s.LookOnly)
						require.False(t, s.Allowed)
						require.NotEmpty(t, ends, "looked up once too often")
						end := ends[0]
						ends = ends[1:]
						return &end
					}})
				for range len(c.ends) + 1 {
					if rec := lookup(t, q, no); rec.IntentID == lookedUp && rec.Outcome() != order.OutcomeNone {
						break
					}
					handler.Handle(t.Context(), t.Context(), pull(t, q, 1)[0], nil)
				}
				require.Empty(t, ends)
				rec := lookup(t, q, no)
				require.Equal(t, []any{c.want, lookedUp}, []any{rec.Outcome(), rec.IntentID}, rec.Error)
				require.Len(t, lettersOf(t, q, no), map[bool]int{true: 1}[c.want.NeedsLetter()])
				requireDrained(t, q)
			})
		}
	}
}

// TestR3ALookupIsAboutDoubtAlone: an order whose outcome is certain is left as it is, and so is one that a
// person settled after it was in the queue.
func TestR3ALookupIsAboutDoubtAlone(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	l := deadLetter(t, q, "A-1", rejected())
	require.Equal(t, settle.ReplayCertain, replay(t, q, l, settle.ReplayOptions{Person: anna, LookupUntil: time.Now().Add(time.Hour)}))

	msg := q.Producer.IntentMessage(settle.Intent{OrderNo: "A-1", Body: l.Body, ID: "lookup:1", LookupUntil: time.Now().Add(time.Hour)})
	_, _, err := q.Store().PublishIntent(t.Context(), msg) // a command that was held up between its look and this
	require.NoError(t, err)
	settle.NewHandler(q.Worker, settle.HandlerOptions{Asks: func(*order.Order, order.History) bool { return true }}).Handle(t.Context(), t.Context(), pull(t, q, 1)[0], nil)
	require.Equal(t, order.OutcomeCancelled, lookup(t, q, "A-1").Outcome())
	require.Len(t, lettersOf(t, q, "A-1"), 1, "the order can be replayed still")

	for name, header := range map[string]string{"a time": time.Now().Add(time.Hour).Format(time.RFC3339), "no time": "soon"} {
		t.Run("a producer sets the header: "+name, func(t *testing.T) {
			no := "B-" + name[:1]
			msg := q.Producer.IntentMessage(settle.Intent{OrderNo: no, Body: body(no), ID: no})
			msg.Header[settle.HeaderLookupUntil] = []string{header}
			_, _, err := q.Store().PublishIntent(t.Context(), msg)
			require.NoError(t, err)
			settle.NewHandler(q.Worker, settle.HandlerOptions{Asks: func(*order.Order, order.History) bool { return true },
				Submit: func(context.Context, *order.Submission) *order.Report {
					t.Error("submitted")
					return &order.Report{End: order.EndHandBack}
				}}).Handle(t.Context(), t.Context(), pull(t, q, 1)[0], nil)
			require.Equal(t, map[string]order.Outcome{"a time": order.OutcomeUnknown, "no time": order.OutcomeInvalid}[name], lookup(t, q, no).Outcome())
		})
	}
}
