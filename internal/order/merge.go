package order

// Merge says what the last word on an order_no must be when mine is to be
// written although cur is there (protocol R1). It returns nil where cur
// stands as it is. Neither argument is changed.
//
// Within one intent accepted beats a person's word, which beats unknown, which
// beats every other outcome (of those the first one stays), which beats notes;
// of two notes the one of the later delivery stays, with what both know. A
// record about an older intent may only raise the word to accepted. Doubt is
// carried over: an outcome that claims "not created" over a doubtful record
// becomes unknown. An intent with another body than the one that was accepted
// ends as a conflict, beside the acceptance.
func Merge(cur, mine *Record) *Record {
	next := mergeWords(cur, mine)
	if next != nil && cur != nil {
		next.Interventions = cur.Interventions
		next.Conflicts = joinConflicts(next.BodyHash, cur.Conflicts, next.Conflicts)
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
	case cur.ConflictOf(mine.IntentID) != nil:
		return mergeRefused(cur, mine)
	case mine.EnqueuedAt.Before(cur.EnqueuedAt):
		return mergeOlder(cur, mine)
	default:
		return mergeNewer(cur, out)
	}
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
		unsure := out.Unsure
		out.History = joinHistory(cur.History, out.History)
		out.Unsure = unsure
		if storedAgain(&out, cur) {
			out.EnqueuedAt = cur.EnqueuedAt
		}
		return &out
	case outRank > rankNote && storedAgain(cur, &out):
		kept := *cur // the same submission, stored a second time: counted, not judged anew
		kept.EnqueuedAt, kept.WriteID, kept.Settled = out.EnqueuedAt, out.WriteID, cur.Settled+1
		return &kept
	default:
		return nil
	}
}

// mergeNotes: an owner who comes late must not undo its successor's claim,
// delay or suspicion; what it knows of attempts counts nevertheless. A note of
// another worker under the same delivery number is about another delivery,
// since the broker was killed and counted anew: ours would pass for the end of
// what that one has begun.
func mergeNotes(cur *Record, out Record) *Record {
	if cur.Delivered > out.Delivered || cur.Delivered == out.Delivered && cur.Worker != out.Worker {
		kept := *cur
		kept.History = joinHistory(cur.History, out.History)
		if out.Verdict == Unsure {
			kept.Allowed, kept.AllowedFor = false, "" // nobody has allowed this doubt
		}
		if kept.History == cur.History && kept.Allowed == cur.Allowed {
			return nil
		}
		kept.WriteID = out.WriteID
		return &kept
	}
	own := out.History
	own.Unsure = own.Unsure || doubtLeft(cur, &out)
	out.History = joinHistory(cur.History, own)
	out.Unsure, out.Suspects, out.Lost = own.Unsure, own.Suspects, own.Lost // the later owner has the last word
	out.inheritPermission(cur)
	out.Settled = cur.Settled
	return &out
}

// mergeRefused: mine is about an intent that ended as a conflict. That stays,
// but where the broker stored the intent a second time, it is counted again.
func mergeRefused(cur, mine *Record) *Record {
	if mine.Outcome() == OutcomeNone || !mine.EnqueuedAt.After(cur.ConflictOf(mine.IntentID).EnqueuedAt) {
		return nil
	}
	kept := *cur
	kept.Refuse(mine)
	kept.WriteID, kept.Settled = mine.WriteID, cur.Settled+1
	return &kept
}

// mergeOlder lets a late writer raise a newer record to accepted: the order
// exists, whatever the newer intent found out. The body that was accepted is
// the older intent's, so that a newer one with another body is a conflict, and
// the record is about the older one again.
func mergeOlder(cur, mine *Record) *Record {
	if mine.Outcome() != OutcomeAccepted || cur.Outcome() == OutcomeAccepted {
		return nil
	}
	raised := *cur
	if cur.Outcome() == OutcomeNone {
		raised.Settled++ // the newer intent is settled by it, too
	}
	raised.SetOutcome(OutcomeAccepted)
	raised.Unsure, raised.By, raised.Allowed, raised.Proven = false, "", false, false
	raised.Verdict, raised.Status, raised.Response = mine.Verdict, mine.Status, mine.Response
	raised.Reason, raised.Error = "accepted by an attempt for an earlier intent of this order_no", ""
	raised.SettledAt, raised.WriteID, raised.BodyHash = mine.SettledAt, mine.WriteID, mine.BodyHash
	if cur.BodyHash != mine.BodyHash || cur.listed(cur.IntentID) != nil {
		refused := *cur
		refused.SettledAt = mine.SettledAt
		if aside := cur.listed(cur.IntentID); aside != nil {
			refused.BodyHash = aside.BodyHash // its record kept the hash of the intent before
		}
		raised.Refuse(&refused)
		raised.IntentID, raised.EnqueuedAt, raised.Batch, raised.Source = mine.IntentID, mine.EnqueuedAt, mine.Batch, mine.Source
	}
	return &raised
}

