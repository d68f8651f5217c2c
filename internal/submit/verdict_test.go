package submit

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit/http1"
)

// wantVerdict is the table of docs/rules.md, written anew, for a body that says no more
// than code 0.
func wantVerdict(status int, p http1.Phase) order.Verdict {
	if p == http1.PhaseConnect || p == http1.PhaseSend {
		return order.Retry
	}
	if p == http1.PhaseSent {
		return order.Unsure
	}
	switch status {
	case 407, 425, 429, 511:
		return order.Retry
	case 401, 403:
		return order.Denied
	case 400, 402, 404, 405, 410, 411, 413, 414, 415, 417, 418, 421, 422, 423, 426, 428, 431, 451, 501, 505:
		return order.Rejected
	case 200, 201, 202, 204:
		if p == http1.PhaseDone {
			return order.Accepted
		}
	}
	return order.Unsure
}

// inPhase makes the fake API fail, or answer, in a phase.
func inPhase(status int, p http1.Phase) reply {
	switch p {
	case http1.PhaseConnect:
		return reply{err: &net.OpError{Op: "dial", Err: fmt.Errorf("refused")}, unread: true}
	case http1.PhaseSend:
		return reply{err: fmt.Errorf("broken pipe"), unread: true}
	case http1.PhaseSent:
		return reply{err: errReset}
	case http1.PhaseCut:
		return reply{status: status, body: `{"code":`, cut: errReset}
	default:
		return reply{status: status, body: `{"code":0}`}
	}
}

// wantSettlement says what becomes of an order whose only attempt, with one
// attempt allowed per submission, had this verdict.
func wantSettlement(v order.Verdict, status int, phase http1.Phase, p order.Policy, doubted bool) order.Settlement {
	back := order.Settlement{Action: order.ActHandBack, Unsure: doubted}
	settle := func(o order.Outcome) order.Settlement {
		return order.Settlement{Action: order.ActSettle, Outcome: o, Unsure: o == order.OutcomeUnknown}
	}
	switch v {
	case order.Accepted:
		return settle(order.OutcomeAccepted)
	case order.Duplicate:
		if doubted {
			return settle(order.OutcomeAccepted)
		}
		return settle(order.OutcomeRejected)
	case order.Rejected:
		if slices.Contains([]int{404, 405, 410, 421, 426}, status) {
			return back
		}
		if doubted {
			return settle(order.OutcomeUnknown)
		}
		return settle(order.OutcomeRejected)
	case order.Denied:
		return back
	case order.Unsure:
		if p == order.Park && phase == http1.PhaseDone && status >= 200 && status < 500 && !slices.Contains([]int{408, 460, 499}, status) {
			return order.Settlement{Action: order.ActHandBack, Unsure: true} // a rule may explain it
		}
		if p == order.Park {
			return settle(order.OutcomeUnknown)
		}
		return order.Settlement{Action: order.ActDelay, Unsure: true}
	default:
		return order.Settlement{Action: order.ActDelay, Unsure: doubted}
	}
}

func TestEveryStatusPhaseAndPolicy(t *testing.T) {
	for _, policy := range []order.Policy{order.Resubmit, order.Park} {
		for _, phase := range []http1.Phase{http1.PhaseConnect, http1.PhaseSend, http1.PhaseSent, http1.PhaseCut, http1.PhaseDone} {
			for _, doubted := range []bool{false, true} {
				if doubted && policy == order.Park {
					continue // not sent at all: TestParkedOrderIsNotSent
				}
				t.Run(fmt.Sprintf("%s/phase %d/doubted=%t", policy, phase, doubted), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						for status := 100; status <= 599; status++ {
							checkStatus(t, status, phase, policy, doubted)
						}
					})
				})
			}
		}
	}
}

func checkStatus(t *testing.T, status int, phase http1.Phase, policy order.Policy, doubted bool) {
	r := newRig(t, func(call) reply { return inPhase(status, phase) }, func(c *Config) {
		c.OnUnsure, c.RetrySubmissionAttempts, c.RefusalRun = policy, 1, 0
	})
	defer r.Close()
	rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, "n"), History: order.History{Unsure: doubted}})
	want := wantVerdict(status, phase)
	require.Equal(t, want, rep.Verdict, "status %d: %s", status, rep.Reason)
	require.Equal(t, doubted && want != order.Accepted || want == order.Unsure, rep.History.Unsure, "status %d", status)
	if phase == http1.PhaseCut || phase == http1.PhaseDone {
		require.Equal(t, status, rep.Status)
	} else {
		require.Zero(t, rep.Status)
	}
	require.NotEmpty(t, rep.Reason, "status %d", status)
	got := order.Decide(rep, order.Facts{Policy: policy, FirstProven: !doubted})
	wantS := wantSettlement(want, status, phase, policy, doubted)
	require.Equal(t, wantS, got, "status %d: %+v", status, rep)
}
