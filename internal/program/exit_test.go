package program_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
)

func TestExitCode(t *testing.T) {
	cause := errors.New("no route")
	unreachable := &program.ExitError{Code: program.ExitUnreachable, Err: cause}
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{cause, 1},
		{unreachable, 4},
		{fmt.Errorf("importing: %w", unreachable), 4},
		{&program.ExitError{Code: program.ExitInterrupted}, 130},
	} {
		require.Equal(t, c.code, program.ExitCode(c.err), "%v", c.err)
	}
	require.ErrorIs(t, unreachable, cause)
	require.Equal(t, "no route", unreachable.Error())
	require.Equal(t, "exit status 130", (&program.ExitError{Code: 130}).Error())
}
