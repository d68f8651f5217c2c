package approval

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

const allActs = "resubmit-unknown,resolve,limit"

// newActRig starts a broker whose rule holds the acts of persons, with orders in doubt.
func newActRig(t *testing.T, orders ...string) *rig {
	t.Helper()
	r := newRig(t, allActs, idle)
	r.doubts(orders...)
	return r
}

// doubts stores orders and leaves each in doubt, with its letter.
func (r *rig) doubts(orders ...string) {
	r.Helper()
	for _, no := range orders {
		in := settle.Intent{OrderNo: no, Body: []byte(`{"order_no":"` + no + `","timeout":30}`), Batch: "march"}
		require.NoError(r, r.q.PublishMany(r.T.Context(), []settle.Intent{in})[0].Err)
	}
	now := time.Now().UTC()
	r.settles(len(orders), order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, Reason: "no answer",
		History: order.History{Attempts: 1, Unsure: true, FirstAttemptAt: now, LastAttemptAt: now}})
}

// settles gives n stored orders an end.
func (r *rig) settles(n int, end order.Report) {
	r.Helper()
	for _, d := range queuetest.Pull(r, r.q, n) {
		queuetest.Settle(r, r.q, d, end)
	}
	queuetest.Drained(r, r.q)
}

func (r *rig) record(no string) *order.Record {
	r.Helper()
	e, err := r.q.Store().Record(r.T.Context(), order.Token(no))
	require.NoError(r, err)
	require.NotNil(r, e.Record, no)
	return e.Record
}

func (r *rig) letters() int {
	r.Helper()
	c, err := r.q.Census.Count(r.T.Context())
	require.NoError(r, err)
	return int(c.Letters)
}

// carrier does what was decided, in the process of one worker.
func (r *rig) carrier(change ...func(*Carrier)) *Carrier {
	c := &Carrier{Queue: r.q, Journal: journal.New(r.q, "orderpost worker", "test"), Log: zerolog.Nop(), Now: time.Now, Leads: func() bool { return true }}
	for _, f := range change {
		f(c)
	}
	return c
}

// carries lets a worker look once at everything that waits.
func (r *rig) carries(change ...func(*Carrier)) {
	r.Helper()
	f, err := imports.ReadFeeding(r.T.Context(), r.q, 0)
	require.NoError(r, err)
	for id, a := range f.Approvals.Acts {
		require.NoError(r, r.carrier(change...).carry(r.T.Context(), id, a, f.Approvals.ReadRule()))
	}
}

func (r *rig) waiting() map[string]*imports.Approval {
	r.Helper()
	f, err := imports.ReadFeeding(r.T.Context(), r.q, 0)
	require.NoError(r, err)
	return f.Approvals.Acts
}

// asks begins an act that needs a second person, and returns its id.
func (r *rig) asks(about journal.About, by journal.Actor) string {
	r.Helper()
	about.Actor = by
	act, err := Begin(r.T.Context(), r.q, journal.New(r.q, "test", "test"), journal.Intention{About: about})
	asked, ok := errors.AsType[*Asked](err)
	require.True(r, ok, "%v", err)
	require.Nil(r, act)
	require.Contains(r, r.waiting(), asked.ID)
	return asked.ID
}

func (r *rig) aboutLetters(kind journal.Kind, details map[string]string, filter map[string][]string) journal.About {
	r.Helper()
	last, err := deadletter.LastLetter(r.T.Context(), r.q)
	require.NoError(r, err)
	return journal.About{Kind: kind, Filter: filter, LastSeq: last, Details: details, Note: "ticket 17"}
}

func (r *rig) act(id string) *journal.Item {
	r.Helper()
	item, _, err := Find(r.T.Context(), r.q, id)
	require.NoError(r, err)
	require.NotNil(r, item)
	return item
}

func (r *rig) actDecision(id string, by journal.Actor, note string) Decision {
	r.Helper()
	item, seen, err := Find(r.T.Context(), r.q, id)
	require.NoError(r, err)
	return Decision{Act: item, Seen: seen, About: journal.About{Actor: by, Note: note}}
}

func (r *rig) approvesAct(id string, by journal.Actor) (whole bool, err error) {
	r.Helper()
	whole, _, unwritten, err := r.desk().Approve(r.T.Context(), r.actDecision(id, by, ""))
	require.NoError(r, unwritten)
	return whole, err
}

