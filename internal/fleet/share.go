package fleet

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// membership is this worker's place among those that share one rate limit (R12).
// Each worker divides the limit by the number of workers that it sees present,
// itself included. A worker that joins sends nothing until every present worker
// says that it sees the joiner, or has expired. Each says so only after it keeps
// to its smaller share. So nobody who sends divides by less than the number of
// workers that send, and the sum of the shares never exceeds the limit.
//
// No wall clock decides who is present. Another worker has expired in a view that shows no later
// sign of life of it, and that lists one of ours which we sent more than PresenceTerm, by monotonic
// time, after we first read that last one. Until then it sends no more: it stops by its own monotonic time,
// fenceMargin before PresenceTerm has passed since it sent the last sign of life that the broker confirmed.
// It sent the one that we know before we read it. A later one that was confirmed before that
// moment is in the log before our own, so the view would show it, also the view of a replica that lags.
type membership struct {
	id     string
	joined bool

	beat uint64          // of our last sign of life that was confirmed
	sent time.Time       // when it was sent
	upTo time.Time       // when the latest of ours was sent that a view has listed
	seen map[string]sign // the last sign of life of each other stay, by ID
}

// sign is a worker's sign of life, and when we first read it.
type sign struct {
	Presence
	at time.Time
}

// newMembership begins a new stay in the fleet, with what a former one has seen.
func newMembership(seen map[string]sign) membership {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return membership{id: hex.EncodeToString(b[:]), seen: seen}
}

// said notes a sign of life that the broker confirmed.
func (m *membership) said(beat uint64, sent time.Time) { m.beat, m.sent = beat, sent }

// find gives the index of our own entry; -1 if it is not listed.
func (m *membership) find(members []Presence) int {
	return slices.IndexFunc(members, func(p Presence) bool { return p.ID == m.id })
}

// observe reads the list. It returns the others that are present, and whether our own entry
// is listed: before it is, nobody can count us.
func (m *membership) observe(members []Presence, now time.Time) (others []Presence, listed bool) {
	own := m.find(members)
	if listed = own >= 0; listed && members[own].Beat == m.beat {
		m.upTo = m.sent
	}
	there := make(map[string]bool, len(members))
	for _, p := range members {
		there[p.ID] = true
		if last, known := m.seen[p.ID]; !known || last.revision != p.revision {
			m.seen[p.ID] = sign{p, now}
		}
	}
	seenByAll := true
	for id, s := range m.seen {
		// A view that is older than the sign of life, or of a bucket that was made again, does not
		// say that its worker left.
		left := !there[id] && listed && members[own].revision > s.revision
		switch {
		case left, !there[id] && m.expired(id, PresenceTerm):
			delete(m.seen, id)
		case id != m.id && !m.expired(id, PresenceTerm):
			others = append(others, s.Presence)
			seenByAll = seenByAll && slices.Contains(s.Sees, m.id)
		}
	}
	m.joined = listed && (m.joined || seenByAll)
	slices.SortFunc(others, func(a, b Presence) int { return strings.Compare(a.ID, b.ID) })
	return others, listed
}

// joining returns the IDs of those among the others that have not joined yet, and ask who sees them.
func (m *membership) joining(others []Presence) (ids []string) {
	for _, o := range others {
		if !o.Joined {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// nextTerm returns the time until the next term of another stay is over; 0 = one is, and only a later sign of
// life of ours can show that it has expired.
func (m *membership) nextTerm(now time.Time) time.Duration {
	next := PresenceTerm
	for id, s := range m.seen {
		if id != m.id && !m.expired(id, PresenceTerm) {
			next = min(next, max(0, PresenceTerm-now.Sub(s.at)))
		}
	}
	return next
}

// expired reports whether another stay has given no sign of life for a term.
func (m *membership) expired(id string, term time.Duration) bool {
	s, known := m.seen[id]
	return known && m.upTo.Sub(s.at) > term
}

// sharedLimit is the limit to divide: a person's, or else the lowest that the
// settings of a present worker name; 0 = none.
func sharedLimit(v *View, own float64, present []Presence) float64 {
	if v.Limit != nil {
		return v.Limit.PerSecond
	}
	limit := own
	for _, p := range present {
		if p.Limit > 0 && (limit == 0 || p.Limit < limit) {
			limit = p.Limit
		}
	}
	return limit
}

// LimitPerSecond returns the limit that the present workers share; 0 = none.
func (v *View) LimitPerSecond() float64 { return sharedLimit(v, 0, v.Present()) }

// Lowers reports whether a new limit lets the fleet send no more than now. Of workers that are
// not listed nobody knows what their settings say. One that is listed counts: a clock may
// have been set, and it be present.
func (v *View) Lowers(l *Limit) bool {
	if v.Limit == nil && len(v.Present()) == 0 {
		return false
	}
	now := sharedLimit(v, 0, v.Members)
	return l != nil && l.PerSecond > 0 && (now == 0 || l.PerSecond <= now)
}

// Prolongs reports whether a new hold certainly ends no earlier than the one that is set. How much
// of that one is left depends on the workers: one that starts counts from its start. One that
// this version does not understand may last until resume.
func (v *View) Prolongs(h Hold) bool {
	if h.For == 0 {
		return true
	}
	if v.Hold == nil {
		return v.holdRevision == 0
	}
	return v.Hold.For > 0 && h.For >= v.Hold.For
}
