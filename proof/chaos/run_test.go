package chaos

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

var documented = regexp.MustCompile("go run \\./proof/cmd/chaos((?: --[a-z-]+(?: [^-`#|\\s][^`#|\\s]*)?)+)")

// TestDocumentedCommands: the flags that the documents and CI give are taken,
// and go together.
func TestDocumentedCommands(t *testing.T) {
	for _, path := range []string{"../../docs/reliability.md", "../../.ci/steps"} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		commands := documented.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, commands, path)
		for _, c := range commands {
			var out, errOut bytes.Buffer
			args := append(strings.Fields(c[1]), "--list-faults")
			require.Equal(t, cli.ExitDone, Run(t.Context(), args, nil, nil, &out, &errOut), "%s: %s: %s", path, c[0], errOut.String())
			require.Contains(t, out.String(), "freeze-worker")
		}
	}
}

var documentedSoak = regexp.MustCompile("go run \\./proof/cmd/chaos (soak(?: --[a-z-]+(?: [^-`#|\\s][^`#|\\s]*)?)+)")

// TestDocumentedSoaks: the same for soaks.
func TestDocumentedSoaks(t *testing.T) {
	for _, path := range []string{"../../docs/reliability.md", "../../.ci/steps"} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		commands := documentedSoak.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, commands, path)
		for _, c := range commands {
			var out, errOut bytes.Buffer
			require.Equal(t, cli.ExitDone, Run(t.Context(), append(strings.Fields(c[1]), "--help"), nil, nil, &out, &errOut), "%s: %s: %s", path, c[0], errOut.String())
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range []string{"--broker kafka", "--on-unsure guess", "--faults plague", "--minutes 0", "--workers 0",
		"--rate 0", "--scenario replay", "--scenario replay --orders 5 --on-unsure park", "--scenario flood --orders 5", "--broker embedded --faults kill-broker", "--broker external --bit-rot", "--broker cluster --faults lame-duck", "--clocks --history /dev/null", "--clocks --broker external --nats-server /bin/true", "--clocks --scenario replay --orders 5",
		"--plant ack-first", "--plant flood --history /dev/null", "soak --for 5s", "soak --for 1m --plant blind", "soak --for 1m --broker kafka"} {
		var out, errOut bytes.Buffer
		require.Equal(t, cli.ExitUsage, Run(t.Context(), strings.Fields(args), nil, nil, &out, &errOut), args)
		require.Contains(t, errOut.String(), "--", args)
		require.Empty(t, out.String())
	}
}
