package console

import (
	"time"

	"orderpost/internal/fleet"
)

func (s *Server) fleetRoutes() []route {
	return []route{{pattern: "GET /fleet", need: Viewer, does: "The fleet", serve: (*visit).fleetPage}}
}

type fleetPage struct {
	*snapshot
	Gate    gateState
	Trouble string
	InHand  int
	Rate    float64
	Limit   string
}

func (v *visit) fleetPage() error {
	now := time.Now().UTC()
	snap := v.s.watch.look(v.Context())
	p := fleetPage{snapshot: snap, Gate: gateOf(snap, now), Trouble: trouble(snap.Fleet, now), Limit: describeLimit(snap.Fleet.Limit)}
	for _, w := range snap.Workers {
		p.InHand, p.Rate = p.InHand+w.InFlight, p.Rate+w.Rate
	}
	p.Gate.Steer = v.may(Operator)
	v.live = true
	return v.render("fleet", "Fleet", p)
}

// describeLimit says which rate limit the workers share.
func describeLimit(l *fleet.Limit) string {
	switch {
	case l == nil:
		return "as the workers are set (ORDERPOST_RATE_LIMIT)"
	case l.PerSecond == 0:
		return "none, set by " + somebody(l.By) + " at " + stamp(l.At)
	default:
		return perSecond(l.PerSecond) + " requests per second, set by " + somebody(l.By) + " at " + stamp(l.At)
	}
}
