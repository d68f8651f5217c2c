package fleet

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
)

// membership is this worker's place among those that share one rate limit (R12).
// Each worker divides the limit by the number of workers that it sees present,
// itself included. A worker that joins sends nothing until every present worker
// says that it sees the joiner, or has expired. Each says so only after it keeps
// to its smaller share. So nobody who sends divides by less than the number of
// workers that send, and the sum of the shares never exceeds the limit.
//
// The broker's clock alone decides who is present: another worker is present
// while its last sign of life is at most PresenceTerm older than our own.
type membership struct {
	id     string
	joined bool
}

// newMembership begins a new stay in the fleet.
func newMembership() membership {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return membership{id: hex.EncodeToString(b[:])}
}

// find gives the index of our own entry; -1 if it is not listed.
func (m *membership) find(members []Presence) int {
	return slices.IndexFunc(members, func(p Presence) bool { return p.ID == m.id })
}

// observe reads the list. It returns the IDs of the others that are present, and
// whether our own entry is listed: before it is, nobody can count us.
func (m *membership) observe(members []Presence) (others []string, listed bool) {
	own := m.find(members)
	if own < 0 {
		m.joined = false
		return nil, false
	}
	seenByAll := true
	for i, p := range members {
		if i == own || members[own].SeenAt.Sub(p.SeenAt) > PresenceTerm {
			continue
		}
		others = append(others, p.ID)
		seenByAll = seenByAll && slices.Contains(p.Sees, m.id)
	}
	m.joined = m.joined || seenByAll
	slices.Sort(others)
	return others, true
}

// sharedLimit is the limit to divide: a person's, or else the lowest that the
// settings of a present worker name; 0 = none.
func sharedLimit(v *View, own float64, present []string) float64 {
	if v.Limit != nil {
		return v.Limit.PerSecond
	}
	limit := own
	for _, p := range v.Members {
		if p.Limit > 0 && (limit == 0 || p.Limit < limit) && slices.Contains(present, p.ID) {
			limit = p.Limit
		}
	}
	return limit
}

// LimitPerSecond returns the limit that the present workers share; 0 = none.
func (v *View) LimitPerSecond() float64 {
	var present []string
	for _, p := range v.Present() {
		present = append(present, p.ID)
	}
	return sharedLimit(v, 0, present)
}

// Lowers reports whether a new limit lets the fleet send no more than now. Of workers that are
// not present nobody knows what their settings say.
func (v *View) Lowers(l *Limit) bool {
	if v.Limit == nil && len(v.Present()) == 0 {
		return false
	}
	now := v.LimitPerSecond()
	return l != nil && l.PerSecond > 0 && (now == 0 || l.PerSecond <= now)
}

// Prolongs reports whether a new hold ends no earlier than the one that is set. One that
// this version does not understand may last until resume.
func (v *View) Prolongs(h Hold) bool {
	if h.Until.IsZero() {
		return true
	}
	if v.Hold == nil {
		return v.holdRevision == 0
	}
	return !v.Hold.Until.IsZero() && !h.Until.Before(v.Hold.Until)
}