var resolveA1 = journal.About{Kind: journal.Resolve, OrderNo: "A-1", Details: map[string]string{"as": "accepted"}, Note: "seen in the back office"}

// An act of a person waits for another login, and a worker does it. The journal and the
// record have both names.
func TestASecondLoginApprovesAnAct(t *testing.T) {
	r := newActRig(t, "A-1")
	id := r.asks(resolveA1, login("anna"))
	r.carries()
	require.Equal(t, order.OutcomeUnknown, r.record("A-1").Outcome())
	for _, name := range []string{"anna", "ANNA"} {
		_, err := r.approvesAct(id, login(name))
		require.Equal(t, "you asked for it yourself; another login must approve it", refused(t, err))
	}
	for _, how := range []journal.Known{journal.ByFlag, journal.ByUser, journal.ByProcess, journal.Link, journal.Token, journal.Certificate} {
		_, err := r.approvesAct(id, journal.Actor{Name: "bob", Known: how})
		require.Contains(t, refused(t, err), "your name is not proved", how)
	}
	whole, err := r.approvesAct(id, login("bob"))
	require.NoError(t, err)
	require.True(t, whole)
	require.Equal(t, order.OutcomeUnknown, r.record("A-1").Outcome(), "a worker does it")
	r.balances()
	r.carries()
	rec := r.record("A-1")
	require.Equal(t, order.OutcomeAccepted, rec.Outcome())
	require.Equal(t, "anna, approved by bob", rec.By)
	require.Equal(t, "seen in the back office", rec.Interventions[0].Note)
	require.Zero(t, r.letters())
	require.Empty(t, r.waiting())
	_, err = r.approvesAct(id, login("carol"))
	require.Equal(t, "it waits for no approval any more: it is done", refused(t, err))

	items, err := journal.OfOrder(t.Context(), r.q, "A-1", "")
	require.NoError(t, err)
	require.Len(t, items, 2)
	approve, resolve := items[0], items[1]
	require.Equal(t, []any{journal.Approve, "bob", id, "anna", "resolve order A-1 as accepted"},
		[]any{approve.Kind, approve.Actor.Name, approve.Details["act"], approve.Details["asked_by"], approve.Details["what"]})
	require.Equal(t, []any{journal.Resolve, "anna", id, journal.Done, []string{"bob"}, 1},
		[]any{resolve.Kind, resolve.Actor.Name, resolve.ID, resolve.Result.End, resolve.Result.ApprovedBy, resolve.Result.Counts["resolved"]})
	r.balances()
}

// A name that reads like two is one login, for the audit, too.
func TestANameThatReadsLikeTwoNames(t *testing.T) {
	r := newActRig(t, "A-1")
	id := r.asks(resolveA1, login("anna"))
	whole, err := r.approvesAct(id, journal.Actor{Name: "Sales and Stock", Known: journal.Proxy})
	require.NoError(t, err)
	require.True(t, whole)
	r.carries()
	require.Equal(t, order.OutcomeAccepted, r.record("A-1").Outcome())
	r.balances()
}

// Nobody's login was checked in a terminal, so two approve what a command asks for.
func TestAnActThatACommandAsksFor(t *testing.T) {
	r := newActRig(t, "A-1")
	id := r.asks(resolveA1, journal.Actor{Name: "bob", Known: journal.ByFlag})
	require.Nil(t, r.waiting()[id].Asker)
	whole, err := r.approvesAct(id, login("bob"))
	require.NoError(t, err)
	require.False(t, whole)
	r.carries()
	require.Equal(t, order.OutcomeUnknown, r.record("A-1").Outcome())
	_, err = r.approvesAct(id, login("Bob"))
	require.Contains(t, refused(t, err), "you approved it already")
	whole, err = r.approvesAct(id, journal.Actor{Name: "anna", Known: journal.Proxy})
	require.NoError(t, err)
	require.True(t, whole)
	r.carries()
	require.Equal(t, "bob, approved by bob and anna", r.record("A-1").By)
	r.balances()
}

