package order

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// writers draws what writes the records of one order_no: workers, some of which are late, feeders and persons.
type writers struct {
	cur     *Record
	letters uint64   // the dead letters stored so far
	bodies  []string // of the intents stored so far
	at      []Position
	seq     uint64
	stamp   int64
}

var writerBodies = []string{"aa", "bb", ""}

// store stores another intent, or one of them again.
func (w *writers) store(t *rapid.T) {
	w.seq++
	at := Position{Seq: w.seq, EnqueuedAt: epoch.Add(time.Duration(w.seq) * time.Second)}
	if len(w.at) > 0 && rapid.IntRange(0, 4).Draw(t, "again") == 0 {
		w.at[w.intent(t)] = at
		return
	}
	w.at, w.bodies = append(w.at, at), append(w.bodies, rapid.SampledFrom(writerBodies).Draw(t, "body"))
}

// intent draws an intent, the last one more often than others.
func (w *writers) intent(t *rapid.T) int {
	return max(rapid.IntRange(0, len(w.at)-1).Draw(t, "intent"), rapid.IntRange(0, len(w.at)-1).Draw(t, "intent"))
}

func (w *writers) letter() uint64 { w.letters++; return w.letters }

// mine draws a record to merge.
func (w *writers) mine(t *rapid.T) *Record {
	i := w.intent(t)
	r := &Record{OrderNo: "A-1", IntentID: fmt.Sprint("i", i), BodyHash: w.bodies[i], Position: w.at[i], WriteID: fmt.Sprint("w", w.seq), SettledAt: w.at[i].EnqueuedAt}
	w.stamp++
	r.LastTimestamp, r.Delivered = w.stamp, uint64(rapid.IntRange(1, 3).Draw(t, "delivered"))
	switch kind := rapid.SampledFrom([]string{"note", "note", "accepted", "rejected", "rejected", "unknown", "cancelled", "withdrawn", "repeat"}).Draw(t, "kind"); kind {
	case "note":
		r.Word, r.Note, r.Unsure = Retrying, NoteKind(rapid.IntRange(int(NoteDelayed), int(NoteSuspect)).Draw(t, "note")), rapid.Bool().Draw(t, "unsure")
	case "accepted":
		r.SetOutcome(OutcomeAccepted)
		r.Verdict = rapid.SampledFrom([]Verdict{Accepted, Duplicate}).Draw(t, "verdict")
	case "rejected":
		r.SetOutcome(OutcomeRejected)
		r.Letter, r.Proven = w.letter(), rapid.Bool().Draw(t, "proven")
	case "unknown":
		r.SetOutcome(OutcomeUnknown)
		r.Letter, r.Unsure = w.letter(), true
	case "cancelled", "withdrawn":
		r.SetOutcome(OutcomeCancelled)
		r.By = "anna"
		if kind == "withdrawn" {
			r.Unqueued, r.Waited, r.LastTimestamp = true, true, 0
			if w.cur != nil {
				r.Position.Seq = w.cur.Last(0).Seq
			}
		}
	case "repeat": // of what the record says
		if w.cur.Outcome() != OutcomeAccepted || w.cur.BodyHash != r.BodyHash {
			r.Word, r.Note = Retrying, NoteHandedBack
			break
		}
		repeat := *w.cur
		repeat.IntentID, repeat.Position, repeat.WriteID = r.IntentID, r.Position, r.WriteID
		r = &repeat
	}
	return r
}

// next draws the record that replaces cur; nil = cur stays. merged is the record that was merged, if one was.
func (w *writers) next(t *rapid.T) (next, merged *Record) {
	if w.cur != nil {
		switch named := w.cur.Letters(); rapid.IntRange(0, 9).Draw(t, "act") {
		case 0:
			if w.cur.Outcome() == OutcomeUnknown {
				settled := *w.cur
				settled.SettledBy("anna", rapid.SampledFrom([]Outcome{OutcomeAccepted, OutcomeRejected}).Draw(t, "word"), epoch)
				return &settled, nil
			}
		case 1:
			if len(named) > 0 {
				return w.cur.WithoutLetter(rapid.SampledFrom(named).Draw(t, "dropped")), nil
			}
		case 3:
			if w.cur.Outcome() != OutcomeNone {
				return w.cur.Erased(), nil
			}
		case 2:
			for i := range w.at {
				if id := fmt.Sprint("i", i); w.cur.NeedsLetterOf(id) && w.cur.LetterOf(id) == 0 {
					return w.cur.WithLetter(id, w.letter()), nil
				}
			}
		}
	}
	if len(w.at) == 0 || rapid.IntRange(0, 2).Draw(t, "store") == 0 {
		w.store(t)
	}
	merged = w.mine(t)
	return Merge(w.cur, merged), merged
}

