package console

import (
	"strings"

	"orderpost/internal/fleet"
)

// gateState says whether the fleet sends, and why not.
type gateState struct {
	// Word is open, held, closed or nobody.
	Word string
	// Tone is the word's colour: good, warn or bad.
	Tone string
	// Says is one sentence.
	Says string
	// Reasons are the workers' own words.
	Reasons []string
	// Steer: the person may hold, resume and limit.
	Steer bool
}

// gateOf reads the gate of the whole fleet.
func gateOf(s *snapshot) gateState {
	f := s.Fleet
	if h := f.Hold; h != nil {
		g := gateState{Word: "held", Tone: "warn", Says: "Held by " + somebody(h.By) + " since " + stamp(h.Since)}
		if h.For > 0 {
			g.Says += ", " + h.Lasts() + " of a worker's running time."
		} else {
			g.Says += ", until somebody resumes it."
		}
		if h.Reason != "" {
			g.Reasons = append(g.Reasons, h.Reason)
		}
		return g
	}
	if len(f.Unreadable) > 0 {
		return gateState{Word: "held", Tone: "bad", Says: "The workers hold, because the bucket has entries that this version cannot read: " +
			strings.Join(f.Unreadable, ", ") + ". Resume and set the limit again to replace them."}
	}
	if len(s.Workers) == 0 {
		return gateState{Word: "nobody", Tone: "bad", Says: "No worker is running, so no order is sent."}
	}
	open := 0
	for _, p := range s.Workers {
		if p.Open {
			open++
		}
	}
	reasons := fleet.Reasons(s.Workers) // an open worker has none
	switch {
	case open == len(s.Workers):
		return gateState{Word: "open", Tone: "good", Says: plural(open, "worker sends", "workers send") + " orders."}
	case open > 0:
		return gateState{Word: "closed", Tone: "warn", Says: plural(len(s.Workers)-open, "worker", "workers") + " of " + count(len(s.Workers)) + " cannot send now.", Reasons: reasons}
	default:
		return gateState{Word: "closed", Tone: "bad", Says: "No order is sent now.", Reasons: reasons}
	}
}

func somebody(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}
