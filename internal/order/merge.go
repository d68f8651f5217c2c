package order

import (
	"cmp"
	"time"
)

// Merge returns the record to write for mine if the stream already holds cur (R1).
// It returns nil if cur stays as it is. It changes neither argument.
//
// Two records about one intent are ranked, highest first: accepted by the API, an outcome
// set by a person, unknown, any other outcome, a note. A cancellation is an other outcome:
// it says that no worker tried, and a worker knows better. The higher rank wins. Of two
// outcomes of equal rank, cur stays. Of two notes, that of the later delivery wins
// and keeps what both know. A cancellation that knew of the attempt in doubt has judged it,
// and one of an intent that was stored again is none of the former copy: that one was
// settled, with the doubt that its worker reports late.
//
// A record about an older intent changes cur only by raising it to accepted. Doubt
// is carried over: an outcome that claims "not created" becomes unknown if cur is
// in doubt. An intent whose body differs from the one that exists, or may exist, is listed as
// a conflict, and the record is about it if its body turns out to be the accepted one.
func Merge(cur, mine *Record) *Record {
	next := mergeWords(cur, mine)
	if next != nil && cur != nil {
		next.Interventions, next.Earlier = cur.Interventions, cur.earlier(next)
		next.Conflicts = next.joinConflicts(cur.Conflicts, next.Conflicts)
		next.confirmLast(cur, mine.Birth)
		next.Moved = movedBefore(cur, next)
	}
	return next
}

func mergeWords(cur, mine *Record) *Record {
	out := *mine
	switch {
	case cur == nil:
		out.Settled = settledCount(nil, mine)
		return &out
	case cur.IntentID == mine.IntentID:
		return mergeSame(cur, out)
	case cur.Listed(mine.IntentID) != nil:
		if mine.Verdict == Accepted { // it says which body exists, and cur may have it from a person, or concluded it
			if raised := mergeOlder(cur, mine); raised != nil {
				return raised
			}
		}
		return mergeRefused(cur, mine)
	case !mine.follows(cur, mine.Birth), cur.passed(mine):
		return mergeOlder(cur, mine)
	default:
		return mergeNewer(cur, out)
	}
}

// corrects notes in r, which replaces cur, the outcome that cur gave.
func (r *Record) corrects(cur *Record) {
	switch {
	case cur.Outcome() == OutcomeNone:
	case cur.Word == r.Word:
		r.Was = cur.Was
	default:
		r.Was = cur.Word
	}
}

// follows reports whether r is about a copy that came after that of other.
func (r *Record) follows(other *Record, present int64) bool {
	return r.After(other.Position, present) || r.withdrawnAfter(other.Position)
}

// withdrawnAfter reports whether r is the withdrawal that came directly after a copy: it has its sequence.
func (r *Record) withdrawnAfter(copied Position) bool {
	return r.Unqueued && r.Birth == copied.Birth && r.Seq == copied.Seq
}

// Passed reports whether the record names a copy that was stored after this one, or a withdrawal that came
// after it. present is the birth of the stream as it is now.
func (r *Record) Passed(copied Position, present int64) bool {
	return r != nil && (r.Last(present).After(copied, present) || r.withdrawnAfter(copied))
}

// passed reports whether mine is a late acceptance, and r lists a later intent: mine was
// counted before that one was stored (R11).
func (r *Record) passed(mine *Record) bool {
	return r.Outcome() == OutcomeAccepted && mine.Outcome() == OutcomeAccepted && r.Last(mine.Birth).After(mine.Position, mine.Birth)
}

