package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/deadletter"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// TestADroppedLetterSettlesNothing: dropping a letter writes the record again. The
// order was settled once, and is counted once, whether the console saw that or
// started later.
func TestADroppedLetterSettlesNothing(t *testing.T) {
	r := newRig(t)
	r.settles("B-1", answered(order.Rejected, 422, "rule 2", ""))
	early := newMinutes(r.worker)
	count := func(m *minutes) (n int) {
		require.NoError(t, m.follow(t.Context(), time.Now()))
		list, _ := m.last(time.Now())
		for _, one := range list {
			n += one.Total()
		}
		return n
	}
	require.Equal(t, 1, count(early))
	var letters []*settle.Letter
	require.NoError(t, deadletter.EachLetter(t.Context(), r.worker, func(l *settle.Letter) error { letters = append(letters, l); return nil }))
	require.Len(t, letters, 1)
	gone, err := r.worker.Operator.Drop(t.Context(), letters[0], settle.Person{Name: "anna"})
	require.NoError(t, err)
	require.False(t, gone)
	require.Equal(t, 1, count(early), "the rewritten record counted as settled again")
	require.Equal(t, 1, count(newMinutes(r.worker)), "a console that starts later does not know the order")
}

// What was settled while the broker's clock was ahead takes no place from what is settled
// once it is right.
func TestAMinuteOfAClockThatWasAhead(t *testing.T) {
	m := newMinutes(nil)
	now := time.Now()
	settled := func(at time.Time) *settle.Message {
		return &settle.Message{Time: at, Header: settle.Header{settle.HeaderOutcome: {order.OutcomeAccepted.String()}}}
	}
	m.take([]*settle.Message{settled(now.Add(10 * hour * time.Minute)), settled(now), settled(now)}, time.Time{})
	list, _ := m.last(now)
	require.Equal(t, 2, list[hour-1].Total())
}

// An import whose program stopped while its clock was ahead does not seem to run until then.
func TestAnImportOfAClockThatWasAheadIsInterrupted(t *testing.T) {
	r := newRig(t)
	word := func(updated time.Time) string {
		line, _ := lineOf(&visit{s: r.Server}, &imports.Import{Batch: "march", Rows: 5, Done: 2, UpdatedAt: updated})
		return line.Word
	}
	require.Equal(t, "running", word(time.Now()))
	require.Equal(t, "interrupted", word(time.Now().Add(time.Hour)))
	require.Equal(t, "interrupted", word(time.Now().Add(-time.Hour)))
}