// An approval covers what was asked for: neither letters that were filed later, nor an
// order that was handled again since.
func TestAnActLeavesAloneWhatChanged(t *testing.T) {
	r := newActRig(t, "A-1", "A-2", "A-3")
	id := r.asks(r.aboutLetters(journal.Replay, map[string]string{"resubmit-unknown": "true"}, map[string][]string{"batch": {"march"}}), login("anna"))
	_, err := r.q.Operator.Resolve(t.Context(), "A-2", "", order.OutcomeAccepted, settle.Person{Name: "carol"}) // the API's operator called
	require.NoError(t, err)
	// A-3 is in doubt about one more attempt than when anna asked.
	in := settle.Intent{OrderNo: "A-3", Body: []byte(`{"order_no":"A-3","timeout":60}`), ID: "again"}
	require.NoError(t, r.q.PublishMany(t.Context(), []settle.Intent{in})[0].Err)
	now := time.Now().UTC()
	r.settles(1, order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, Reason: "no answer again",
		History: order.History{Attempts: 1, Unsure: true, FirstAttemptAt: now, LastAttemptAt: now}})
	r.doubts("A-4")
	whole, err := r.approvesAct(id, login("bob"))
	require.NoError(t, err)
	require.True(t, whole)
	r.carries()
	item := r.act(id)
	require.Equal(t, 1, item.Result.Counts["replayed"], "%+v", item.Result)
	require.Equal(t, order.OutcomeAccepted, r.record("A-2").Outcome())
	require.Equal(t, 1, r.queued(), "A-1 alone")
	require.True(t, r.record("A-1").Allows("replay:1"), "%+v", r.record("A-1"))
	require.Empty(t, r.record("A-3").AllowedFor)
	require.Empty(t, r.record("A-4").AllowedFor)
	require.Empty(t, r.waiting())

	settledMeanwhile := r.asks(journal.About{Kind: journal.Resolve, OrderNo: "A-4", Details: map[string]string{"as": "rejected"}}, login("anna"))
	_, err = r.q.Operator.Resolve(t.Context(), "A-4", "", order.OutcomeAccepted, settle.Person{Name: "carol"})
	require.NoError(t, err)
	_, err = r.approvesAct(settledMeanwhile, login("bob"))
	require.NoError(t, err)
	r.carries()
	require.Equal(t, "carol", r.record("A-4").By, "a word that was given since counts")
	require.Equal(t, journal.Failed, r.act(settledMeanwhile).Result.End)
	require.Contains(t, r.act(settledMeanwhile).Result.Error, "the order was handled again since")
}

// A higher limit waits, a lower one does not. One that was set since is not replaced.
func TestAHigherLimitWaits(t *testing.T) {
	r := newActRig(t)
	control := fleet.New(r.q)
	v, err := control.Read(t.Context())
	require.NoError(t, err)
	require.False(t, v.Lowers(&fleet.Limit{PerSecond: 1}), "no worker is there to say what the limit is")
	limit := func(text string) journal.About {
		return journal.About{Kind: journal.Limit, Details: map[string]string{"limit": text}}
	}
	set := func(perSecond float64) {
		require.NoError(t, control.SetLimit(t.Context(), &fleet.Limit{PerSecond: perSecond, By: "carol", At: time.Now().UTC()}))
	}
	now := func() float64 {
		v, err := control.Read(t.Context())
		require.NoError(t, err)
		return v.Limit.PerSecond
	}
	set(10)
	for _, lower := range []string{"10/s", "5/s"} {
		act, err := Begin(t.Context(), r.q, journal.New(r.q, "test", "test"), journal.Intention{About: limit(lower)})
		require.NoError(t, err, lower)
		require.NoError(t, act.End(t.Context(), journal.Result{End: journal.Done}))
	}
	for _, higher := range []string{"none", "default"} {
		r.asks(limit(higher), login("anna"))
	}
	id := r.asks(limit("50/s"), login("anna"))
	require.Equal(t, "limit 50/s, now 10/s", r.waiting()[id].Why)
	_, err = r.approvesAct(id, login("bob"))
	require.NoError(t, err)
	r.carries()
	require.InDelta(t, 50, now(), 0)
	require.Equal(t, []string{"bob"}, r.act(id).Result.ApprovedBy)

	late := r.asks(limit("80/s"), login("anna"))
	_, err = r.approvesAct(late, login("bob"))
	require.NoError(t, err)
	set(1) // at three in the morning
	r.carries()
	require.InDelta(t, 1, now(), 0)
	require.Contains(t, r.act(late).Result.Error, "somebody else has steered the fleet meanwhile")
	r.balances()
}