func mergeSame(cur *Record, out Record) *Record {
	curRank, outRank := rank(cur), rank(&out)
	switch {
	case curRank == rankNote && outRank == rankNote:
		return mergeNotes(cur, out)
	case outRank > curRank:
		out.Settled = settledCount(cur, &out)
		if curRank == rankNote {
			out.carryDoubt(cur)
		}
		out.corrects(cur)
		unsure := out.Unsure
		out.History = joinHistory(cur.History, out.History)
		out.Unsure = unsure
		if cur.After(out.Position, out.Birth) {
			out.Position = cur.Position
		}
		if out.Letter == 0 && out.NeedsLetter() {
			out.Letter = cur.Letter
		}
		return &out
	case (cur.Outcome() == OutcomeCancelled || cur.Proven && cur.ClaimsNotCreated()) && out.Unsure && out.doubtsAnew() && !cur.knowsAttempt(&out) && !cur.follows(&out, out.Birth): // its worker knows better
		doubtful := *cur
		doubtful.History = joinHistory(cur.History, out.History)
		doubtful.TakeBack(out.BodyHash)
		doubtful.corrects(cur)
		doubtful.WriteID, doubtful.Verdict, doubtful.Status = out.WriteID, out.Verdict, out.Status
		doubtful.Letter = cmp.Or(out.Letter, cur.Letter)
		return &doubtful
	case outRank > rankNote && out.After(cur.Position, out.Birth) && !out.Unqueued:
		kept := *cur // the broker stored the settled intent a second time: only count it
		kept.Unqueued = false
		kept.Position, kept.WriteID, kept.Settled = out.Position, out.WriteID, cur.Settled+1
		return &kept
	default:
		return nil
	}
}

// mergeNotes merges two notes about one intent.
//
// A late owner must not undo its successor's claim, delay or suspicion, but its
// attempts still count. A note with the same delivery number may belong to another
// delivery: the broker restarted and its counter began again. If ours replaced it,
// ours would look like the end of that delivery.
func mergeNotes(cur *Record, out Record) *Record {
	if cur.Delivered > out.Delivered || cur.Delivered == out.Delivered && !cur.SameDelivery(&out) {
		kept := *cur
		kept.History = joinHistory(cur.History, out.History)
		if kept.AbsentAt = cur.AbsentAt; !cur.knowsAttempt(&out) {
			kept.AbsentAt = time.Time{} // that one may have created it since
		}
		if out.doubtsAnew() {
			kept.AllowedFor = "" // the permission does not cover this new doubt
		}
		if kept.History == cur.History && kept.AllowedFor == cur.AllowedFor {
			return nil
		}
		kept.WriteID = out.WriteID
		return &kept
	}
	left, own := cur.History, out.History
	left.Unsure = doubtLeft(cur, &out)
	own.Unsure, own.DoubtReason, own.Recalled = joinDoubt(left, own)
	if !left.Unsure && !own.Unsure {
		own.Recalled.Only = out.Recalled.Only // what it judged, it judged for the next owner as well
	}
	out.History = joinHistory(cur.History, own)
	out.Unsure, out.DoubtReason, out.Recalled, out.Suspects, out.Lost = own.Unsure, own.DoubtReason, own.Recalled, own.Suspects, own.Lost // the later owner has the last word
	out.inheritPermission(cur)
	out.Settled = cur.Settled
	return &out
}

// mergeRefused merges a record about an intent that is listed as a conflict. It
// stays one. If the broker stored the intent a second time, it is counted
// again, and nobody judges its body: with the accepted body it would be no
// conflict, its entry would go, and each redelivery would count once more.
func mergeRefused(cur, mine *Record) *Record {
	again := *cur.Listed(mine.IntentID)
	if mine.Outcome() == OutcomeNone || !mine.After(again.Position, mine.Birth) {
		return nil
	}
	again.Position = mine.Position
	kept := *cur
	kept.Conflicts = kept.joinConflicts(cur.Conflicts, []Conflict{again})
	kept.WriteID, kept.Settled = mine.WriteID, cur.Settled+1
	return &kept
}

// reasonEarlier is the Reason of an acceptance that came late, after a later intent had got the
// record. The record may go on naming that one: it asks for the body that exists.
const reasonEarlier = "accepted by an attempt for an earlier intent of this order_no"

