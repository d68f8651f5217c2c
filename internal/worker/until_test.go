package worker

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/submit"
)

// R10: results were refused, and then the repetition fails for another reason.
// Nobody is left who would try again, so the gate must not stay closed: the
// pool would stand still for ever. Found by the simulation.
func TestR10TheGateOpensWhenNobodyIsLeftToTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signer, err := NewSigner("secret")
		require.NoError(t, err)
		s, err := submit.New(submit.DefaultConfig("http://127.0.0.1:1"), submit.Deps{Keys: submit.StaticKeys{{Key: "key", Signer: signer}}, Log: zerolog.Nop()})
		require.NoError(t, err)
		defer s.Close()
		p := NewPool(PoolOptions{Submitter: s, Concurrency: 1, Log: zerolog.Nop()})
		p.settle = t.Context()
		answers := []error{queue.ErrStorage, queue.ErrStorage, errors.New("the dead letter cannot be removed")}
		var open []bool
		p.untilStored(&queue.Delivery{}, func() (err error) {
			open = append(open, s.Gate().State().Open)
			err, answers = answers[0], answers[1:]
			return err
		})
		require.Equal(t, []bool{true, false, false}, open)
		require.True(t, s.Gate().State().Open)
	})
}
