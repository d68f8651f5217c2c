package simulation

import (
	"math/rand/v2"

	"orderpost/internal/order"
)

// misread returns the share of acceptances that a wrong rule takes for refusals: none in
// most schedules. Like stopped, it does not use the schedule's generator.
func misread(s *Schedule) float64 {
	r := rand.New(rand.NewPCG(s.Seed, 0x72756c65))
	if r.Float64() >= 0.15 {
		return 0
	}
	return 0.6 * r.Float64()
}

// What an answer says that a rule calls a refusal.
const (
	saysCreated = "created"
	saysRefused = "refused"
)

// recall models submission.recall. Where acceptances are misread, every refusal is a
// rule's.
func (v *submission) recall(r reply) {
	k := order.Recalled{At: v.report.History.LastAttemptAt, Attempt: v.report.History.Attempts, Status: r.status, Said: saysRefused, BodyHash: v.d.Order.BodyHash()}
	if v.w.cfg.Misread > 0 {
		k.Rule = 1
	}
	if r.misread {
		k.Said = saysCreated
	}
	v.report.Final = false
	v.report.Trail[len(v.report.Trail)-1].CalledBack, v.report.Trail[len(v.report.Trail)-1].Rule = true, k.Rule
	v.report.History.Recall(v.before, k)
	if v.w.drops(Kept) {
		v.report.History.Unsure = v.before.Unsure
	}
}

// kept models submission.decideByRecalled. The rules are right in the end, and sometimes before.
func (v *submission) kept() order.End {
	h := &v.report.History
	parks := v.w.cfg.Policy == order.Park && !v.Allowed
	k, right := h.Recalled, false
	if k.Rule > 0 {
		right = !v.w.chance(0.5)
	}
	mine := k.Rule > 0 && k.BodyHash == v.d.Order.BodyHash()
	switch {
	case mine && right && k.Said == saysCreated:
		v.say(v.d, "accepted by the answer that was kept", "")
		v.report.Verdict, v.report.Status, h.Unsure = order.Accepted, k.Status, false
		return order.EndAnswer
	case !parks:
		return order.EndNone
	case h.Settleable() && !right: // the pool is held
		if v.e.sleep(v.ctx, v.w.cfg.GatePatience) != nil {
			return v.interrupted()
		}
		return order.EndHandBack
	case h.Settleable() && mine: // refused
		h.Unsure = false
		return order.EndNone
	case v.lookup() != nil:
		return order.EndNone
	default:
		v.report.Verdict, v.report.Reason = order.Unsure, "parked"
		return order.EndAnswer
	}
}

// believed models submission.endRecalledDoubt. Refusals are believed while the rules are right.
func (v *submission) believed() {
	if h := &v.report.History; h.Settleable() && h.Recalled.Said == saysRefused && h.Recalled.BodyHash == v.d.Order.BodyHash() {
		h.Unsure = false
	}
}
