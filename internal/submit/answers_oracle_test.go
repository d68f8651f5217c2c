package submit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// answersFuzz is the number of cases, and after a comma the first seed. Without a seed,
// it is a new one.
const answersFuzz = "ORDERPOST_ANSWERS_FUZZ"

// ordersPerWorker is the number of orders that one worker gets, one after another, so
// that its evidence grows.
const ordersPerWorker = 20

// TestNoAnswerIsTakenForMoreThanItSays lets workers judge generated answers, and compares
// the outcomes with what the API did. No outcome says accepted of an order that was not
// created, and none says the opposite, or gives up the doubt, of one that was. The
// exceptions are those of docs/rules.md: see excused.
func TestNoAnswerIsTakenForMoreThanItSays(t *testing.T) {
	cases, seed := 20_000, uint64(1)
	if text := os.Getenv(answersFuzz); text != "" {
		seed = uint64(time.Now().UnixNano())
		n, err := fmt.Sscanf(text, "%d,%d", &cases, &seed)
		require.NotZero(t, n, "%s=%s: %v", answersFuzz, text, err)
	}
	t.Logf("%s=%d,%d", answersFuzz, cases, seed)
	var sum tally
	for i := range uint64(cases / ordersPerWorker) {
		synctest.Test(t, func(t *testing.T) { generated(t, seed+i, &sum) })
	}
	t.Log(sum.String())
	if cases < 10*ordersPerWorker {
		return
	}
	for what, n := range map[string]*atomic.Int64{"accepted": &sum.accepted, "refused": &sum.refused, "left open": &sum.open, "held": &sum.held} {
		require.Greater(t, n.Load(), int64(cases/200), "the cases are varied: %s", what)
	}
	require.Less(t, sum.excused.Load(), int64(cases/10), "the exceptions are few")
}

type tally struct{ accepted, refused, open, held, excused atomic.Int64 }

func (s *tally) String() string {
	return fmt.Sprintf("accepted %d, not created %d, open %d; pool held %d times; excused %d", s.accepted.Load(), s.refused.Load(), s.open.Load(), s.held.Load(), s.excused.Load())
}

// generated lets one worker work off its orders.
func generated(t *testing.T, seed uint64, sum *tally) {
	random := rand.New(rand.NewPCG(seed, 7))
	repeat := fmt.Sprintf("repeat it with %s=%d,%d", answersFuzz, ordersPerWorker, seed)
	var now *caseOf
	r := newRig(t, func(c call) reply { return now.reply(c) }, func(c *Config) {
		c.RefusalRun, c.HoldRetry, c.GatePatience, c.BreakerRatio = 0, time.Second, 1000*time.Hour, 0
		c.RetryBase, c.RetryMax = time.Millisecond, time.Millisecond
	})
	defer r.Close()
	for i := range ordersPerWorker {
		now = newCase(random, fmt.Sprintf("ORDER-%d-%d", seed%1e6, i))
		r.cfg.RetrySubmissionAttempts = len(now.script)
		rep := r.Submit(context.Background(), &order.Submission{Order: newOrder(t, now.orderNo), History: now.history})
		if !r.Gate().Open() {
			sum.held.Add(1)
		}
		now.judge(t, *rep, sum, repeat)
		r.Gate().Resume()
		now.acceptAfterDenial(r)
	}
}

// step is one attempt: what the API does, and what comes back.
type step struct {
	does does
	lost bool // no answer
	told
}

// caseOf is one order with the attempts that it gets.
type caseOf struct {
	orderNo string
	history order.History
	proven  bool // the first attempt, and a note proves it
	script  []step
	at      int  // attempts made
	created bool // by what the attempts so far did
}