// R4: whatever is merged, a letter stays named until its intent has an end of another kind, and no letter that a record
// names no more is named again.
func TestR4WhichLettersAMergedRecordNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writers{}
		for range rapid.IntRange(1, 40).Draw(t, "writes") {
			before := w.letters
			next, mine := w.next(t)
			if next == nil {
				continue
			}
			named := next.Letters()
			slices.Sort(named)
			require.Equal(t, slices.Compact(slices.Clone(named)), named, "a letter is named twice")
			require.LessOrEqual(t, len(next.Conflicts), mostLetters)
			require.LessOrEqual(t, len(next.Earlier), maxEarlier)
			withLetter := 0
			for _, e := range next.Earlier {
				if e.Letter != 0 {
					withLetter++
				}
			}
			require.LessOrEqual(t, withLetter, 1)
			if withLetter == 1 {
				require.Zero(t, next.Letter, "its correction has one of its own")
			}
			for _, seq := range named {
				require.True(t, w.cur != nil && w.cur.Names(seq) || seq > before, "letter %d was named no more, and is named again", seq)
			}
			if w.cur != nil && mine != nil {
				keepsLetters(t, w.cur, next)
			}
			w.cur = next
		}
	})
}

// keepsLetters checks that next names the letters that cur names, unless it says what became of their intents.
func keepsLetters(t require.TestingT, cur, next *Record) {
	settled := next.Outcome() == OutcomeAccepted || next.Resolved() || next.Letter != 0 || next.Dropped
	for i := range cur.Conflicts {
		c := &cur.Conflicts[i]
		if c.Letter == 0 || next.Names(c.Letter) || settled && c.BodyHash == next.BodyHash || len(next.Conflicts) == mostLetters {
			continue
		}
		require.Fail(t, "the letter of a refused intent is named no more", "%+v\n%+v", cur, next)
	}
	if settled {
		return
	}
	for _, seq := range cur.Letters() {
		require.True(t, next.Names(seq), "letter %d is named no more, and its intent has no other end:\n%+v\n%+v", seq, cur, next)
	}
}

// failed is ended with a dead letter.
func failed(id, hash string, hours int, o Outcome, letter uint64) *Record {
	r := ended(id, hash, hours, o)
	r.Letter, r.Unsure = letter, o == OutcomeUnknown
	return r
}

// note is a note about an intent that was stored so many hours after epoch.
func note(id, hash string, hours int) *Record {
	r := ended(id, hash, hours, OutcomeNone)
	r.Note, r.Delivered, r.SettledAt = NoteAttempt, 1, time.Time{}
	return r
}

// R4: a correction takes the place of the failure when it has an outcome, and not before.
func TestR4AFailureStaysNamedUntilItsCorrectionHasAnOutcome(t *testing.T) {
	first := failed("i1", "aa", 1, OutcomeRejected, 7)
	under := Merge(first, note("i2", "bb", 2))
	require.Equal(t, []uint64{7}, under.Letters())
	require.Zero(t, under.LetterOf("i2"))
	require.Equal(t, "i1", under.EarlierWith(7).IntentID)
	cancelled := Merge(under, ended("i2", "bb", 2, OutcomeCancelled))
	require.Equal(t, []uint64{7}, cancelled.Letters())
	again := Merge(cancelled, note("i3", "aa", 3))
	require.Equal(t, []uint64{7}, again.Letters())
	for o, letters := range map[Outcome][]uint64{OutcomeAccepted: nil, OutcomeRejected: {8}, OutcomeUnknown: {8}, OutcomeCancelled: {7}} {
		end := ended("i3", "aa", 3, o)
		if o.NeedsLetter() {
			end.Letter = 8
		}
		next := Merge(again, end)
		require.Equal(t, letters, next.Letters(), "%s", o)
		require.Equal(t, "i2", next.Earlier[0].IntentID, "what is named no more is remembered")
	}
	require.Nil(t, Merge(first, failed("i1", "aa", 1, OutcomeRejected, 9)), "the first letter stays")
	raised := Merge(first, failed("i1", "aa", 1, OutcomeUnknown, 9))
	require.Equal(t, []uint64{9}, raised.Letters())
	unfiled := failed("i1", "aa", 1, OutcomeUnknown, 0)
	require.Equal(t, []uint64{7}, Merge(first, unfiled).Letters(), "the body is the same")
}