// mergeOlder lets a late writer raise the record of a newer intent to accepted. The
// order exists, whatever the newer intent found. The accepted body is the older
// intent's. A newer intent with another body therefore becomes a conflict, and the
// record is about the older intent again.
func mergeOlder(cur, mine *Record) *Record {
	if mine.Outcome() != OutcomeAccepted || cur.Outcome() == OutcomeAccepted && (cur.By == "" || mine.By != "") && !cur.yields(mine) {
		return nil
	}
	raised := *cur
	if cur.Outcome() == OutcomeNone {
		raised.Settled++ // this settles the newer intent, too
	}
	raised.SetOutcome(OutcomeAccepted)
	raised.corrects(cur)
	raised.Unsure, raised.By, raised.AllowedFor, raised.Proven, raised.Dropped, raised.Letter = false, "", "", false, false, 0
	raised.Verdict, raised.Status, raised.Response, raised.Said = mine.Verdict, mine.Status, mine.Response, mine.Said
	raised.API = mine.API
	raised.Reason, raised.Error = reasonEarlier, ""
	raised.SettledAt, raised.WriteID, raised.BodyHash = mine.SettledAt, mine.WriteID, mine.BodyHash
	if cur.BodyHash != mine.BodyHash {
		refused := *cur
		refused.SettledAt, refused.Dropped = mine.SettledAt, cur.Dropped || cur.By != ""
		raised.Refuse(&refused)
		raised.IntentID, raised.Position, raised.Batch, raised.Source = mine.IntentID, mine.Position, mine.Batch, mine.Source
		raised.Waited, raised.Unqueued = mine.Waited, mine.Unqueued
	}
	raised.Conflicts = raised.joinConflicts(raised.Conflicts, mine.Conflicts)
	return &raised
}

// yields reports whether the acceptance r was concluded from a duplicate answer, and the
// API answered mine itself: only that says which body it has.
func (r *Record) yields(mine *Record) bool {
	return r.Verdict == Duplicate && mine.Verdict.Created() && mine.By == "" && r.BodyHash != mine.BodyHash
}

// mergeNewer replaces the record of an older intent, with three exceptions. An
// acceptance stays true for the order_no. Doubt about a body outlives an intent with another
// one, which was not sent (R3). And a note must not hide an unknown
// outcome unless a person allowed the next intent: other workers would read the
// note as permission to submit (R6).
func mergeNewer(cur *Record, out Record) *Record {
	outcome := cur.Outcome()
	if out.Outcome() == OutcomeNone {
		if outcome == OutcomeAccepted || cur.Doubtful() && !cur.Allows(out.IntentID) && (outcome != OutcomeNone || out.BodyHash != cur.BodyHash) {
			return nil
		}
		out.Settled = cur.Settled
		if doubtLeft(cur, &out) {
			out.Unsure, out.DoubtReason, out.Recalled = joinDoubt(cur.History, out.History)
		}
		out.inheritPermission(cur)
		out.LastTimestamp = LaterTimestamp(out.LastTimestamp, cur.LastTimestamp)
		return &out
	}
	out.Settled = settledCount(cur, &out)
	switch {
	case outcome == OutcomeAccepted && out.Outcome() != OutcomeAccepted && out.BodyHash != "" && out.BodyHash == cur.BodyHash:
		kept := *cur
		kept.WriteID, kept.Settled = out.WriteID, out.Settled
		kept.IntentID, kept.Position, kept.Waited, kept.Unqueued = out.IntentID, out.Position, out.Waited, out.Unqueued
		return &kept
	case outcome == OutcomeAccepted && out.Outcome() != OutcomeAccepted, out.ClaimsNotCreated() && out.BodyHash != cur.BodyHash && (doubtLeft(cur, &out) || cur.Open()):
		kept := *cur // the body that exists, or may, is the other one
		kept.WriteID, kept.Settled = out.WriteID, out.Settled
		if outcome == OutcomeNone {
			kept.LeftOpen(out.SettledAt)
		}
		kept.Refuse(&out)
		return &kept
	}
	out.carryDoubt(cur)
	out.LastTimestamp = LaterTimestamp(out.LastTimestamp, cur.LastTimestamp) // a cancellation knows none
	return &out
}

