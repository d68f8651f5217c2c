package e2e

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/sandbox"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/cli/worker"
)

// TestMisspeltSettingsAreTold: by every program, once, by name, without the
// value, with what was probably meant; and nobody is told of what is right.
func TestMisspeltSettingsAreTold(t *testing.T) {
	t.Parallel()
	const variable, value = "ORDERPOST_API_SECRT", "do-not-show"
	settings, _ := api(t)
	p := startWorker(t, settings)
	require.NotContains(t, p.errOut.String(), "is not a setting")
	require.Equal(t, cli.ExitDone, p.end())

	settings[variable] = value
	p = startWorker(t, settings)
	told := p.saw(&p.errOut, `"variable":"`+variable+`"`)
	require.Contains(t, told, variable+" is not a setting, and has no effect; did you mean ORDERPOST_API_SECRET?")
	require.Equal(t, 1, strings.Count(p.errOut.String(), `"variable":"`+variable+`"`))
	require.NotContains(t, p.errOut.String(), value)

	const order = `{"order_no":"A-1","timeout":30}`
	for _, c := range []struct {
		run  cli.RunFunc
		args []string
		said int
	}{
		{worker.Run, []string{"check"}, 1},
		{worker.Run, []string{"fleet"}, 1},
		{worker.Run, []string{"health"}, 0}, // every few seconds
		{enqueue.Run, []string{writeFile(t, "order_no,timeout\nA-1,30\n"), "--dry-run"}, 1},
		{enqueue.Run, []string{"sign", "--explain", writeFile(t, order)}, 1},
		{deadletter.Run, []string{"list"}, 1},
	} {
		_, _, errOut := runProgram(t, c.run, settings, c.args...)
		require.Equal(t, c.said, strings.Count(errOut, variable+" is not a setting, and has no effect; did you mean ORDERPOST_API_SECRET?"), "%v: %s", c.args, errOut)
		require.NotContains(t, errOut, value, c.args)
	}
}

// TestMisspeltSettingsOfTheSandbox: it refuses what begins with its own prefix,
// and leaves the worker's settings alone.
func TestMisspeltSettingsOfTheSandbox(t *testing.T) {
	environ := map[string]string{"ORDERPOST_SANDBX_LATENCY": "1s", "ORDERPOST_LOG_LEVL": "debug"}
	for _, s := range cli.Settings(pool.Config{}) {
		if s.Name != "ORDERPOST_LOG_LEVEL" && s.Name != "ORDERPOST_LOG_FORMAT" { // these are its own, too
			environ[s.Name] = "1"
		}
	}
	p := start(t, "sandbox", sandbox.Run, environ, "--addr", "127.0.0.1:0")
	p.saw(&p.errOut, "Listening on ")
	require.Equal(t, 2, strings.Count(p.errOut.String(), "warning"), p.errOut.String())
	require.Contains(t, p.errOut.String(), "did you mean ORDERPOST_SANDBOX_LATENCY?")
	require.Contains(t, p.errOut.String(), "did you mean ORDERPOST_LOG_LEVEL?")
	require.Equal(t, cli.ExitDone, p.end())

	wrong := maps.Clone(environ)
	wrong["ORDERPOST_SANDBOX_LATENSY"] = "1s"
	code, _, errOut := runProgram(t, sandbox.Run, wrong)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "ORDERPOST_SANDBOX_LATENSY")
}
