package cli_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

var someSettings = cli.Settings(struct {
	Concurrency int    `env:"CONCURRENCY"`
	URL         string `env:"NATS_URL"`
	Creds       string `env:"NATS_CREDS"`
	KeyFile     string `env:"API_KEY_FILE"`
}{})

func TestUnknownSettings(t *testing.T) {
	for _, c := range []struct {
		name    string
		environ map[string]string
		want    []cli.Unknown
	}{
		{"known ones, and those of others", map[string]string{"ORDERPOST_CONCURRENCY": "1", "CONCURENCY": "1", "PATH": "/", "ORDERPOST": "x"}, nil},
		{"a letter is missing, two are swapped, one is too many", map[string]string{"ORDERPOST_CONCURENCY": "1", "ORDERPOST_NATS_ULR": "", "ORDERPOST_API_KEY__FILE": "key"},
			[]cli.Unknown{{Name: "ORDERPOST_API_KEY__FILE", Nearest: "ORDERPOST_API_KEY_FILE"}, {Name: "ORDERPOST_CONCURENCY", Nearest: "ORDERPOST_CONCURRENCY"}, {Name: "ORDERPOST_NATS_ULR", Nearest: "ORDERPOST_NATS_URL"}}},
		{"nothing is like it", map[string]string{"ORDERPOST_TURBO": "on", "ORDERPOST_": ""}, []cli.Unknown{{Name: "ORDERPOST_"}, {Name: "ORDERPOST_TURBO"}}},
		{"the sandbox's own", map[string]string{"ORDERPOST_SANDBOX_LATENSY": "1s"}, nil},
		{"not quite the sandbox's", map[string]string{"ORDERPOST_SANDBX_LATENCY": "1s"}, []cli.Unknown{{Name: "ORDERPOST_SANDBX_LATENCY"}}},
		{"set by Kubernetes", map[string]string{
			"ORDERPOST_SERVICE_HOST": "10.0.0.1", "ORDERPOST_SERVICE_PORT": "80", "ORDERPOST_SERVICE_PORT_OPS": "80", "ORDERPOST_PORT": "tcp://10.0.0.1:80",
			"ORDERPOST_PORT_80_TCP_ADDR": "10.0.0.1", "ORDERPOST_WORKER_SERVICE_HOST": "10.0.0.2", "ORDERPOST_WORKER_PORT_80_TCP": "tcp://10.0.0.2:80"}, nil},
		{"not set by Kubernetes", map[string]string{"ORDERPOST_PORT": "80"}, []cli.Unknown{{Name: "ORDERPOST_PORT"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, cli.UnknownSettings(c.environ, someSettings))
		})
	}
}

// TestWarnUnknown: once, by name, without the value, for subcommands as well.
func TestWarnUnknown(t *testing.T) {
	environ := map[string]string{"ORDERPOST_NATS_ULR": "nats://secret@host", "ORDERPOST_TURBO": "on"}
	const want = "tool: warning: ORDERPOST_NATS_ULR is not a setting, and has no effect; did you mean ORDERPOST_NATS_URL?\n" +
		"tool: warning: ORDERPOST_TURBO is not a setting, and has no effect\n"
	for args, said := range map[string]string{"": want, "sub": want, "often": "", "--version": ""} {
		root := &cobra.Command{Use: "tool", Run: func(*cobra.Command, []string) {}}
		for _, name := range []string{"sub", "often"} {
			root.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
		}
		cli.WarnUnknown(root, environ, someSettings, "often")
		var out, errOut strings.Builder
		require.Equal(t, cli.ExitDone, cli.Execute(t.Context(), root, strings.Fields(args), nil, &out, &errOut))
		require.Equal(t, said, errOut.String(), args)
	}
}
