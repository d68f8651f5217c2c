package order

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// storedAt returns the position of an intent that was stored at a time. The broker's clock goes
// backwards: it decides nothing.
func storedAt(at time.Time) Position {
	return Position{EnqueuedAt: epoch.Add(epoch.Sub(at)), Seq: uint64(at.Unix())}
}

// ended is the record of an intent that was stored so many hours after epoch.
func ended(id, hash string, hours int, o Outcome) *Record {
	r := &Record{OrderNo: "A-1", IntentID: id, BodyHash: hash, Position: storedAt(epoch.Add(time.Duration(hours) * time.Hour)), WriteID: id,
		SettledAt: epoch.Add(time.Duration(hours)*time.Hour + time.Minute), Batch: "b-" + id}
	r.SetOutcome(o)
	return r
}

// TestR6AConflictIsListedBesideTheAcceptance: the record stays about the intent
// that was accepted, and names the other.
func TestR6AConflictIsListedBesideTheAcceptance(t *testing.T) {
	one := Merge(nil, ended("i1", "aa", 1, OutcomeAccepted))
	second := ended("i2", "bb", 2, OutcomeRejected)
	two := Merge(one, second)
	require.Equal(t, "i1", two.IntentID)
	require.Equal(t, OutcomeAccepted, two.Outcome())
	require.Equal(t, one.EnqueuedAt, two.EnqueuedAt)
	require.Equal(t, 2, two.Settled)
	require.Equal(t, []Conflict{{IntentID: "i2", BodyHash: "bb", Position: second.Position, Batch: "b-i2", RefusedAt: second.SettledAt}}, two.Conflicts)
	require.Nil(t, two.ConflictOf("i1"))
	require.Nil(t, Merge(two, second), "its redelivery changes nothing")

	again := ended("i2", "bb", 3, OutcomeRejected) // stored a second time
	three := Merge(two, again)
	require.Equal(t, 3, three.Settled)
	require.Len(t, three.Conflicts, 1)
	require.Nil(t, Merge(three, again))

	repeat := *three // asks for the accepted body, as settle.recordFor makes it
	repeat.IntentID, repeat.Position = "i4", storedAt(epoch.Add(4*time.Hour))
	four := Merge(three, &repeat)
	require.Equal(t, 4, four.Settled)
	require.NotNil(t, four.ConflictOf("i2"), "what was refused stays refused")
	require.Nil(t, four.ConflictOf("i4"))
}

// TestR11ARefusedIntentStoredAgainWithTheAcceptedBodyCountsOnce: a producer
// corrects the body and publishes it under the same ID, and the ack of the
// second intent is lost.
func TestR11ARefusedIntentStoredAgainWithTheAcceptedBodyCountsOnce(t *testing.T) {
	refused := Merge(Merge(nil, ended("i1", "aa", 1, OutcomeAccepted)), ended("i2", "", 2, OutcomeRejected))
	again := ended("i2", "aa", 3, OutcomeRejected)
	counted := Merge(refused, again)
	require.Equal(t, 3, counted.Settled)
	require.Equal(t, again.EnqueuedAt, counted.ConflictOf("i2").EnqueuedAt)
	require.Empty(t, counted.ConflictOf("i2").BodyHash, "what was refused")
	require.Nil(t, Merge(counted, again), "its redelivery is not counted again")
}

// TestR6ALateAcceptanceNamesWhatItRefuses: the older intent is the one that was
// accepted, and has its result back.
func TestR6ALateAcceptanceNamesWhatItRefuses(t *testing.T) {
	note := &Record{Word: Retrying, Note: NoteHandedBack, OrderNo: "A-1", IntentID: "i2", BodyHash: "bb", Position: storedAt(epoch.Add(2 * time.Hour)), Settled: 1}
	for name, newer := range map[string]*Record{"a note": note, "an outcome": Merge(Merge(nil, ended("i1", "aa", 1, OutcomeRejected)), ended("i2", "bb", 2, OutcomeRejected))} {
		raised := Merge(newer, ended("i1", "aa", 1, OutcomeAccepted))
		require.Equal(t, "i1", raised.IntentID, name)
		require.Equal(t, "b-i1", raised.Batch, name)
		require.Equal(t, 2, raised.Settled, name)
		require.NotNil(t, raised.ConflictOf("i2"), name)
		require.Nil(t, Merge(raised, ended("i2", "bb", 2, OutcomeRejected)), "%s: settled already", name)
	}
	same := Merge(note, ended("i1", "bb", 1, OutcomeAccepted))
	require.Equal(t, "i2", same.IntentID, "the same body is no conflict")
	require.Empty(t, same.Conflicts)
}

// TestR6AConflictIsOneOnlyWhileTheOtherBodyStands: once the order exists with
// the body that was refused, it is no conflict any more.
func TestR6AConflictIsOneOnlyWhileTheOtherBodyStands(t *testing.T) {
	doubt := ended("i1", "aa", 1, OutcomeUnknown)
	doubt.Unsure = true
	withheld := Merge(Merge(nil, doubt), ended("i2", "bb", 2, OutcomeRejected))
	require.Equal(t, []string{"i1", "aa", "unknown"}, []string{withheld.IntentID, withheld.BodyHash, withheld.Word}, "doubt is about a body")
	require.Equal(t, 2, withheld.Settled)
	require.True(t, withheld.Settles("i2"))
	require.Nil(t, withheld.ConflictOf("i2"), "nobody knows yet whether the order exists")

	proved := Merge(withheld, ended("i1", "aa", 1, OutcomeAccepted))
	require.Equal(t, "i1", proved.IntentID)
	require.Equal(t, "bb", proved.ConflictOf("i2").BodyHash)
	require.Equal(t, 2, proved.Settled)

	late := ended("i0", "bb", 0, OutcomeAccepted) // by a worker that was frozen
	require.Equal(t, "i2", Merge(withheld, late).IntentID, "it asked for what exists")
	require.NotNil(t, Merge(withheld, late).ConflictOf("i1"))
	require.Nil(t, Merge(withheld, late).ConflictOf("i2"))
	require.Equal(t, 2, Merge(withheld, late).Settled)
}

// A note about an intent that left the stream is doubt as well.
func TestR3AnOpenNoteOfAnotherBodyStaysInDoubt(t *testing.T) {
	note := &Record{Word: Retrying, Note: NoteAttempt, OrderNo: "A-1", IntentID: "i1", BodyHash: "aa", Position: storedAt(epoch.Add(time.Hour))}
	left := Merge(note, ended("i2", "bb", 2, OutcomeRejected))
	require.Equal(t, []string{"i1", "aa", "unknown"}, []string{left.IntentID, left.BodyHash, left.Word})
	require.True(t, left.Unsure)
	require.Equal(t, 1, left.Settled, "nobody settled i1")
	require.True(t, left.Settles("i2"))
}

func TestConflictsAreBounded(t *testing.T) {
	r := Merge(nil, ended("i0", "aa", 0, OutcomeAccepted))
	for i := 1; i <= 2*mostLetters; i++ {
		r = Merge(r, ended(fmt.Sprintf("i%d", i), "", i, OutcomeInvalid))
	}
	require.Len(t, r.Conflicts, mostLetters)
	require.NotNil(t, r.ConflictOf(fmt.Sprint("i", 2*mostLetters)))
	require.Equal(t, 2*mostLetters+1, r.Settled)
}
