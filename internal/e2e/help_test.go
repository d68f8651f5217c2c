package e2e

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
	"orderpost/internal/program/demo"
	"orderpost/internal/program/orderpost"
)

// subcommand is a line of cobra's list of commands.
var subcommand = regexp.MustCompile(`(?m)^  ([a-z-]+) +\S`)

// TestHelp: the help of every program says what it does, by what it is set, how
// it is used, with examples, and what its exit codes mean; that of every command
// what it does, with an example.
func TestHelp(t *testing.T) {
	all := map[string]program.RunFunc{"demo": demo.Run}
	maps.Copy(all, programs)
	for name, run := range all {
		if name == "orderpost" {
			continue // TestHelpOfOrderpost
		}
		text := help(t, run)
		for _, part := range []string{"\nUsage:\n", "\nExamples:\n", "\nFlags:\n", "xit codes: 0 ", "ORDERPOST_", "--version"} {
			assert.True(t, strings.Contains(text, part), "%s --help lacks %q", name, part)
		}
		_, commands, _ := strings.Cut(text, "\nAvailable Commands:\n")
		commands, _, _ = strings.Cut(commands, "\nFlags:\n")
		for _, m := range subcommand.FindAllStringSubmatch(commands, -1) {
			if m[1] == "help" || m[1] == "completion" {
				continue
			}
			text := help(t, run, m[1])
			about, _, _ := strings.Cut(text, "\nUsage:\n")
			assert.Greater(t, len(about), 100, "%s %s --help says too little: %s", name, m[1], about)
			assert.True(t, strings.Contains(text, "\nExamples:\n  "+name+" "+m[1]), "%s %s --help has no example", name, m[1])
		}
	}
}

// TestHelpOfOrderpost: the same of the one program, whose examples are spelled
// as they are started there.
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

func help(t *testing.T, run program.RunFunc, args ...string) string {
	t.Helper()
	code, out, errOut := runProgram(t, run, nil, append(args, "--help")...)
	require.Equal(t, program.ExitDone, code, errOut)
	return out
}
