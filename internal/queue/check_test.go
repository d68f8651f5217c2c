package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// sorted gives a delivery of intent i2 with the last word given.
func sorted(t *testing.T, last *order.Record, invalid error) *Delivery {
	t.Helper()
	parsed, err := order.Parse(body("A-1"))
	require.NoError(t, err)
	return &Delivery{Intent: Intent{ID: "i2", OrderNo: "A-1"}, Order: parsed, Invalid: invalid, Last: Entry{Record: last}, Delivered: 1, counted: 1}
}

// The table of R2 and R6: the last word against the intent that was delivered.
func TestR6TheLastWordSaysWhatIsToBeDone(t *testing.T) {
	now := time.Now()
	q := &Queue{cfg: Config{AttemptTimeout: time.Minute}}
	mine := sorted(t, nil, nil).Order.BodyHash()
	broken := errors.New("not JSON")
	outcome := func(o order.Outcome, id, hash string, change ...func(*order.Record)) *order.Record {
		r := &order.Record{IntentID: id, BodyHash: hash, Settled: 1}
		r.SetOutcome(o)
		for _, c := range change {
			c(r)
		}
		return r
	}
	note := func(kind order.NoteKind, id string, change ...func(*order.Record)) *order.Record {
		r := &order.Record{Word: order.Retrying, Note: kind, IntentID: id}
		for _, c := range change {
			c(r)
		}
		return r
	}
	allowed := func(r *order.Record) { r.Allowed = true }
	later := func(r *order.Record) { r.NotBefore = now.Add(time.Hour) }
	earlier := func(r *order.Record) { r.NotBefore = now.Add(-time.Hour) }
	begun := func(ago time.Duration) func(*order.Record) {
		return func(r *order.Record) { r.LastAttemptAt = now.Add(-ago) }
	}
	for name, c := range map[string]struct {
		last    *order.Record
		invalid error
		want    Work
	}{
		"nothing known":                      {nil, nil, WorkSubmit},
		"nothing known, invalid":             {nil, broken, WorkInvalid},
		"this intent accepted":               {outcome(order.OutcomeAccepted, "i2", mine), nil, WorkSettled},
		"this intent rejected":               {outcome(order.OutcomeRejected, "i2", mine), nil, WorkSettled},
		"this intent unknown":                {outcome(order.OutcomeUnknown, "i2", mine), nil, WorkSettled},
		"this intent invalid":                {outcome(order.OutcomeInvalid, "i2", ""), broken, WorkSettled},
		"accepted before, same body":         {outcome(order.OutcomeAccepted, "i1", mine), nil, WorkRepeat},
		"accepted before, other body":        {outcome(order.OutcomeAccepted, "i1", "ff"), nil, WorkConflict},
		"accepted before, now invalid":       {outcome(order.OutcomeAccepted, "i1", mine), broken, WorkConflict},
		"rejected before: a correction":      {outcome(order.OutcomeRejected, "i1", "ff"), nil, WorkSubmit},
		"exhausted before":                   {outcome(order.OutcomeExhausted, "i1", mine), nil, WorkSubmit},
		"rejected before, now invalid":       {outcome(order.OutcomeRejected, "i1", mine), broken, WorkInvalid},
		"unknown before":                     {outcome(order.OutcomeUnknown, "i1", mine), nil, WorkWithheld},
		"unknown before, now invalid":        {outcome(order.OutcomeUnknown, "i1", mine), broken, WorkWithheld},
		"unknown before, a person allowed":   {outcome(order.OutcomeUnknown, "i1", mine, allowed), nil, WorkSubmit},
		"delayed, its time has not come":     {note(order.NoteDelayed, "i2", later), nil, WorkNotYet},
		"delayed, its time has come":         {note(order.NoteDelayed, "i2", earlier), nil, WorkSubmit},
		"delayed by an earlier intent":       {note(order.NoteDelayed, "i1", later), nil, WorkSubmit},
		"handed back":                        {note(order.NoteHandedBack, "i2"), nil, WorkSubmit},
		"an attempt may be under way":        {note(order.NoteAttempt, "i2", begun(59*time.Second)), nil, WorkClaimed},
		"an attempt was left":                {note(order.NoteAttempt, "i2", begun(61*time.Second)), nil, WorkSubmit},
		"an attempt of an earlier intent":    {note(order.NoteAttempt, "i1", begun(0)), nil, WorkSubmit},
		"its worker went down with it alone": {note(order.NoteSuspect, "i2"), nil, WorkSuspect},
		"a suspect of an earlier intent":     {note(order.NoteSuspect, "i1"), nil, WorkSubmit},
	} {
		t.Run(name, func(t *testing.T) {
			d := sorted(t, c.last, c.invalid)
			require.Equal(t, c.want.String(), q.sortOut(d, now).String())
			d.Unexplained = suspectAfter
			suspected := q.sortOut(d, now)
			if c.want == WorkSubmit || c.want == WorkInvalid {
				require.Equal(t, WorkSuspect, suspected)
			} else {
				require.Equal(t, c.want, suspected, "what sends nothing needs no suspicion")
			}
		})
	}
}

