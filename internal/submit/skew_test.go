package submit_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

// untilSettled submits an order as a queue does that hands it out again after each
// submission, until an answer settles it.
func (b *bench) untilSettled(ctx context.Context, no string) order.Report {
	r := order.Report{}
	for ctx.Err() == nil {
		if b.Gate().Wait(ctx) != nil {
			break
		}
		r = *b.Submit(ctx, &order.Submission{Order: newOrder(b.t, no), History: r.History})
		if r.End == order.EndAnswer || r.End == order.EndTotalBudget {
			break
		}
	}
	return r
}

// many settles orders at the same time.
func (b *bench) many(ctx context.Context, prefix string, n int) func() []order.Report {
	reports := make([]order.Report, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { reports[i] = b.untilSettled(ctx, fmt.Sprintf("%s-%d", prefix, i)) })
	}
	return func() []order.Report { wg.Wait(); return reports }
}

func (b *bench) block(name string) *gate.BlockState {
	for _, s := range b.Gate().State().Blocks {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// A clock that is ten minutes off shuts the gate, and the gate says so first, with the
// cure and the API's own words. It is never the key's or an order's fault. Once the clock
// is right the gate opens by itself, and every order is accepted.
func TestAWrongClockIsNamedAndHurtsNoOrder(t *testing.T) {
	for skew, text := range map[string]string{"10m": "10m0s behind", "-10m": "10m0s ahead of"} {
		t.Run(skew, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			b := newBench(t, benchConfig{change: func(c *submit.Config) { c.KeyReload = 0 }})
			for _, r := range b.many(ctx, "before", 5)() {
				require.Equal(t, order.Accepted, r.Verdict, r.Error)
			}
			b.set(map[string]string{"skew": skew})
			wait := b.many(ctx, "during", 15)
			require.Eventually(t, func() bool {
				block := b.block(gate.BlockClock)
				return block != nil && strings.HasPrefix(block.Reason, "this machine's clock is "+text+" the API's: set it, or ORDERPOST_CLOCK=server. ") &&
					strings.Contains(block.Reason, "the timestamp is outside the window")
			}, 10*time.Second, time.Millisecond, "%+v", b.Gate().State().Blocks)
			require.Nil(t, b.block(gate.BlockCredentials), "the key is not suspected")
			require.Empty(t, b.Notes(), "the block says it")
			require.Contains(t, b.log.String(), "clock is "+text)
			require.NotContains(t, b.log.String(), "is the secret right?")

			b.set(map[string]string{"skew": "0s"})
			for _, r := range wait() {
				require.Equal(t, order.Accepted, r.Verdict, "%s %s", r.Reason, r.Error)
				require.Equal(t, order.EndAnswer, r.End)
			}
			require.Eventually(t, func() bool { return b.Gate().State().Open }, 10*time.Second, time.Millisecond)
			require.Empty(t, b.Notes())
		})
	}
}

// A deadline is judged by the API's clock once this machine's is known to be wrong: ahead of
// it, it would let orders expire that have time left; behind it, late ones would be posted.
func TestADeadlineIsJudgedByTheAPIsClockWhileOursIsWrong(t *testing.T) {
	for skew, left := range map[string]time.Duration{"10m": 5 * time.Minute, "-10m": -5 * time.Minute} {
		t.Run(skew, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			b := newBench(t, benchConfig{settings: map[string]string{"skew": skew}})
			require.NoError(t, b.Preflight(ctx))
			wrong := func(no string) order.Report {
				short, stop := context.WithTimeout(ctx, 300*time.Millisecond) // it may wait at a shut gate, or be handed back
				defer stop()
				return *b.Submit(short, &order.Submission{Order: newOrder(t, no), Deadline: time.Now().Add(left)})
			}
			if left > 0 {
				require.Equal(t, order.EndDeadline, wrong("late").End, "the API is ten minutes further")
				return
			}
			require.NotEqual(t, order.EndDeadline, wrong("in-time").End, "five minutes are left by the API's clock")
			b.set(map[string]string{"skew": "0s"})
			require.NoError(t, b.Preflight(ctx)) // two answers that agree: the clock was put right
			require.NoError(t, b.Preflight(ctx))
			require.Equal(t, order.EndDeadline, wrong("over").End)
		})
	}
}

// With ORDERPOST_CLOCK=server a jump of the API's clock costs each order one more attempt
// at most. Timestamps of the time before the jump do not stay.
func TestServerClockFollowsAJump(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := newBench(t, benchConfig{settings: map[string]string{"skew": "10m"}, change: func(c *submit.Config) { c.Clock = submit.ClockServer }})
	for i, skew := range []string{"10m", "0s", "-10m", "10m"} {
		b.set(map[string]string{"skew": skew})
		for _, r := range b.many(ctx, fmt.Sprint("jump-", i), 20)() {
			require.Equal(t, order.Accepted, r.Verdict, "%s: %s %s", skew, r.Reason, r.Error)
			require.LessOrEqual(t, r.History.Attempts, 3)
		}
		require.Nil(t, b.block(gate.BlockClock))
		require.NotContains(t, b.log.String(), "is denied", "no key is suspected")
	}
}

// An order whose earlier attempts were stamped by a clock that was ten minutes ahead is
// posted with the present time.
func TestATimestampOfAWrongClockDoesNotStay(t *testing.T) {
	b := newBench(t, benchConfig{})
	used := order.NextTimestamp(0, time.Now().Add(10*time.Minute).UnixMilli()) // its digits count no rewinds
	r := b.submit("ahead", order.History{Attempts: 2, FirstAttemptAt: time.Now(), LastAttemptAt: time.Now(), LastTimestamp: used})
	require.Equal(t, order.Accepted, r.Verdict, "%s %s", r.Reason, r.Error)
	require.InDelta(t, time.Now().UnixMilli(), r.History.LastTimestamp, 5000)

	for range 12 { // no rewinds are left: it waits for its own timestamps, and nobody else does
		used = order.NextTimestamp(used, time.Now().UnixMilli())
		used += (10 * time.Minute).Milliseconds()
	}
	r = b.submit("worn", order.History{Attempts: 2, FirstAttemptAt: time.Now(), LastAttemptAt: time.Now(), LastTimestamp: used})
	require.Equal(t, order.EndSubmissionBudget, r.End, r.Error)
	require.True(t, b.Gate().State().Open)
}

// A wrong secret beside a right clock is named as before, with the API's answer.
func TestAWrongSecretIsNamedWithTheAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := newBench(t, benchConfig{secret: "other"})
	wait := b.many(ctx, "n", 2)
	require.Eventually(t, func() bool {
		block := b.block(gate.BlockCredentials)
		return block != nil && strings.Contains(block.Reason, "is the secret right?") && strings.Contains(block.Reason, "the signature does not match")
	}, 10*time.Second, time.Millisecond)
	require.NotContains(t, b.block(gate.BlockCredentials).Reason, "clock")
	cancel()
	wait()
}
