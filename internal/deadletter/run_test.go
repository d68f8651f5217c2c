package deadletter

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

var anna = settle.Person{Name: "anna", Note: "ticket 17"}

// TestPreviewIsWhatRunDoes, by fate, and letters that came later are untouched.
func TestPreviewIsWhatRunDoes(t *testing.T) {
	r := newRig(t)
	r.letters("SURE", 30, order.Rejected, "rule 2")
	r.letters("DOUBT", 5, order.Unsure, "timeout")
	g := r.all("")
	replay := Replay(r.q, settle.ReplayOptions{})
	expected, err := Preview(t.Context(), r.q, g, replay, Options{})
	require.NoError(t, err)
	require.Equal(t, map[Fate]int{"replayed": 30, "in-doubt": 5}, expected.Fates)
	require.Equal(t, 5, expected.Stayed(replay))
	require.Zero(t, r.pending(), "a preview changes nothing")

	r.letters("LATER", 3, order.Rejected, "rule 2")
	var told []Tally
	done, err := Run(t.Context(), r.q, g, replay, Options{Tell: func(t Tally) { told = append(told, t) }})
	require.NoError(t, err)
	require.Equal(t, expected.Fates, done.Fates)
	require.Equal(t, done, told[len(told)-1])
	r.requirePending(30)
	require.Equal(t, 35+3, r.left(), "until they have their outcome")

	again, err := Run(t.Context(), r.q, g, replay, Options{})
	require.NoError(t, err)
	require.Equal(t, map[Fate]int{"replayed-before": 30, "in-doubt": 5}, again.Fates, "the same group once more")
	require.Equal(t, 5, again.Stayed(replay))
	r.requirePending(30)
}

// Letters that stay are looked at together, and the pace is for the others.
func TestARunAsksOneByOneOnlyForWhatItSends(t *testing.T) {
	r := newRig(t)
	r.letters("DOUBT", 300, order.Unsure, "timeout")
	r.letters("SURE", 2, order.Rejected, "rule 2")
	replay := Replay(r.q, settle.ReplayOptions{})
	singly := make(chan string, 302)
	do := replay.do
	replay.do = func(ctx context.Context, l *settle.Letter) (Fate, error) {
		singly <- l.OrderNo
		return do(ctx, l)
	}
	done, err := Run(t.Context(), r.q, r.all(""), replay, Options{Pace: rate.NewLimiter(0, 2)}) // a third would wait for ever
	require.NoError(t, err)
	require.Equal(t, map[Fate]int{"replayed": 2, "in-doubt": 300}, done.Fates)
	close(singly)
	var asked []string
	for no := range singly {
		asked = append(asked, no)
	}
	require.ElementsMatch(t, []string{"SURE-001", "SURE-002"}, asked)
	r.requirePending(2)
}

// TestChosenLetters: those that were chosen one by one, and a limit.
func TestChosenLetters(t *testing.T) {
	r := newRig(t)
	r.letters("SURE", 6, order.Rejected, "rule 2")
	replay := Replay(r.q, settle.ReplayOptions{})
	g := r.all("")
	var seqs []uint64
	require.NoError(t, g.Walk(t.Context(), r.q, func(page []*settle.Letter, _ int) error {
		for _, l := range page {
			seqs = append(seqs, l.Seq)
		}
		return nil
	}))
	chosen := Group{Last: g.Last, Seqs: []uint64{seqs[4], seqs[1], seqs[5] + 1000}}
	done, err := Run(t.Context(), r.q, chosen, replay, Options{})
	require.NoError(t, err)
	require.Equal(t, map[Fate]int{"replayed": 2}, done.Fates)
	limited, err := Run(t.Context(), r.q, g, replay, Options{Limit: 3})
	require.NoError(t, err)
	require.Equal(t, map[Fate]int{"replayed": 2, "replayed-before": 1}, limited.Fates)
}

// TestStoppedInTheMiddle: nothing is lost, and the same run goes on where it was.
func TestStoppedInTheMiddle(t *testing.T) {
	r := newRig(t)
	r.letters("SURE", 300, order.Rejected, "rule 2")
	replay := Replay(r.q, settle.ReplayOptions{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	pace := rate.NewLimiter(rate.Inf, 1)
	stopped, err := Run(ctx, r.q, r.all(""), replay, Options{Pace: pace, Tell: func(Tally) { stop() }})
	require.ErrorIs(t, err, context.Canceled)
	n := stopped.Fates["replayed"]
	require.Positive(t, n)
	require.Less(t, n, 300)
	r.requirePending(n) // each letter that was begun came to its end
	done, err := Run(t.Context(), r.q, r.all(""), replay, Options{})
	require.NoError(t, err)
	require.Equal(t, map[Fate]int{"replayed": 300 - n, "replayed-before": n}, done.Fates)
	r.requirePending(300)
}

// TestThePageAtTheLimitMayFail: its error is no less an error because the walk ends there.
func TestThePageAtTheLimitMayFail(t *testing.T) {
	r := newRig(t)
	r.letters("SURE", 3, order.Rejected, "rule 2")
	failed := errors.New("no answer")
	preview := newRun(Drop(r.q, anna), Options{Limit: 2})
	_, err := preview.walk(t.Context(), r.q, r.all(""), func(context.Context, []*settle.Letter) error { return failed })
	require.ErrorIs(t, err, failed)
}
