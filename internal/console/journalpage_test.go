package console

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/order"
)

// did writes an act into the journal.
func (r *rig) did(about journal.About, end *journal.Result) {
	r.Helper()
	if about.Actor.Name == "" {
		about.Actor = journal.Actor{Name: "bo@ops", Known: journal.ByUser}
	}
	act, err := journal.New(r.worker, "deadletter test", "v0").Begin(r.T.Context(), journal.Intention{About: about})
	require.NoError(r, err)
	if end != nil {
		require.NoError(r, act.End(r.T.Context(), *end))
	}
}

// TestJournalPages: newest first, page by page, filtered by person, kind and order.
func TestJournalPages(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	require.Contains(t, text(b.open(http.StatusOK, "/journal")), "The journal is empty.")
	done := &journal.Result{End: journal.Done}
	for i := range 60 {
		r.did(journal.About{Kind: journal.Resolve, OrderNo: fmt.Sprintf("A-%02d", i)}, done)
	}
	r.did(journal.About{Kind: journal.Replay, Actor: journal.Actor{Name: "<i>eve</i>", Known: journal.ByFlag}, Filter: map[string][]string{"outcome": {"exhausted", "expired"}}, LastSeq: 77,
		Expected: map[string]int{"replayed": 1200}}, &journal.Result{End: journal.Partial, Counts: map[string]int{"replayed": 1100, "late": 100}})
	r.did(journal.About{Kind: journal.Drop, OrderNo: "A-07", Note: "not wanted any more"}, nil)

	page := b.open(http.StatusOK, "/journal")
	require.Regexp(t, `bo@ops drop dead letters: order A-07: not wanted any more .* no result yet .*replay dead letters .*Filter outcome exhausted, expired .*Up to letter 77 Expected 1,200 replayed .*Result 1,100 replayed, 100 late .*partial`, text(page))
	require.NotContains(t, page, "<i>eve</i>")
	require.NotContains(t, text(page), "A-05")
	older := regexp.MustCompile(`href="(/journal\?before=\d+)"`).FindStringSubmatch(page)
	require.NotNil(t, older)
	page = b.open(http.StatusOK, older[1])
	require.Contains(t, text(page), "order A-05")
	require.NotContains(t, page, "Older acts")

	require.NotContains(t, text(b.open(http.StatusOK, "/journal?by=bo")), "replay dead letters")
	require.Equal(t, 1, strings.Count(b.open(http.StatusOK, "/journal?kind=replay"), "<time"))
	require.Equal(t, 2, strings.Count(b.open(http.StatusOK, "/journal?no=A-07"), "<time"))
	require.Contains(t, text(b.open(http.StatusOK, "/journal?by=nobody")), "No act matches")
	b.open(http.StatusBadRequest, "/journal?kind=theft")
	b.open(http.StatusBadRequest, "/journal?before=x")
}

// TestOrderPageShowsWhatPeopleDid: to the order, and to its import.
func TestOrderPageShowsWhatPeopleDid(t *testing.T) {
	r := newRig(t)
	r.settles("A-1", answered(order.Rejected, 422, "rule 2", ""))
	r.did(journal.About{Kind: journal.Import, Batch: "march"}, &journal.Result{End: journal.Done})
	r.did(journal.About{Kind: journal.Replay, OrderNo: "A-1", Note: "ticket 17"}, &journal.Result{End: journal.Done})
	r.did(journal.About{Kind: journal.Replay, OrderNo: "A-2"}, &journal.Result{End: journal.Done})
	page := text(r.loggedIn().open(http.StatusOK, "/order?no=A-1"))
	require.Regexp(t, `What people did .*bo@ops replay dead letters: order A-1: ticket 17 More .* done .*bo@ops import a file: import march More .* done`, page)
	require.NotContains(t, page, "A-2")
}

// TestOrderPageShowsActsOnGroups: the journal has one entry for all orders of a group.
func TestOrderPageShowsActsOnGroups(t *testing.T) {
	r := newRig(t)
	r.refuses("R-1")
	r.refuses("R-2")
	b := r.loggedIn()
	require.NotContains(t, text(b.open(http.StatusOK, "/order?no=R-1")), "replay dead letters")
	b.ended(b.run(b.preview("act", "replay", "which", "chosen", "letter", fmt.Sprint(r.letter("R-1").Seq)), "note", "ticket 17"))
	require.Regexp(t, `What people did .*anna replay dead letters: ticket 17 More`, text(b.open(http.StatusOK, "/order?no=R-1")))
	require.NotContains(t, text(b.open(http.StatusOK, "/order?no=R-2")), "replay dead letters: ticket 17")
}

// TestAnActThatTheJournalDoesNotTake is not done, unless it makes things safer.
func TestAnActThatTheJournalDoesNotTake(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	r.fillJournal()
	require.Contains(t, text(b.confirmed(http.StatusServiceUnavailable, "/fleet/resume")), "Nothing was done, because the journal cannot be written.")
	require.Contains(t, text(b.confirmed(http.StatusOK, "/fleet/hold")), "The fleet is held. THE JOURNAL HAS NOTHING OF THIS, because it could not be written. Note yourself who did it, when and why.")
	require.NotContains(t, text(b.open(http.StatusOK, "/fleet")), "THE JOURNAL", "it is said once")
	require.NotContains(t, text(b.open(http.StatusOK, "/journal")), "resume the fleet")
}