func TestR2OnlyACompleteBatchProvesAbsence(t *testing.T) {
	head := func(pairs ...string) nats.Header {
		h := nats.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for name, c := range map[string]struct {
		status string
		h      nats.Header
		done   bool
		err    error
	}{
		"nothing matches":          {"404", head("Description", "No Results"), true, nil},
		"a message did not load":   {"404", head("Description", "Message Not Found"), false, errIncomplete},
		"complete":                 {"204", head("Nats-Num-Pending", "0"), true, nil},
		"cut at the byte limit":    {"204", head("Nats-Num-Pending", "3"), false, errCut},
		"no stream answers":        {"503", head(), false, nats.ErrNoResponders},
		"too many results":         {"413", head(), false, errIncomplete},
		"end marker with no count": {"204", head(), false, errIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			done, err := endOfBatch(c.status, c.h)
			require.Equal(t, c.done, done)
			require.ErrorIs(t, err, c.err)
		})
	}
}

// R2: a record that cannot be read stops its own order, and no other one.
func TestR2AnUnreadableRecordHoldsItsOwnOrderOnly(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	for no, junk := range map[string]string{"A-1": "not JSON", "A-2": `{"order_no":"A-2","outcome":"teleported"}`} {
		_, err := q.js.Publish(t.Context(), q.n.resPre+no, []byte(junk))
		require.NoError(t, err)
	}
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"))
	for _, d := range pull(t, q, 3) {
		if d.OrderNo() == "A-3" {
			require.Equal(t, WorkSubmit, d.Work)
			continue
		}
		require.Equal(t, WorkNone, d.Work, "it may have been accepted: neither posted nor settled")
		require.ErrorIs(t, q.GiveUp(t.Context(), d), ErrUnreadable)
	}
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, c.Pending)
}

// R3: kill after the POST, before any note; the redelivery is in doubt.
func TestR3ADeliveryThatNoNoteExplainsIsDoubt(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	first := pull(t, q, 1)[0]
	require.False(t, first.History.Unsure)
	second := again(t, first, q)
	require.True(t, second.History.Unsure)
	require.Equal(t, 1, second.Unexplained)

	stored := settleAs(t, q, second, report(order.Duplicate, second.History))
	require.Equal(t, order.OutcomeAccepted, stored.Record.Outcome(), "the duplicate is our own first attempt")
}

// A shutdown, a closed gate or a failed check costs an order nothing.
func TestR3AnExplainedDeliveryIsNoDoubt(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	for range 3 {
		settleAs(t, q, d, order.Report{End: order.EndHandBack, History: d.History})
		d = pull(t, q, 1)[0]
		require.False(t, d.History.Unsure)
		require.Zero(t, d.Unexplained)
		require.Equal(t, WorkSubmit, d.Work)
	}
	require.NoError(t, q.GiveUp(t.Context(), d))
	d = again(t, d, q)
	require.EqualValues(t, 5, d.Delivered)
	require.False(t, d.History.Unsure)
	require.Zero(t, d.Unexplained)
}

// Doubt and suspicion outlive a delivery that was only given up.
func TestR3GivingUpExplainsOnlyItself(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := again(t, pull(t, q, 1)[0], q)
	require.NoError(t, q.GiveUp(t.Context(), d))
	d = again(t, d, q)
	require.True(t, d.History.Unsure)
	require.Equal(t, 1, d.Unexplained)
	d = again(t, d, q)
	require.Equal(t, WorkSuspect, d.Work)
}