// mergeNewer: the record of a newer intent takes the place of an older one's.
// But an acceptance stays true for the order_no, and an unknown outcome is not
// hidden behind a note unless a person allowed the next intent: the note would
// pass for leave to submit (R6).
func mergeNewer(cur *Record, out Record) *Record {
	outcome := cur.Outcome()
	if out.Outcome() == OutcomeNone {
		if outcome == OutcomeAccepted || outcome == OutcomeUnknown && !cur.Allows(out.IntentID) {
			return nil
		}
		out.Settled = cur.Settled
		out.Unsure = out.Unsure || doubtLeft(cur, &out)
		out.inheritPermission(cur)
		out.LastTimestamp = max(out.LastTimestamp, cur.LastTimestamp)
		return &out
	}
	out.Settled = settledCount(cur, &out)
	if outcome == OutcomeAccepted && out.Outcome() != OutcomeAccepted {
		kept := *cur
		kept.WriteID, kept.Settled = out.WriteID, out.Settled
		if out.BodyHash == "" || out.BodyHash != cur.BodyHash {
			kept.Refuse(&out)
		} else {
			kept.IntentID, kept.EnqueuedAt = out.IntentID, out.EnqueuedAt
		}
		return &kept
	}
	out.carryDoubt(cur)
	return &out
}

// carryDoubt turns a claim of "not created" over a doubtful record into
// unknown (R3).
func (r *Record) carryDoubt(cur *Record) {
	if r.claimsNotCreated() && doubtLeft(cur, r) {
		r.SetOutcome(OutcomeUnknown)
		r.Unsure = true
	}
}

// doubtLeft: cur is in doubt, and out does not prove that nothing exists. A
// proof is about the attempts before it, not about one that somebody else
// began later.
func doubtLeft(cur, out *Record) bool {
	return cur.Unsure && (!out.Proven || cur.LastAttemptAt.After(out.LastAttemptAt))
}

// Ranks of R1, from weak to strong.
const (
	rankNote = iota + 1
	rankOther
	rankUnknown
	rankPerson
	rankAccepted
)

func rank(r *Record) int {
	switch o := r.Outcome(); {
	case o == OutcomeAccepted:
		return rankAccepted
	case o != OutcomeNone && r.By != "":
		return rankPerson
	case o == OutcomeUnknown:
		return rankUnknown
	case o != OutcomeNone:
		return rankOther
	default:
		return rankNote
	}
}

func (r *Record) claimsNotCreated() bool {
	return r.Outcome() != OutcomeNone && r.Outcome().Created() == "no"
}

// storedAgain: both are about the same intent, but the broker stored it twice
// (published again with the same ID after the first was settled).
func storedAgain(cur, next *Record) bool {
	return !cur.EnqueuedAt.IsZero() && next.EnqueuedAt.After(cur.EnqueuedAt)
}

// settledCount counts the stored intents of this order_no that have an outcome
// once next is written over cur (protocol R11).
func settledCount(cur, next *Record) int {
	n := 0
	if cur != nil {
		n = cur.Settled
	}
	already := cur != nil && cur.Outcome() != OutcomeNone && cur.IntentID == next.IntentID && !storedAgain(cur, next)
	if next.Outcome() != OutcomeNone && !already {
		n++
	}
	return n
}

// joinHistory keeps the larger count and every doubt of two records about the
// same intent, written by owners who did not know of each other.
func joinHistory(a, b History) History {
	out := b
	out.Attempts = max(a.Attempts, b.Attempts)
	out.Unsure = a.Unsure || b.Unsure
	out.LastTimestamp = max(a.LastTimestamp, b.LastTimestamp)
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