func TestARefusedActIsNotDone(t *testing.T) {
	r := newActRig(t, "A-1")
	id := r.asks(resolveA1, login("anna"))
	_, _, err := r.desk().Refuse(t.Context(), r.actDecision(id, login("bob"), ""))
	require.Equal(t, "a refusal needs a reason", refused(t, err))
	_, unwritten, err := r.desk().Refuse(t.Context(), r.actDecision(id, login("bob"), "nobody has looked"))
	require.NoError(t, errors.Join(unwritten, err))
	_, err = r.approvesAct(id, login("carol"))
	require.Contains(t, refused(t, err), "bob refused the act at ")
	r.balances()
	r.carries()
	require.Equal(t, order.OutcomeUnknown, r.record("A-1").Outcome())
	require.Equal(t, journal.Failed, r.act(id).Result.End)
	require.Equal(t, "nothing was done: bob refused it: nobody has looked", r.act(id).Result.Error)
	require.Empty(t, r.waiting())
	r.balances()
}

// What waits for too long lapses, before its approval and after it.
func TestAnActLapses(t *testing.T) {
	r := newActRig(t, "A-1", "A-2")
	id := r.asks(resolveA1, login("anna"))
	later := time.Now().Add(8 * 24 * time.Hour)
	_, _, _, err := r.desk(func(d *Desk) { d.Now = func() time.Time { return later } }).Approve(t.Context(), r.actDecision(id, login("bob"), ""))
	require.Equal(t, "it waited for longer than 168h0m0s, so its approval lapsed: ask again", refused(t, err))
	approved := r.asks(journal.About{Kind: journal.Resolve, OrderNo: "A-2", Details: map[string]string{"as": "accepted"}}, login("anna"))
	_, err = r.approvesAct(approved, login("bob"))
	require.NoError(t, err)
	r.carries(func(c *Carrier) { c.Now = func() time.Time { return later } }) // no worker ran for a week
	require.Equal(t, "nothing was done: nobody approved it within 168h0m0s; ask again", r.act(id).Result.Error)
	require.Equal(t, "nothing was done: its approval lapsed before a worker could do it; ask again", r.act(approved).Result.Error)
	for _, no := range []string{"A-1", "A-2"} {
		require.Equal(t, order.OutcomeUnknown, r.record(no).Outcome())
	}
	require.Empty(t, r.waiting())
}

// Two decide in the same moment, as often as they like: it is done once.
func TestAnActIsApprovedByTwoAtOnce(t *testing.T) {
	r := newActRig(t, "A-1")
	id := r.asks(resolveA1, login("anna"))
	var all sync.WaitGroup
	var mu sync.Mutex
	done, not := 0, 0
	for i := range 8 {
		dec := r.actDecision(id, login([]string{"bob", "carol"}[i%2]), "")
		all.Go(func() {
			_, _, _, err := r.desk().Approve(t.Context(), dec)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			} else if IsRefusal(err) != nil {
				not++
			}
		})
	}
	all.Wait()
	require.Equal(t, []int{1, 7}, []int{done, not})
	for range 3 { // workers, one of which has lost its lease
		all.Go(func() {
			a, err := imports.ReadFeeding(t.Context(), r.q, 0)
			if err == nil && a.Approvals.Acts[id] != nil {
				_ = r.carrier().carry(t.Context(), id, a.Approvals.Acts[id], a.Approvals.ReadRule())
			}
		})
	}
	all.Wait()
	r.carries()
	require.Equal(t, order.OutcomeAccepted, r.record("A-1").Outcome())
	require.Len(t, r.record("A-1").Interventions, 1)
	require.Equal(t, journal.Done, r.act(id).Result.End)
	require.Empty(t, r.waiting())
	r.balances()
}

