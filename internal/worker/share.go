package worker

import (
	"slices"

	"orderpost/internal/queue"
)

// membership is this worker's place among those that share one rate limit
// (R12). Each divides the limit by the number of workers that it sees present,
// itself included. Whoever joins sends nothing until every present worker says
// that it sees the joiner, or has expired; and each says so only after it keeps
// to its smaller share. So nobody who sends divides by less than the number of
// those who send, and the sum of the shares never exceeds the limit.
//
// Who is present is decided by the broker's clock alone: by how much older
// another worker's last sign of life is than our own.
type membership struct {
	id     string
	joined bool
}

// observe reads the list. It returns the others that are present, and whether
// our own entry was there: before it is, nobody can count us.
func (m *membership) observe(members []queue.Presence) (others []string, listed bool) {
	own := slices.IndexFunc(members, func(p queue.Presence) bool { return p.ID == m.id })
	if own < 0 {
		m.joined = false
		return nil, false
	}
	seenByAll := true
	for i, p := range members {
		if i == own || members[own].SeenAt.Sub(p.SeenAt) > queue.PresenceTerm {
			continue
		}
		others = append(others, p.ID)
		seenByAll = seenByAll && slices.Contains(p.Sees, m.id)
	}
	m.joined = m.joined || seenByAll
	slices.Sort(others)
	return others, true
}

// fleetLimit is the limit to be shared: a person's, or else the lowest that the
// settings of a present worker name; 0 = none.
func fleetLimit(f *queue.Fleet, own float64, present []string) float64 {
	if f.Limit != nil {
		return f.Limit.PerSecond
	}
	limit := own
	for _, p := range f.Members {
		if p.Limit > 0 && (limit == 0 || p.Limit < limit) && slices.Contains(present, p.ID) {
			limit = p.Limit
		}
	}
	return limit
}
