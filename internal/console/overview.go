package console

import (
	"time"

	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

func (s *Server) overviewRoutes() []route {
	return []route{{pattern: "GET /{$}", need: Viewer, does: "The overview", serve: showOverview}}
}

type overviewPage struct {
	*snapshot
	Gate    gateState
	Advice  string // about missing streams
	Chart   chart
	Totals  []outcomeCount
	Settled int
	Behind  bool
	// Letters are the dead letters by outcome.
	Letters  []outcomeCount
	Unknown  int
	Totaling deadletter.LetterTotals
	Awaiting awaiting
}

type outcomeCount struct {
	Outcome order.Outcome
	N       int
}

func showOverview(v *visit) error {
	now := time.Now().UTC()
	snap := v.s.watch.look(v.Context())
	minutes, behind := v.s.watch.minutes.last(now)
	p := overviewPage{snapshot: snap, Gate: gateOf(snap), Chart: newChart(minutes), Behind: behind}
	if len(snap.Missing) > 0 {
		p.Advice = queue.DescribeMissing(snap.Missing)
	}
	for _, o := range order.Outcomes() {
		n := 0
		for _, m := range minutes {
			n += m.Outcomes[o]
		}
		p.Totals = append(p.Totals, outcomeCount{o, n})
		p.Settled += n
	}
	p.Totaling = seeLetters(v).Totals()
	p.Unknown = p.Totaling.Outcomes[order.OutcomeUnknown]
	for _, o := range order.Outcomes() {
		if n := p.Totaling.Outcomes[o]; n > 0 {
			p.Letters = append(p.Letters, outcomeCount{o, n})
		}
	}
	p.Awaiting = awaitingOf(v, snap.Approvals)
	p.Gate.Steer = v.may(Operator)
	v.live = true
	return v.render("overview", "Overview", p)
}