// R3, R4: a withdrawal leaves the doubt about the intent before it, and with it that one's letter.
func TestR4AWithdrawalInDoubtKeepsTheLetter(t *testing.T) {
	first := failed("i1", "aa", 1, OutcomeUnknown, 7)
	withdrawn := ended("i2", "aa", 1, OutcomeCancelled)
	withdrawn.By, withdrawn.Unqueued = "anna", true
	next := Merge(first, withdrawn)
	require.Equal(t, OutcomeUnknown, next.Outcome())
	require.Equal(t, []uint64{7}, next.Letters())
	settled := *next
	settled.SettledBy("anna", OutcomeRejected, epoch)
	require.Empty(t, settled.Letters())
}

// R3, R4: a replay left the queue without an outcome, and another body is refused for its doubt.
func TestR4AReplayThatIsLostKeepsTheLetter(t *testing.T) {
	posted := note("replay:7", "aa", 2)
	posted.Unsure = true
	first := failed("i1", "aa", 1, OutcomeUnknown, 7)
	first.AllowedFor = "replay:7"
	under := Merge(first, posted)
	require.Equal(t, []uint64{7}, under.Letters())
	next := Merge(under, failed("i3", "bb", 3, OutcomeRejected, 8))
	require.Equal(t, OutcomeUnknown, next.Outcome())
	require.ElementsMatch(t, []uint64{7, 8}, next.Letters())
	filed := next.WithLetter(next.IntentID, 9)
	require.ElementsMatch(t, []uint64{8, 9}, filed.Letters())
	require.ElementsMatch(t, []uint64{7, 8}, next.Letters(), "the argument stays as it is")
}

// A person's word is about the intent in doubt. Those that were withheld for it keep their letters.
func TestAWordKeepsTheLettersOfWithheldIntents(t *testing.T) {
	r := Merge(failed("i1", "aa", 1, OutcomeUnknown, 7), failed("i2", "bb", 2, OutcomeRejected, 8))
	require.ElementsMatch(t, []uint64{7, 8}, r.Letters())
	for _, o := range []Outcome{OutcomeAccepted, OutcomeRejected} {
		settled := *r
		settled.SettledBy("anna", o, epoch)
		require.Equal(t, []uint64{8}, settled.Letters())
		replayed := Merge(&settled, note("replay:8", "bb", 3))
		if o == OutcomeAccepted {
			require.Nil(t, replayed)
			continue
		}
		require.Equal(t, []uint64{8}, replayed.Letters(), "its replay is under way")
		require.Equal(t, []uint64{8}, Merge(replayed, ended("replay:8", "bb", 3, OutcomeCancelled)).Letters())
		require.Empty(t, Merge(replayed, ended("replay:8", "bb", 3, OutcomeAccepted)).Letters())
		end := Merge(replayed, failed("replay:8", "bb", 3, OutcomeRejected, 9))
		require.Equal(t, []uint64{9}, end.Letters())
		require.Empty(t, end.Conflicts)
	}
}

