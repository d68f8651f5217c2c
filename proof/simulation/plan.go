package simulation

import (
	"time"

	"orderpost/internal/order"
)

// plan holds the settings of a schedule, drawn from its seed.
type plan struct {
	Policy     order.Policy
	Duplicates Duplicates
	Orders     int
	Workers    int
	Slots      int

	AckWait, RequestTimeout              time.Duration
	MaxAckPending                        int
	TotalAttempts                        int
	SubmissionAttempts                   int
	SubmissionTime, GatePatience         time.Duration
	RetryMax                             time.Duration
	DelayBase, DelayMax                  time.Duration
	LatencyMin, LatencyMax               time.Duration
	Slow                                 float64 // share of messages that take much longer
	LossRequest, LossAnswer              float64
	GateBusy, CallBack                   float64
	APIFaults                            [apiIsSlow + 1]float64
	Trouble                              time.Duration // how long anything may go wrong
	Crashes, Freezes, Cuts               int
	BrokerKills, FullDisks               int
	Partitions, SleptThrough             int
	Drains                               int
	StepCrashes, StepFreezes             int
	Persons                              int
	Replicas                             int
	Stalls                               int // of followers
	Feeders                              int // 0 = no waiting room
	FeederCrashes, FeederFreezes         int
	FeederStepCrashes, FeederStepFreezes int
	FeederCuts                           int
	LeaderChanges, BatchChanges          int // at any time, and in the middle of a batch of writes
	ClockJumps, Suspends                 int // of workers' machines
	Pages                                int // persons that act on a page that has been open
	ConsumerChanges                      int // of the leader of the workers' consumer
	Corrections                          int // further submissions of each order_no; 0 = as produce draws them
	Attentive                            int // persons that come back to an order
	Askers                               int // persons that have orders in doubt looked up
	StampPlaces                          int // that the clocks which stamp jump to; 0 = they go right
	StampPeriod                          time.Duration
	FloorMoves                           int // how often the consumer's floor is moved by hand
	BrokerClocks                         int // how often the clock of one of the broker's servers is set
	FreezeBeforePost, FreezeAfterPost    float64
	Misread                              float64 // share of acceptances that a wrong rule calls refusals
	Lookup                               *lookup // nil = nobody asks the API about orders in doubt
}

// drawPlan draws the settings of a schedule and applies its edits.
func drawPlan(e *engine) plan {
	p := draw(e)
	if e.schedule.Old {
		if e.schedule.Replicas {
			p.replicate(e)
		}
		return p
	}
	if e.chance(0.4) {
		p.replicate(e)
		if e.chance(0.5) {
			p.LeaderChanges = 1 + e.rng.IntN(8)
		}
		if e.chance(0.5) {
			p.BatchChanges = 1 + e.rng.IntN(4)
		}
	}
	count := func(share float64, most int) int {
		if !e.chance(share) {
			return 0
		}
		return 1 + e.rng.IntN(most)
	}
	switch kind := e.rng.Float64(); { // both are rare together: they hide time from every worker (oracle.Counts.BothClocks)
	case kind < 0.3:
		p.ClockJumps = 1 + e.rng.IntN(4)
	case kind < 0.6:
		p.Suspends = 1 + e.rng.IntN(3)
	case kind < 0.62:
		p.ClockJumps, p.Suspends = 1, 1
	}
	p.Pages = count(0.4, 2)
	_ = count(0.2, 2) // a setting that is gone: the numbers that follow stay
	p.FullDisks = max(p.FullDisks, count(0.2, 3))
	p.Misread = misread(e.schedule)
	if p.Replicas > 1 {
		e.in(streamOf(ofTrouble, troubleConsumer, 0xff, 0), func() { p.ConsumerChanges = count(0.7, 6) })
	}
	e.in(streamOf(ofTrouble, troubleStamps, 0xff, 0), func() {
		p.StampPeriod = 250 * time.Millisecond << e.rng.IntN(5)
		if p.StampPlaces = count(0.5, len(stampPlaces)); p.StampPlaces == 1 {
			p.StampPlaces = 0
		}
	})
	e.in(streamOf(ofTrouble, troubleBrokerClocks, 0xff, 0), func() { p.BrokerClocks = count(0.5, 6) })
	e.in(streamOf(ofTrouble, troubleFloor, 0xff, 0), func() { p.FloorMoves = count(0.2, 3) })
	if e.schedule.Corrections {
		p.focusOnCorrections(e)
	}
	e.in(streamOf(ofTrouble, troubleLookup, 0xff, 0), func() {
		if e.chance(0.35) {
			p.drawLookup(e)
		}
	})
	e.in(streamOf(ofTrouble, troubleLookup, 0xff, 2), func() { p.Askers = count(0.4, 3) })
	for _, d := range e.schedule.Edits {
		if d.Op == editPlan {
			_ = p.set(d.Field, d.Value) // ParseSchedule has tried it
		}
	}
	return p
}

