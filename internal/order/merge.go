package order

// Merge says what the last word on an order_no must be when mine is to be
// written although cur is there (protocol R1). It returns nil where cur
// stands as it is. Neither argument is changed.
//
// Within one intent accepted beats a person's word, which beats unknown, which
// beats every other outcome (of those the first one stays), which beats notes.
// A record about an older intent may only raise the word to accepted. Doubt is
// carried over: an outcome that claims "not created" over a doubtful note
// becomes unknown.
func Merge(cur, mine *Record) *Record {
	out := *mine
	switch {
	case cur == nil:
		out.Settled = settledCount(nil, mine)
		return &out
	case cur.IntentID == mine.IntentID:
		return mergeSame(cur, out)
	case mine.EnqueuedAt.Before(cur.EnqueuedAt):
		return mergeOlder(cur, mine)
	default:
		return mergeNewer(cur, out)
	}
}

func mergeSame(cur *Record, out Record) *Record {
	if rank(&out) < rank(cur) || rank(&out) == rank(cur) && rank(cur) > rankNote {
		return nil
	}
	out.Settled = settledCount(cur, &out)
	if out.Outcome() == OutcomeNone {
		out.History = joinHistory(cur.History, out.History)
	} else if cur.Outcome() == OutcomeNone && cur.Unsure && out.claimsNotCreated() && !out.Proven {
		out.SetOutcome(OutcomeUnknown)
		out.Unsure = true
	}
	return &out
}

// mergeOlder lets a late writer raise a newer record to accepted: the order
// exists, whatever the newer intent found out.
func mergeOlder(cur, mine *Record) *Record {
	if mine.Outcome() != OutcomeAccepted || cur.Outcome() == OutcomeAccepted {
		return nil
	}
	raised := *cur
	raised.Settled = cur.Settled
	if cur.Outcome() == OutcomeNone {
		raised.Settled++ // the newer intent is settled by it, too
	}
	raised.SetOutcome(OutcomeAccepted)
	raised.Unsure, raised.By = false, ""
	raised.Verdict, raised.Status, raised.Response = mine.Verdict, mine.Status, mine.Response
	raised.Reason, raised.Error = "accepted by an attempt for an earlier intent of this order_no", ""
	raised.SettledAt, raised.WriteID = mine.SettledAt, mine.WriteID
	return &raised
}

// mergeNewer: the record of a newer intent takes the place of an older one's,
// except that an acceptance stays true for the order_no.
func mergeNewer(cur *Record, out Record) *Record {
	out.Settled = settledCount(cur, &out)
	if cur.Outcome() == OutcomeAccepted && out.Outcome() != OutcomeAccepted {
		kept := *cur
		kept.IntentID, kept.WriteID, kept.Settled = out.IntentID, out.WriteID, out.Settled
		kept.EnqueuedAt = out.EnqueuedAt
		if out.Outcome() == OutcomeNone {
			return nil
		}
		return &kept
	}
	return &out
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

// settledCount counts the intents of this order_no that have an outcome once
// next is written over cur (protocol R11).
func settledCount(cur, next *Record) int {
	n := 0
	if cur != nil {
		n = cur.Settled
	}
	already := cur != nil && cur.Outcome() != OutcomeNone && cur.IntentID == next.IntentID
	if next.Outcome() != OutcomeNone && !already {
		n++
	}
	return n
}

// joinHistory keeps the larger count and every doubt of two notes about the
// same intent, written by owners who did not know of each other.
func joinHistory(a, b History) History {
	out := b
	out.Attempts = max(a.Attempts, b.Attempts)
	out.Unsure = a.Unsure || b.Unsure
	out.LastTimestamp = max(a.LastTimestamp, b.LastTimestamp)
	out.GateWaitMS = max(a.GateWaitMS, b.GateWaitMS)
	out.Suspects = max(a.Suspects, b.Suspects)
	if b.FirstAttemptAt.IsZero() || !a.FirstAttemptAt.IsZero() && a.FirstAttemptAt.Before(b.FirstAttemptAt) {
		out.FirstAttemptAt = a.FirstAttemptAt
	}
	if a.LastAttemptAt.After(b.LastAttemptAt) {
		out.LastAttemptAt = a.LastAttemptAt
	}
	return out
}