// carryDoubt changes an outcome that claims "not created" to unknown if cur is in
// doubt (R3).
func (r *Record) carryDoubt(cur *Record) {
	if r.ClaimsNotCreated() && doubtLeft(cur, r) {
		r.SetOutcome(OutcomeUnknown)
		r.Unsure, r.DoubtReason, r.Recalled = joinDoubt(cur.History, r.History)
	}
}

// doubtLeft reports whether cur is in doubt, out does not prove that no order exists, and
// out did not judge again what the doubt is about. A proof covers only the attempts that its
// writer knew: the timestamps of one order's attempts only rise (R3).
func doubtLeft(cur, out *Record) bool {
	return cur.Unsure && (!out.Proven || !out.knowsAttempt(cur)) && !cur.judged(out)
}

// The ranks of R1, lowest first.
const (
	rankNote = iota + 1
	rankOther
	rankUnknown
	rankPerson
	rankAccepted
)

func rank(r *Record) int {
	switch o := r.Outcome(); {
	case o == OutcomeAccepted && r.By == "":
		return rankAccepted
	case o != OutcomeNone && o != OutcomeCancelled && r.By != "":
		return rankPerson
	case o == OutcomeUnknown:
		return rankUnknown
	case o != OutcomeNone:
		return rankOther
	default:
		return rankNote
	}
}

// ClaimsNotCreated reports whether the outcome says that no order exists at the API.
func (r *Record) ClaimsNotCreated() bool { return r.Outcome().Created() == "no" }

// knowsAttempt reports whether the last attempt of late is not later than those that r
// knows: no two attempts of an order share a timestamp (R3).
func (r *Record) knowsAttempt(late *Record) bool {
	return LaterTimestamp(r.LastTimestamp, late.LastTimestamp) == r.LastTimestamp
}

// settledCount returns how many stored intents of this order_no have an outcome
// once next replaces cur (R11).
func settledCount(cur, next *Record) int {
	n := 0
	if cur != nil {
		n = cur.Settled
	}
	already := cur != nil && cur.Outcome() != OutcomeNone && cur.IntentID == next.IntentID && !next.After(cur.Position, next.Birth)
	if next.Outcome() != OutcomeNone && !already && !next.Unqueued {
		n++
	}
	return n
}

// joinHistory merges the histories of two records about one intent, written by
// owners that did not know of each other. It keeps the larger counts and all doubt.
func joinHistory(a, b History) History {
	out := b
	out.Attempts = max(a.Attempts, b.Attempts)
	out.Unsure, out.DoubtReason, out.Recalled = joinDoubt(a, b)
	if out.LastTimestamp = LaterTimestamp(a.LastTimestamp, b.LastTimestamp); out.LastTimestamp != b.LastTimestamp {
		out.AbsentAt = time.Time{} // it was looked for before an attempt of the other owner
	}
	out.GateWaitMS = max(a.GateWaitMS, b.GateWaitMS)
	out.Suspects = max(a.Suspects, b.Suspects)
	out.Lost = max(a.Lost, b.Lost)
	if b.FirstAttemptAt.IsZero() || !a.FirstAttemptAt.IsZero() && a.FirstAttemptAt.Before(b.FirstAttemptAt) {
		out.FirstAttemptAt = a.FirstAttemptAt
	}
	if a.LastAttemptAt.After(b.LastAttemptAt) {
		out.LastAttemptAt = a.LastAttemptAt
	}
	return out
}