// A console that is killed between the journal and the decision leaves the act waiting. A
// worker that is killed between the effect and the result does it once.
func TestAnActSurvivesKills(t *testing.T) {
	r := newActRig(t, "A-1", "A-2")
	control := fleet.New(r.q)
	require.NoError(t, control.SetLimit(t.Context(), &fleet.Limit{PerSecond: 10, By: "carol", At: time.Now().UTC()}))
	resolve := r.asks(resolveA1, login("anna"))
	replay := r.asks(r.aboutLetters(journal.Replay, map[string]string{"resubmit-unknown": "true"}, map[string][]string{"order-no": {"A-2"}}), login("anna"))
	limit := r.asks(journal.About{Kind: journal.Limit, Details: map[string]string{"limit": "50/s"}}, login("anna"))
	ids := []string{resolve, replay, limit}
	type killed struct{}
	kill := func(do func()) {
		defer func() { require.Equal(t, killed{}, recover()) }()
		do()
	}
	for _, id := range ids {
		kill(func() {
			_, _, _, _ = r.desk(func(d *Desk) { d.between = func() { panic(killed{}) } }).Approve(t.Context(), r.actDecision(id, login("bob"), ""))
		})
	}
	r.carries()
	require.Len(t, r.waiting(), 3)
	require.Equal(t, order.OutcomeUnknown, r.record("A-1").Outcome())
	for _, id := range ids {
		_, err := r.approvesAct(id, login("bob"))
		require.NoError(t, err)
		for range 2 { // killed twice
			a := r.waiting()[id]
			kill(func() {
				_ = r.carrier(func(c *Carrier) { c.between = func() { panic(killed{}) } }).carry(t.Context(), id, a, imports.ApprovalRule{ResubmitUnknown: true, Resolve: true, Limit: true, Lapse: time.Hour})
			})
		}
		require.Nil(t, r.act(id).Result)
	}
	r.carries()
	for _, id := range ids {
		require.Equal(t, journal.Done, r.act(id).Result.End, "%+v", r.act(id))
	}
	require.Len(t, r.record("A-1").Interventions, 1)
	require.Equal(t, 1, r.queued())
	require.Len(t, r.record("A-2").Interventions, 1)
	v, err := control.Read(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 50, v.Limit.PerSecond, 0)
	require.Equal(t, 1, r.letters(), "whose replay is in the queue")
	r.balances()
}

// Without the rule, nothing is done by itself: whoever asked does it.
func TestARuleThatEndsWhileAnActWaits(t *testing.T) {
	r := newActRig(t, "A-1")
	id := r.asks(resolveA1, login("anna"))
	SetRule(t.Context(), r.q, "imports", "w0", "test", zerolog.Nop())
	_, err := r.approvesAct(id, login("bob"))
	require.Contains(t, refused(t, err), "nothing of this kind needs approval here")
	r.carries()
	require.Equal(t, "nothing was done: the rule that held it has changed; do it again", r.act(id).Result.Error)
	act, err := Begin(t.Context(), r.q, journal.New(r.q, "test", "test"), journal.Intention{About: resolveA1})
	require.NoError(t, err)
	require.NoError(t, act.End(t.Context(), journal.Result{End: journal.Done}))
}

// What the journal would store otherwise than it was asked for is refused, with nothing stored.
func TestWhatTheJournalCannotHold(t *testing.T) {
	r := newActRig(t, "A-1")
	for says, about := range map[string]journal.About{
		"bytes that are no text": {Kind: journal.Resolve, OrderNo: "A-\xff", Details: map[string]string{"as": "accepted"}},
		"its filter is too long": {Kind: journal.Resolve, Filter: map[string][]string{"reason": {strings.Repeat("x", mostAsked)}}, LastSeq: 1, Details: map[string]string{"as": "accepted"}},
		"filter has bytes that":  {Kind: journal.Replay, Filter: map[string][]string{"order-no": {"\xfe*"}}, LastSeq: 1, Details: map[string]string{"resubmit-unknown": "true"}},
	} {
		_, err := Begin(t.Context(), r.q, journal.New(r.q, "test", "test"), journal.Intention{About: about})
		require.ErrorContains(t, err, says)
	}
	require.Empty(t, r.waiting())
	p, err := journal.Read(t.Context(), r.q, journal.Query{Kind: journal.Resolve})
	require.NoError(t, err)
	require.Empty(t, p.Items)
}

