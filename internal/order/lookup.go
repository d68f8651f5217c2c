package order

import (
	"cmp"
	"time"
)

// Found says what a lookup found: the API was asked whether it has an order in doubt.
type Found uint8

// The results of a lookup. FoundNothing, the zero value, leaves the doubt as it is.
const (
	FoundNothing Found = iota
	// FoundExists: the API has an order under this order_no.
	FoundExists
	// FoundRejected: the API knows the order_no, and refused the order for good.
	FoundRejected
	// FoundAbsent: the API has no such order, as far as the server that answered knows.
	FoundAbsent
)

var foundNames = [...]string{"", "exists", "rejected", "absent"}

// FoundAll returns every result of a lookup.
func FoundAll() []Found { return []Found{FoundNothing, FoundExists, FoundRejected, FoundAbsent} }

// FoundWords lists the words of lookup rules.
func FoundWords() []string { return foundNames[1:] }

// String returns the word of lookup rules, or nothing.
func (f Found) String() string { return cmp.Or(nameOf(foundNames[:], int(f)), "nothing") }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Found) UnmarshalText(text []byte) error {
	i, err := indexOf("result of a lookup", foundNames[:], string(text))
	*f = Found(i)
	return err
}

// LookedUp takes what a lookup found into the report, and returns how the submission ends.
//
// One absent answer proves nothing: a replica may lag, and a request that is still on its way may
// create the order. The first one becomes a fact of the record. Another one ends the doubt if this
// process has known that fact for the quarantine, by its monotonic clock: known is for how long. Every attempt and every
// new doubt takes the fact away (R3).
func (r *Report) LookedUp(f Found, known, quarantine time.Duration, now time.Time) End {
	h := &r.History
	switch {
	case f == FoundExists:
		r.Verdict = Duplicate // whose body it has, only an acceptance tells
		return EndAnswer
	case f == FoundRejected:
		r.Verdict, r.Final, h.Unsure = Rejected, true, false
		return EndAnswer
	case f == FoundAbsent && h.AbsentAt.IsZero():
		h.AbsentAt = now.UTC()
	case f == FoundAbsent && known >= quarantine:
		r.Verdict, r.Final, h.Unsure, h.AbsentAt = VerdictNone, true, false, time.Time{}
		return EndAbsent
	}
	return EndLookup
}