// A late acceptance lists an intent that is pending, or failed with another body.
func TestR4ALateAcceptanceListsTheLetter(t *testing.T) {
	late := ended("i1", "aa", 1, OutcomeAccepted)
	late.Verdict = Accepted
	next := Merge(failed("i2", "bb", 2, OutcomeRejected, 8), late)
	require.Equal(t, []uint64{8}, next.Letters())
	require.EqualValues(t, 8, next.LetterOf("i2"))
	require.EqualValues(t, 8, next.Refused(8).Letter)
	require.Nil(t, next.Refused(7))
	require.Zero(t, next.EarlierWith(8))

	pending := Merge(note("i2", "bb", 2), late)
	require.Empty(t, pending.Letters())
	require.True(t, pending.NeedsLetterOf("i2"), "its delivery stores it")
	require.False(t, pending.NeedsLetterOf("i1"))
	require.Equal(t, []uint64{8}, pending.WithLetter("i2", 8).Letters())
	require.Empty(t, pending.Letters(), "the argument stays as it is")
	require.Nil(t, Merge(pending, failed("i2", "bb", 2, OutcomeRejected, 9)), "its late worker's outcome counts no more")

	dropped := failed("i2", "bb", 2, OutcomeRejected, 8).WithoutLetter(8)
	require.True(t, dropped.Dropped)
	next = Merge(dropped, late)
	require.False(t, next.NeedsLetterOf("i2"), "a person dropped it")
	require.Empty(t, next.Letters())
	said := failed("i2", "bb", 2, OutcomeUnknown, 8)
	said.SettledBy("anna", OutcomeAccepted, epoch)
	require.False(t, Merge(said, late).NeedsLetterOf("i2"), "a person settled it")
}

// A letter that a person dropped is not owed any more, wherever the record named it.
func TestWithoutLetter(t *testing.T) {
	r := Merge(failed("i1", "aa", 1, OutcomeUnknown, 7), failed("i2", "bb", 2, OutcomeRejected, 8))
	own, listed := r.WithoutLetter(7), r.WithoutLetter(8)
	require.Equal(t, []uint64{8}, own.Letters())
	require.False(t, own.NeedsLetterOf("i1"))
	require.True(t, own.NeedsLetterOf("i2"))
	require.Equal(t, []uint64{7}, listed.Letters())
	require.False(t, listed.NeedsLetterOf("i2"))
	require.ElementsMatch(t, []uint64{7, 8}, r.Letters(), "the argument stays as it is")
	require.ElementsMatch(t, []uint64{7, 8}, r.WithoutLetter(9).Letters())
	again := failed("i2", "bb", 3, OutcomeRejected, 9) // stored a second time
	require.False(t, Merge(listed, again).NeedsLetterOf("i2"))
	require.Equal(t, []uint64{7}, Merge(listed, again).Letters())

	under := Merge(failed("i1", "aa", 1, OutcomeRejected, 7), note("i2", "bb", 2)).WithoutLetter(7)
	require.Empty(t, under.Letters())
	require.False(t, under.Dropped, "the correction's letter is owed")
	var none *Record
	require.Empty(t, none.Letters())
	require.False(t, none.Names(7))
	require.Zero(t, none.LetterOf("i1"))
	require.False(t, none.NeedsLetterOf("i1"))
}

// Ten conflicts and ten earlier outcomes are kept, and up to a hundred conflicts that have letters.
func TestLettersAtTheLimits(t *testing.T) {
	r := failed("i0", "aa", 1, OutcomeUnknown, 100)
	for i := range uint64(maxConflicts) {
		r = Merge(r, failed(fmt.Sprint("c", i), "bb", int(2+i), OutcomeRejected, 101+i))
	}
	require.Len(t, r.Letters(), 1+maxConflicts)
	next := Merge(r.WithoutLetter(103), failed("c10", "bb", 20, OutcomeRejected, 111))
	require.Len(t, next.Conflicts, maxConflicts)
	require.Nil(t, next.Listed("c2"))
	require.Len(t, next.Letters(), 1+maxConflicts)
	for i := uint64(maxConflicts); i <= mostLetters; i++ {
		require.True(t, r.Names(101))
		r = Merge(r, failed(fmt.Sprint("c", i), "bb", int(20+i), OutcomeRejected, 101+i))
	}
	require.False(t, r.Names(101), "the oldest")
	require.Len(t, r.Conflicts, mostLetters)

	r = failed("i0", "aa", 1, OutcomeRejected, 100)
	for i := range 3 * maxEarlier {
		id := fmt.Sprint("i", i+1)
		r = Merge(Merge(r, note(id, "bb", 2+i)), ended(id, "bb", 2+i, OutcomeCancelled))
		require.Equal(t, []uint64{100}, r.Letters())
	}
	require.Len(t, r.Earlier, maxEarlier)
	require.Equal(t, "i0", r.Earlier[maxEarlier-1].IntentID)
}