// draw draws the settings of a schedule. Each kind of trouble is absent in many
// schedules, which tests the others alone.
func draw(e *engine) plan {
	r := e.rng
	pick := func(ds ...time.Duration) time.Duration { return ds[r.IntN(len(ds))] }
	some := func(share, most float64) float64 {
		if r.Float64() >= share {
			return 0
		}
		return most * r.Float64()
	}
	count := func(share float64, most int) int {
		if r.Float64() >= share {
			return 0
		}
		return 1 + r.IntN(most)
	}
	const s, ms = time.Second, time.Millisecond
	p := plan{
		Policy: order.Policy(r.IntN(2)), Duplicates: Duplicates(r.IntN(3)),
		Orders: 1 + r.IntN(4), Workers: 1 + r.IntN(3), Slots: 1 + r.IntN(3),
		AckWait: pick(2*s, 5*s, 30*s), RequestTimeout: pick(500*ms, 2*s, 10*s), MaxAckPending: 64,
		TotalAttempts: 1 + r.IntN(6), SubmissionAttempts: 1 + r.IntN(3), SubmissionTime: pick(2*s, 30*s), GatePatience: pick(1*s, 5*s),
		RetryMax: pick(100*ms, 2*s), DelayBase: pick(500*ms, 4*s), DelayMax: 20 * s,
		LatencyMin: 100 * time.Microsecond, LatencyMax: pick(1*ms, 20*ms, 60*ms), Slow: some(0.3, 0.1),
		LossRequest: some(0.4, 0.1), LossAnswer: some(0.5, 0.15),
		GateBusy: some(0.3, 0.3), CallBack: some(0.3, 0.5),
		Trouble: pick(10*s, 40*s),
		Crashes: count(0.3, 3), Freezes: count(0.4, 3), Cuts: count(0.3, 3),
		BrokerKills: count(0.35, 2), Partitions: count(0.2, 2), SleptThrough: count(0.25, 2), FullDisks: count(0.2, 2), Drains: count(0.2, 2),
		StepCrashes: count(0.5, 3), StepFreezes: count(0.4, 3), Persons: count(0.7, 6),
	}
	p.DelayMax = max(p.DelayMax, p.DelayBase)
	for f := apiUnreachable; f <= apiIsSlow; f++ {
		p.APIFaults[f] = some(0.3, 0.5)
	}
	return p
}

// replicate makes it a schedule with three replicas, and with groups of
// deliveries that are large enough for batched reads.
func (p *plan) replicate(e *engine) {
	p.Replicas = 3
	p.Slots, p.Orders = 2+e.rng.IntN(4), 2+e.rng.IntN(5)
	if e.chance(0.8) {
		p.Stalls = 1 + e.rng.IntN(8)
	}
}

type loss uint8

const (
	lossNone loss = iota
	lossRequest
	lossAnswer
)

func (w *world) drawLoss() loss {
	switch {
	case w.quiet:
		return lossNone
	case w.strikes(FaultLostRequest, w.cfg.LossRequest):
		return lossRequest
	case w.strikes(FaultLostAnswer, w.cfg.LossAnswer):
		return lossAnswer
	default:
		return lossNone
	}
}

// chance decides whether something goes wrong. It returns false once the schedule is
// quiet.
func (w *world) chance(p float64) bool { return !w.quiet && w.e.chance(p) }

// strikes is chance for a fault, which an edit may drop.
func (w *world) strikes(f Fault, p float64) bool { return !w.quiet && w.e.strikes(f, p) }

// latency returns the one-way latency of a message. It stays below the margin of a
// claim.
func (w *world) latency() time.Duration {
	if w.strikes(FaultSlow, w.cfg.Slow) {
		return w.e.between(w.cfg.LatencyMax, w.cfg.AckWait/20)
	}
	return w.e.between(w.cfg.LatencyMin, w.cfg.LatencyMax)
}

// drawAPIFault draws the fault of one POST. The API refuses the same orders every time.
func (w *world) drawAPIFault(no string) apiFault {
	if !w.quiet {
		f := apiUnreachable + apiFault(w.e.rng.IntN(int(apiIsSlow)))
		if w.e.strikes(FaultAPI+Fault(f-apiUnreachable), w.cfg.APIFaults[f]) {
			return f
		}
	}
	if w.refused[no] {
		return apiRefuses
	}
	return apiWorks
}
