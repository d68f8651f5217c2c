package order

import (
	"slices"
	"strings"
)

// maxMoved bounds Record.Moved.
const maxMoved = 10

// shownHash is how many characters of a body's hash BodyID has: enough that nobody makes another body with them.
const shownHash = 16

// BodyID names an intent by its ID together with its body, because a producer may use an ID that is not its
// own: ID@HASH, with the first 16 characters of the body's hash.
func BodyID(intentID, bodyHash string) string {
	return intentID + "@" + bodyHash[:min(len(bodyHash), shownHash)]
}

// Knows reports whether the intent with this ID and this body was in the intents stream before,
// as far as the record tells (R13): the record is about it, refused it, or
// replaced its record. It is false for nil.
func (r *Record) Knows(intentID, bodyHash string) bool {
	return r != nil && ((r.IntentID == intentID || r.Listed(intentID) != nil) && r.bodyOf(intentID) == bodyHash ||
		slices.Contains(r.Moved, BodyID(intentID, bodyHash)))
}

// OtherBody reports whether the record tells that the intent with this ID had another body, and not that one of
// this ID and this body was moved, too.
func (r *Record) OtherBody(intentID, bodyHash string) bool {
	switch {
	case r == nil || slices.Contains(r.Moved, BodyID(intentID, bodyHash)):
		return false
	case r.IntentID == intentID || r.Listed(intentID) != nil:
		return r.bodyOf(intentID) != bodyHash
	default:
		return slices.ContainsFunc(r.Moved, func(id string) bool {
			hash, found := strings.CutPrefix(id, intentID+"@")
			return found && !strings.Contains(hash, "@")
		})
	}
}

// bodyOf returns the body hash of the intent with this ID, which the record is about or lists.
func (r *Record) bodyOf(intentID string) string {
	if c := r.Listed(intentID); c != nil {
		return c.BodyHash
	}
	return r.BodyHash
}

// movedBefore returns Record.Moved for the record that replaces cur. Without it, a
// feeder that was cut off between the publish and the removal could not tell, once
// another intent followed, that its intent was settled.
func movedBefore(cur, next *Record) []string {
	moved := cur.Moved
	forget := func(intentID, bodyHash string, waited bool) {
		id := BodyID(intentID, bodyHash)
		if waited && intentID != next.IntentID && next.Listed(intentID) == nil && !slices.Contains(moved, id) {
			moved = append(slices.Clone(moved), id)
		}
	}
	for _, c := range cur.Conflicts {
		forget(c.IntentID, c.BodyHash, c.Waited)
	}
	forget(cur.IntentID, cur.BodyHash, cur.Waited)
	return moved[max(0, len(moved)-maxMoved):]
}
