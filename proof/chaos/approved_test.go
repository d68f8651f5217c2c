package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/order"
)

// TestWhatNobodyAgreedToIsFound: an order that was created counts only if two people had stood
// for the same part of its import, after it was published and before it was created.
func TestWhatNobodyAgreedToIsFound(t *testing.T) {
	type acts struct {
		sign    func(name string, kind journal.Kind, digest string)
		publish func()
		create  func()
		answer  func(name string)
	}
	for name, c := range map[string]struct {
		happened func(a acts)
		problem  string // "" = all is well
	}{
		"two people": {func(a acts) {
			a.publish()
			a.sign("bob", journal.Approve, "d")
			a.sign("anna", journal.Approve, "d")
			a.create()
		}, ""},
		"who uploaded, and another": {func(a acts) {
			a.publish()
			a.sign("anna", journal.Import, "")
			a.sign("bob", journal.Approve, "d")
			a.answer("bob")
			a.create()
		}, ""},
		"nobody":     {func(a acts) { a.publish(); a.create() }, "no two people had agreed"},
		"one person": {func(a acts) { a.publish(); a.sign("bob", journal.Approve, "d"); a.create() }, "no two people had agreed"},
		"one person twice": {func(a acts) {
			a.publish()
			a.sign("anna", journal.Import, "")
			a.sign("anna", journal.Approve, "d")
			a.sign("anna", journal.Approve, "d")
			a.create()
		}, "no two people had agreed"},
		"two people, of different parts": {func(a acts) {
			a.publish()
			a.sign("bob", journal.Approve, "d")
			a.sign("anna", journal.Approve, "e")
			a.create()
		}, "no two people had agreed"},
		"one approves, one refuses": {func(a acts) {
			a.publish()
			a.sign("bob", journal.Approve, "d")
			a.sign("anna", journal.Refuse, "d")
			a.create()
		}, "no two people had agreed"},
		"too late": {func(a acts) {
			a.publish()
			a.create()
			a.sign("bob", journal.Approve, "d")
			a.sign("anna", journal.Approve, "d")
		}, "no two people had agreed"},
		"of what was there before": {func(a acts) {
			a.sign("bob", journal.Approve, "d")
			a.sign("anna", journal.Approve, "d")
			a.publish()
			a.create()
		}, "no two people had agreed"},
		"an answer that the journal lacks": {func(a acts) { a.sign("bob", journal.Approve, "e"); a.answer("bob") }, "the journal has no such act"},
		"an answer that counted for nothing": {func(a acts) {
			a.sign("bob", journal.Approve, "d")
			a.answer("bob")
			a.answer("bob")
		}, "bob could approve it twice"},
	} {
		t.Run(name, func(t *testing.T) {
			q, api, in, create := ledgers(t)
			j := journal.New(q, "console", "test")
			pp := &people{}
			c.happened(acts{
				sign: func(name string, kind journal.Kind, digest string) {
					act, err := j.Begin(t.Context(), journal.Intention{About: journal.About{Kind: kind, Batch: "march", Actor: journal.Actor{Name: name, Known: journal.Proxy}, Details: map[string]string{"digest": digest}}})
					require.NoError(t, err)
					require.NoError(t, act.End(t.Context(), journal.Result{End: journal.Done}))
				},
				publish: func() { in.publish("A-1", "") },
				create:  func() { create("A-1") },
				answer: func(name string) {
					pp.note(decision{name, "approve", "march", "d"}, http.StatusSeeOther, "You approved it.", nil, false)
				},
			})
			var problems []string
			tally, err := pp.judge(t.Context(), q, map[string]*order.Record{"A-1": {OrderNo: "A-1", Batch: "march", Waited: true}}, in, api, func(format string, args ...any) {
				problems = append(problems, fmt.Sprintf(format, args...))
			})
			require.NoError(t, err)
			if c.problem == "" {
				require.Empty(t, problems)
				require.Equal(t, 1, tally.Covered)
				return
			}
			require.Equal(t, 1, tally.Wrong, problems)
			require.Contains(t, strings.Join(problems, "\n"), c.problem)
		})
	}
}

// TestAnUploadThatEndsOtherwiseIsFound: what was refused or left alone must not be sent, and
// what was approved must have its outcome.
func TestAnUploadThatEndsOtherwiseIsFound(t *testing.T) {
	accepted := &order.Record{OrderNo: "A-1", Word: "accepted"}
	cancelled := &order.Record{OrderNo: "A-1", Word: "cancelled"}
	require.Equal(t, order.OutcomeAccepted, accepted.Outcome())
	for name, c := range map[string]struct {
		fate    fate
		rec     *order.Record
		created bool
		wrong   int
	}{
		"approved and sent":          {approved, accepted, true, 0},
		"approved, and nothing came": {approved, nil, false, 1},
		"refused and withdrawn":      {refused, cancelled, false, 0},
		"refused and sent":           {refused, accepted, true, 1},
		"left alone and sent":        {left, accepted, true, 1},
		"left alone and gone":        {left, nil, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			q, api, _, create := ledgers(t)
			if c.created {
				create("A-1")
			}
			settled := make(map[string]*order.Record)
			if c.rec != nil {
				settled["A-1"] = c.rec
			}
			pp, tally := &people{uploads: map[string]*uploaded{"march": {fate: c.fate, orderNos: []string{"A-1"}}}}, &approvalTally{}
			wrong := 0
			require.NoError(t, pp.judgeUploads(t.Context(), q, settled, api, tally, func(string, ...any) { wrong++ }))
			require.Equal(t, c.wrong, wrong)
			require.Equal(t, 1-c.wrong, tally.Approved+tally.Refused+tally.Waiting)
		})
	}
}