// Whoever can write the fleet's bucket can write an approval there. The audit names it, and an
// act of which the journal has nothing is not done.
func TestForgedApprovals(t *testing.T) {
	r := newActRig(t, "A-1")
	id := r.asks(resolveA1, login("anna"))
	item, seen, err := Find(t.Context(), r.q, id)
	require.NoError(t, err)
	forge := func(id string, a imports.Approval) {
		require.NoError(t, imports.ChangeApprovals(t.Context(), r.q, func(all *imports.Approvals) (bool, error) {
			all.Acts[id] = &a
			return true, nil
		}))
	}
	nobody := []imports.Signature{{Name: "bob", How: "login", Act: "aaaaaaaaaaaaaaaaaaaa"}}
	forge("bbbbbbbbbbbbbbbbbbbb", imports.Approval{At: time.Now(), Why: "resolve", Intention: "resolve.all.-.bbbbbbbbbbbbbbbbbbbb.intention", Asker: &imports.Signature{Name: "anna"}, Given: nobody, Until: time.Now().Add(time.Hour)})
	entry := *r.waiting()[id]
	entry.Given, entry.Bound, entry.Until = nobody, seen.Bound, time.Now().Add(time.Hour)
	entry.Digest = strings.Repeat("0", 64)
	forge(id, entry)
	a := &audit.AuditResult{}
	require.NoError(t, Audit(t.Context(), r.q, a))
	var says []string
	for _, o := range a.Offenders {
		says = append(says, o.Problem)
	}
	text := strings.Join(says, "\n")
	require.Contains(t, text, "it waits for an approval, and the journal has no such act: resolve")
	require.Equal(t, 2, strings.Count(text, "bob approved it at "), text)
	r.carries()
	require.Equal(t, order.OutcomeUnknown, r.record("A-1").Outcome())
	require.Equal(t, "nothing was done: what was approved is not what was asked for; ask again", r.act(item.ID).Result.Error)
}

// An act that was asked for while the clock was ahead, and approved under a former rule, is
// found in the journal: its place there counts, no time.
func TestTheAuditFindsAnActOfAClockThatWasAhead(t *testing.T) {
	r := newActRig(t, "A-1")
	id := r.asks(resolveA1, login("anna"))
	_, err := r.approvesAct(id, login("bob"))
	require.NoError(t, err)
	require.NoError(t, imports.ChangeApprovals(t.Context(), r.q, func(all *imports.Approvals) (bool, error) {
		all.Acts[id].At = time.Now().AddDate(10, 0, 0)
		return true, nil
	}))
	SetRule(t.Context(), r.q, "resolve,lapse=1h", "w2", "test", zerolog.Nop())
	a := &audit.AuditResult{}
	require.NoError(t, Audit(t.Context(), r.q, a))
	require.Empty(t, a.Offenders)
}

func TestAnActThatTheFormerRuleMayHaveLet(t *testing.T) {
	set := time.Now()
	require.True(t, formerRule(set.Add(59*time.Second), set, time.Minute))
	require.False(t, formerRule(set.Add(time.Minute), set, time.Minute))
	require.False(t, formerRule(set.AddDate(-10, 0, 0), set, time.Minute), "the clock was set back since")
}

// A program that knows no approvals acts and journals it. The audit names the act.
func TestAnActWithoutItsApproval(t *testing.T) {
	r := newActRig(t, "A-1")
	about := resolveA1
	about.Actor = login("anna")
	act, err := journal.New(r.q, "an older version", "test").Begin(t.Context(), journal.Intention{About: about})
	require.NoError(t, err)
	require.NoError(t, act.End(t.Context(), journal.Result{End: journal.Done}))
	forged, err := journal.New(r.q, "a clever one", "test").Begin(t.Context(), journal.Intention{About: about})
	require.NoError(t, err)
	require.NoError(t, forged.End(t.Context(), journal.Result{End: journal.Done, ApprovedBy: []string{"bob"}}))
	full, err := journal.New(r.q, "approved while the disk was full", "test").Begin(t.Context(), journal.Intention{About: about})
	require.NoError(t, err)
	_, err = journal.New(r.q, "console", "test").Begin(t.Context(), journal.Intention{About: journal.About{Kind: journal.Approve, Actor: login("carol"), Details: map[string]string{"act": full.ID()}}})
	require.NoError(t, err)
	require.NoError(t, full.End(t.Context(), journal.Result{End: journal.Done, ApprovedBy: []string{"carol"}}))
	a := &audit.AuditResult{}
	f, err := imports.ReadFeeding(t.Context(), r.q, 0)
	require.NoError(t, err)
	require.NoError(t, auditActs(t.Context(), r.q, &f.Approvals, 0, a))
	require.Equal(t, 2, a.OffenderCount, "%+v", a.Offenders)
	require.Contains(t, a.Offenders[0].Problem+a.Offenders[1].Problem, "without the approval that the rule asks for: resolve order A-1 as accepted")
	require.Contains(t, a.Offenders[0].Problem+a.Offenders[1].Problem, "bob approved it, and the journal has no such approval")
}
