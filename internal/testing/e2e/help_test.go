package e2e

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/demo"
	"orderpost/internal/cli/orderpost"
)

// TestHelp: the help of every program says what it does, by what it is set, how
// it is used, with examples, and what its exit codes mean.
func TestHelp(t *testing.T) {
	all := map[string]cli.RunFunc{"demo": demo.Run}
	maps.Copy(all, programs)
	for name, run := range all {
		if name == "orderpost" {
			continue // TestHelpOfOrderpost
		}
		text := help(t, run)
		for _, part := range []string{"\nUsage:\n", "\nExamples:\n", "\nFlags:\n", "xit codes: 0 ", "ORDERPOST_", "--version"} {
			assert.True(t, strings.Contains(text, part), "%s --help lacks %q", name, part)
		}
	}
}

// TestHelpOfOrderpost: the same of the one program. The help of every command says what
// it does, with an example, and names commands in full.
func TestHelpOfOrderpost(t *testing.T) {
	text := help(t, orderpost.Run)
	for _, part := range []string{"\nUsage:\n", "\nExamples:\n", "\nFlags:\n", "xit codes: 0 ", "ORDERPOST_", "--version"} {
		assert.Contains(t, text, part)
	}
	alone := regexp.MustCompile(`(^|[ (\x60])(worker|enqueue|deadletter) (--|[A-Z-]+\b|check|health|adopt|repair|hold|resume|limit|fleet|watch|status|results|cancel|order|sign|list|show|export|replay|resolve|drop|audit|journal)\b`)
	for path, cmd := range everyCommand(t) {
		if cmd.Hidden || !cmd.HasParent() {
			continue
		}
		text := help(t, orderpost.Run, strings.Fields(path)[1:]...)
		about, rest, _ := strings.Cut(text, "\nUsage:\n")
		assert.Greater(t, len(about), 100, "%s --help says too little: %s", path, about)
		_, examples, _ := strings.Cut(rest, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		assert.Contains(t, examples, path)
		for _, found := range alone.FindAllString(strings.ReplaceAll(text, "orderpost ", "orderpost:"), -1) {
			assert.Fail(t, "a command as it is not started here", "%s --help: %s", path, found)
		}
	}
}

func help(t *testing.T, run cli.RunFunc, args ...string) string {
	t.Helper()
	code, out, errOut := runProgram(t, run, nil, append(args, "--help")...)
	require.Equal(t, cli.ExitDone, code, errOut)
	return out
}
