package cli_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

func TestExitCode(t *testing.T) {
	cause := errors.New("no route")
	unreachable := &cli.ExitError{Code: cli.ExitUnreachable, Err: cause}
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{cause, 1},
		{unreachable, 4},
		{fmt.Errorf("importing: %w", unreachable), 4},
		{&cli.ExitError{Code: cli.ExitInterrupted}, 130},
	} {
		require.Equal(t, c.code, cli.ExitCode(c.err), "%v", c.err)
	}
	require.ErrorIs(t, unreachable, cause)
	require.Equal(t, "no route", unreachable.Error())
	require.Equal(t, "exit status 130", (&cli.ExitError{Code: 130}).Error())
}