// R6: the check fails for an intent whose order is unknown; the note that
// explains its delivery must not pass for leave to submit.
func TestR6GivingUpDoesNotHideAnUnknownOutcome(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Duplicate, d.History))
	requireDrained(t, q)
	publish(t, q, intent("A-1", "i2"))
	d = pull(t, q, 1)[0]
	require.Equal(t, WorkWithheld, d.Work)
	d.Work = WorkNone
	require.NoError(t, q.GiveUp(t.Context(), d))
	require.Equal(t, order.OutcomeUnknown, lookup(t, q, "A-1").Outcome())
	require.Equal(t, WorkWithheld, again(t, d, q).Work)
}

// R9: an order that comes back early keeps its time, and the early delivery
// costs nothing.
func TestR9AnEarlyRedeliveryWaitsForItsTime(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	r := order.Report{End: order.EndVisitBudget, Verdict: order.Retry, Delay: time.Millisecond, History: d.History}
	r.History.Attempts = 5
	entry := settleAs(t, q, d, r)
	note := *entry.Record
	note.NotBefore = time.Now().Add(time.Hour)
	_, err := q.writeRecord(t.Context(), d.token, entry, note)
	require.NoError(t, err)

	d = pull(t, q, 1)[0]
	require.Equal(t, WorkNotYet, d.Work)
	require.NoError(t, q.HandBack(t.Context(), d, 0))
	d = pull(t, q, 1)[0]
	require.Equal(t, WorkNotYet, d.Work)
	require.Equal(t, 5, d.History.Attempts)
	require.False(t, d.History.Unsure)
	require.Zero(t, d.Unexplained)
}

// R2: another worker's attempt is under way. Waiting for it neither closes its
// claim nor makes its own answer doubtful.
func TestR2AnOpenClaimIsLeftToItsOwner(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	owner := pull(t, a, 1)[0]
	h := owner.History
	h.Attempts, h.LastAttemptAt = 1, time.Now().UTC()
	first, err := a.NoteAttempt(t.Context(), owner, h)
	require.NoError(t, err)
	require.True(t, first, "confirmed before anybody else could have tried")

	waiting := again(t, owner, b)
	require.Equal(t, WorkClaimed, waiting.Work)
	require.NoError(t, b.HandBack(t.Context(), waiting, time.Hour))
	require.Equal(t, order.NoteAttempt, lookup(t, b, "A-1").Note)

	stored := settleAs(t, a, owner, report(order.Rejected, h))
	require.Equal(t, order.OutcomeRejected, stored.Record.Outcome())
}

// R8: from the third delivery that nothing explains, alone; and alone again
// each time, until its notes make it poison.
func TestR8ASuspectStaysAlone(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := again(t, again(t, pull(t, q, 1)[0], q), q)
	for n := 1; n <= 3; n++ {
		require.Equal(t, WorkSuspect, d.Work)
		require.NoError(t, q.NoteSuspect(t.Context(), d))
		d = again(t, d, q) // its worker went down
		require.Equal(t, n, d.History.Suspects)
	}
	settleAs(t, q, d, order.Report{End: order.EndHandBack, History: d.History})
	d = pull(t, q, 1)[0]
	require.Equal(t, WorkSubmit, d.Work, "it was brought to an end: its worker lives")
	require.Zero(t, d.History.Suspects)
	require.True(t, d.History.Unsure)
}

// An intent ID that JSON cannot carry is recognised nevertheless.
func TestR6AnyIntentIDIsRecognised(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	long := make([]byte, 5000)
	for i := range long {
		long[i] = 'x'
	}
	for no, id := range map[string]string{"A-1": "caf\xe9", "A-2": string(long), "A-3": ""} {
		publish(t, q, intent(no, id))
		d := pull(t, q, 1)[0]
		r := report(order.Rejected, d.History)
		_, err := q.writeRecord(t.Context(), d.token, d.Last, q.record(d, r, order.Decide(r, order.Facts{})))
		require.NoError(t, err)
		d = again(t, d, q)
		require.Equal(t, WorkSettled, d.Work, "%q", id)
		require.NoError(t, q.Complete(t.Context(), d))
		requireDrained(t, q)
	}
	requireBalanced(t, q)
}
