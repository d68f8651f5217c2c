package chaos

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// Only a letter whose removal a worker logged, and that is stored, was brought back.
func TestALetterThatTheBrokerBroughtBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker-1.log")
	file, err := os.Create(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	b := queuetest.Start(t)
	q, err := queue.Open(t.Context(), b.Config("worker-1"), zerolog.New(file).Level(zerolog.DebugLevel))
	require.NoError(t, err)
	t.Cleanup(q.Close)
	letter := func(no string) *settle.Letter {
		queuetest.Publish(t, q, queuetest.Intent(no, no))
		d := queuetest.Pull(t, q, 1)[0]
		queuetest.Settle(t, q, d, queuetest.Report(order.Rejected, d.History))
		return queuetest.Letter(t, q, no)
	}
	gone, back := letter("gone"), letter("back")
	_, err = q.Operator.Drop(t.Context(), gone, settle.Person{Name: "anna"})
	require.NoError(t, err)

	logs := []*process{{log: path}}
	removed, err := removedLetters(logs)
	require.NoError(t, err)
	require.Equal(t, map[uint64]string{gone.Seq: "gone"}, removed)
	again, err := storedAgain(t.Context(), b.JetStream(t), removed)
	require.NoError(t, err)
	require.Empty(t, again)

	removed[back.Seq] = "back" // as if it had been removed
	again, err = storedAgain(t.Context(), b.JetStream(t), removed)
	require.NoError(t, err)
	require.Equal(t, map[uint64]string{back.Seq: "back"}, again)
}