// newCase writes an order's story: an attempt in doubt or none before, and up to three now.
func newCase(random *rand.Rand, orderNo string) *caseOf {
	g := &grammar{random, orderNo}
	c := &caseOf{orderNo: orderNo, proven: g.chance(50)}
	if g.chance(40) { // an earlier worker's attempt, of which nobody knows
		c.history = order.History{Attempts: 1, Unsure: true}
		c.proven, c.created = false, g.chance(50)
	}
	exists := c.created
	stranger := !exists && g.chance(10) // somebody else created an order with this number
	for range 1 + g.IntN(3) {
		s := step{does: does(g.IntN(int(doesKinds)))}
		if exists && s.does == doesCreate {
			s.does = doesKnow
		} else if !exists && s.does == doesKnow {
			s.does = doesCreate
		}
		if stranger {
			s.does = doesRefuse
		}
		exists = exists || s.does == doesCreate
		s.lost = g.chance(15)
		if s.told = g.answer(s.does); stranger && g.chance(90) {
			s.told = told{reply: reply{status: g.status(doesKnow)}}
			s.body, s.says = g.exists()
			s.body = strings.ReplaceAll(s.body, "OURS", orderNo)
		}
		c.script = append(c.script, s)
	}
	return c
}

func (c *caseOf) reply(call call) reply {
	if c.at >= len(c.script) {
		c.at++
		return reply{err: errReset, unread: true} // nothing is sent
	}
	s := c.script[c.at]
	c.at++
	c.created = c.created || s.does == doesCreate
	if s.lost {
		return reply{err: errReset}
	}
	return s.told.reply
}

// acceptAfterDenial brings the worker's key back after answers that denied it.
func (c *caseOf) acceptAfterDenial(r *rig) { r.keys.retryAll() }

// judge compares the outcome with what the API did.
func (c *caseOf) judge(t *testing.T, rep order.Report, sum *tally, repeat string) {
	s := order.Decide(&rep, order.Facts{FirstProven: c.proven && rep.History.Attempts == 1})
	last := &step{lost: true}
	if n := min(c.at, len(c.script)); n > 0 {
		last = &c.script[n-1]
	}
	accepted, open := s.Outcome == order.OutcomeAccepted, s.Outcome == order.OutcomeUnknown || s.Outcome == order.OutcomeNone && s.Unsure
	switch {
	case accepted:
		sum.accepted.Add(1)
	case open:
		sum.open.Add(1)
	default:
		sum.refused.Add(1)
	}
	wrong := ""
	switch {
	case accepted && !c.created:
		wrong = "accepted, but it was not created"
	case !accepted && !open && c.created:
		wrong = "not created, but it was"
	}
	switch {
	case wrong == "":
	case c.excused(accepted, c.history.Unsure || len(rep.Trail) > 1):
		sum.excused.Add(1)
	default:
		t.Errorf("%s: %s (doubt before: %t)\nstatus %d, the API did %d, the body says %d: %s\n%+v\n%+v\n%s", c.orderNo, wrong, c.history.Unsure,
			last.status, last.does, last.says, last.body, rep.Trail, s, repeat)
	}
}

// excused lists what only a rule can know, as docs/rules.md does. Every other mistake is
// one of the built-in verdicts.
func (c *caseOf) excused(accepted, doubt bool) bool {
	made := c.script[:min(c.at, len(c.script))]
	if accepted {
		made = made[len(made)-1:] // the last answer said so
	}
	for _, s := range made {
		switch {
		case s.lost || s.told.cut && s.status/100 == 2:
		case accepted && slices.Contains([]int{200, 201, 202, 204}, s.status) && (s.says >= saysMuddled || s.says == saysNothing && strings.Contains(s.body, c.orderNo)):
			return true // a failure in the form of a success
		case accepted && s.says >= saysCode && doubt:
			return true // it says success, or that the order exists, although it does not
		case !accepted && s.does <= doesKnow && s.says < saysCreated && slices.Contains(notCreatedStatuses, s.status):
			return true // it created the order, and refuses it without a word of that
		case !accepted && c.proven && s.does == doesCreate && slices.Contains([]int{208, 409, 412}, s.status):
			return true // it created the order, and calls our first attempt a repetition
		}
	}
	return false
}

// notCreatedStatuses are those whose meaning is that no order was created.
var notCreatedStatuses = []int{400, 401, 402, 403, 404, 405, 407, 410, 411, 413, 414, 415, 417, 418, 421, 422, 423, 425, 426, 428, 429, 431, 451, 501, 505, 511}
