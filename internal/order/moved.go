package order

import "slices"

// maxMoved bounds Record.Moved.
const maxMoved = 10

// Knows reports whether the intent with this ID was in the intents stream before,
// as far as the record tells (R13): the record is about it, refused it, or
// replaced its record. It is false for nil.
func (r *Record) Knows(intentID string) bool {
	return r != nil && (r.IntentID == intentID || r.ConflictOf(intentID) != nil || slices.Contains(r.Moved, intentID))
}

// OtherBody reports whether the record tells that the intent with this ID had another body. An ID
// proves nothing by itself: a producer may use one that is not its own.
func (r *Record) OtherBody(intentID, bodyHash string) bool {
	switch {
	case r == nil:
		return false
	case r.listed(intentID) != nil:
		return r.listed(intentID).BodyHash != bodyHash
	default:
		return r.IntentID == intentID && r.BodyHash != bodyHash
	}
}

// movedBefore returns Record.Moved for the record that replaces cur. Without it, a
// feeder that was cut off between the publish and the removal could not tell, once
// another intent followed, that its intent was settled.
func movedBefore(cur, next *Record) []string {
	if !cur.Waited || cur.IntentID == next.IntentID || slices.Contains(cur.Moved, cur.IntentID) {
		return cur.Moved
	}
	moved := append(slices.Clone(cur.Moved), cur.IntentID)
	return moved[max(0, len(moved)-maxMoved):]
}
