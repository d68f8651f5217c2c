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

func help(t *testing.T, run program.RunFunc, args ...string) string {
	t.Helper()
	code, out, errOut := runProgram(t, run, nil, append(args, "--help")...)
	require.Equal(t, program.ExitDone, code, errOut)
	return out
}
