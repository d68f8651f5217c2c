package deadletter

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// acted runs a deed on a group as the console does, with its entries in the journal.
func (r *rig) acted(by string, g Group, d Deed) {
	r.Helper()
	act, err := journal.New(r.q, "test", "").Begin(r.T.Context(), journal.Intention{About: journal.About{Kind: d.Kind, Actor: journal.Actor{Name: by}, Filter: map[string][]string{"all": {"true"}}, LastSeq: g.Last}})
	require.NoError(r, err)
	tally, err := Run(r.T.Context(), r.q, g, d, Options{})
	require.NoError(r, err)
	require.NoError(r, act.End(r.T.Context(), journal.Result{End: journal.Done, Counts: tally.Counts()}))
}

// TestActsOnGroupsBelongToTheirOrders: the journal has one entry for a group, and each
// order that was in it shows that entry.
func TestActsOnGroupsBelongToTheirOrders(t *testing.T) {
	r := newRig(t)
	r.letters("R", 3, order.Rejected, "bad currency")
	r.letters("D", 2, order.Unsure, "no answer")
	r.letters("OTHER", 1, order.Rejected, "bad currency")
	of := func(no string) (did []string) {
		found, err := status.Find(context.Background(), r.q, no)
		require.NoError(t, err)
		items, err := OfOrder(t.Context(), r.q, no, "", &found)
		require.NoError(t, err)
		for _, item := range items {
			did = append(did, item.Actor.Name+" "+string(item.Kind))
		}
		return did
	}
	require.Empty(t, of("R-001"))

	anna, ben := settle.Person{Name: "anna"}, settle.Person{Name: "ben"}
	r.acted("anna", r.all("R-"), Replay(r.q, settle.ReplayOptions{Person: anna}))
	require.Equal(t, []string{"anna replay"}, of("R-001"), "while it waits")
	require.Empty(t, of("D-001"))
	r.fail(3, order.Report{End: order.EndAnswer, Verdict: order.Rejected, Status: 422, Reason: "bad currency"})
	require.Equal(t, []string{"anna replay"}, of("R-002"), "once it is settled")

	r.acted("ben", r.all("D-"), Resolve(r.q, order.OutcomeAccepted, ben))
	require.Equal(t, []string{"ben resolve"}, of("D-002"))
	r.acted("ben", r.all("R-"), Drop(r.q, ben))
	require.Equal(t, []string{"ben drop", "anna replay"}, of("R-003"))
	require.Empty(t, of("OTHER-001"))

	r.letters("DOUBT", 2, order.Unsure, "no answer")
	r.acted("anna", r.all("DOUBT-"), Replay(r.q, settle.ReplayOptions{Person: anna, ResubmitUnknown: true}))
	require.Equal(t, []string{"anna replay"}, of("DOUBT-001"), "once, although the record has it, too")
}

// TestTraces: what tells two acts apart that ran at the same time.
func TestTraces(t *testing.T) {
	item := journal.Item{Entry: journal.Entry{About: journal.About{Kind: journal.Replay, Actor: journal.Actor{Name: "anna"}, LastSeq: 9, Filter: map[string][]string{"letter": {"3", "7"}}}}}
	require.True(t, trace{kind: journal.Replay, letter: 7}.by(item))
	require.False(t, trace{kind: journal.Replay, letter: 5}.by(item), "it was not chosen")
	require.False(t, trace{kind: journal.Replay, letter: 10}.by(item), "it was filed later")
	require.False(t, trace{kind: journal.Replay, name: "ben"}.by(item))
	item.Ended = item.At.Add(1)
	require.False(t, trace{kind: journal.Replay, letter: 7, at: item.At.Add(2 * clockSlack)}.by(item), "it had ended")
	require.False(t, trace{kind: journal.Replay, letter: 7, at: item.At.Add(-2 * clockSlack)}.by(item), "it had not begun")
}
