package settle

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// known returns a delivery of intent i2 with the given record.
func known(t *testing.T, last *order.Record, invalid error) *Delivery {
	t.Helper()
	parsed, err := order.Parse([]byte(`{"order_no":"A-1","timeout":30,"qty":"1"}`))
	require.NoError(t, err)
	return &Delivery{Intent: Intent{ID: "i2", OrderNo: "A-1"}, Order: parsed, Invalid: invalid, Last: Entry{Record: last}, Delivered: 1, counted: 1}
}

// The table of R2 and R6: the record against the delivered intent.
func TestR6TheLastWordSaysWhatIsToBeDone(t *testing.T) {
	now := time.Now()
	w := &Worker{ledger: &Ledger{cfg: Config{AttemptTimeout: time.Minute, LongestDelay: time.Minute}}}
	mine := known(t, nil, nil).Order.BodyHash()
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
	allowed := func(r *order.Record) { r.AllowedFor = "i2" }
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
		"nothing known":                         {nil, nil, WorkSubmit},
		"nothing known, invalid":                {nil, broken, WorkInvalid},
		"this intent accepted":                  {outcome(order.OutcomeAccepted, "i2", mine), nil, WorkSettled},
		"this intent rejected":                  {outcome(order.OutcomeRejected, "i2", mine), nil, WorkSettled},
		"this intent unknown":                   {outcome(order.OutcomeUnknown, "i2", mine), nil, WorkSettled},
		"this intent invalid":                   {outcome(order.OutcomeInvalid, "i2", ""), broken, WorkSettled},
		"accepted before, same body":            {outcome(order.OutcomeAccepted, "i1", mine), nil, WorkRepeat},
		"accepted before, other body":           {outcome(order.OutcomeAccepted, "i1", "ff"), nil, WorkConflict},
		"accepted before, now invalid":          {outcome(order.OutcomeAccepted, "i1", mine), broken, WorkConflict},
		"rejected before: a correction":         {outcome(order.OutcomeRejected, "i1", "ff"), nil, WorkSubmit},
		"exhausted before":                      {outcome(order.OutcomeExhausted, "i1", mine), nil, WorkSubmit},
		"rejected before, now invalid":          {outcome(order.OutcomeRejected, "i1", mine), broken, WorkInvalid},
		"unknown before":                        {outcome(order.OutcomeUnknown, "i1", mine), nil, WorkWithheld},
		"unknown before, now invalid":           {outcome(order.OutcomeUnknown, "i1", mine), broken, WorkWithheld},
		"unknown before, a person allowed":      {outcome(order.OutcomeUnknown, "i1", mine, allowed), nil, WorkSubmit},
		"unknown before, another body, allowed": {outcome(order.OutcomeUnknown, "i1", "ff", allowed), nil, WorkWithheld},
		"delayed, its time has not come":        {note(order.NoteDelayed, "i2", later), nil, WorkNotYet},
		"delayed, its time has come":            {note(order.NoteDelayed, "i2", earlier), nil, WorkSubmit},
		"delayed by an earlier intent":          {note(order.NoteDelayed, "i1", later), nil, WorkSubmit},
		"handed back":                           {note(order.NoteHandedBack, "i2"), nil, WorkSubmit},
		"an attempt may be under way":           {note(order.NoteAttempt, "i2", begun(59*time.Second)), nil, WorkClaimed},
		"an attempt was left":                   {note(order.NoteAttempt, "i2", begun(61*time.Second)), nil, WorkSubmit},
		"an attempt of an earlier intent":       {note(order.NoteAttempt, "i1", begun(0)), nil, WorkWithheld},
		"its worker went down with it alone":    {note(order.NoteSuspect, "i2"), nil, WorkSuspect},
		"a suspect of an earlier intent":        {note(order.NoteSuspect, "i1"), nil, WorkWithheld},
	} {
		t.Run(name, func(t *testing.T) {
			d := known(t, c.last, c.invalid)
			require.Equal(t, c.want.String(), w.classify(d, now).String())
			d.Unexplained = suspectAfter
			suspected := w.classify(d, now)
			if c.want == WorkSubmit || c.want == WorkInvalid {
				require.Equal(t, WorkSuspect, suspected)
			} else {
				require.Equal(t, c.want, suspected, "what sends nothing needs no suspicion")
			}
		})
	}
}
