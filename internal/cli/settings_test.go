package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/platform/secret"
)

// TestEmptySettings: an empty variable is as good as none, but where empty has
// a meaning of its own.
func TestEmptySettings(t *testing.T) {
	var cfg struct {
		Inner struct {
			Addr string `env:"ADDR" envDefault:"here" empty:"kept"`
		}
		Level string `env:"LEVEL" envDefault:"info"`
	}
	require.NoError(t, cli.ReadEnv(&cfg, map[string]string{}))
	require.Equal(t, "here", cfg.Inner.Addr)
	require.NoError(t, cli.ReadEnv(&cfg, map[string]string{"ORDERPOST_ADDR": "", "ORDERPOST_LEVEL": ""}))
	require.Empty(t, cfg.Inner.Addr)
	require.Equal(t, "info", cfg.Level)
}

// TestWrongSetting: the error names the variable, the value and what is wanted.
func TestWrongSetting(t *testing.T) {
	var cfg struct {
		Wait time.Duration `env:"LONGEST_WAIT" envDefault:"1s"`
	}
	for value, want := range map[string]string{
		"2":        `"2" is not a duration such as 500ms, 30s or 2h, at most 876000h (100 years)`,
		"2562048h": `"2562048h" is not a duration such as 500ms, 30s or 2h, at most 876000h (100 years)`,
		"2562047h": `2562047h0m0s is too long; give at most 876000h (100 years)`,
		"-1s":      `-1s is below 0`,
	} {
		err := cli.ReadEnv(&cfg, map[string]string{"ORDERPOST_LONGEST_WAIT": value})
		require.EqualError(t, err, "ORDERPOST_LONGEST_WAIT: "+want)
		require.Equal(t, time.Second, cfg.Wait, "so that nothing else is said of it")
	}
}

// TestWrappedSetting: a folder's name with a line end is another folder, with empty books, and
// a secret in quotes is another secret.
func TestWrappedSetting(t *testing.T) {
	for value, bare := range map[string]string{
		"my data": "", `it's`: "", `"`: "", "": "",
		"data\r": "data", "data\n": "data", " data": "data", `"data"`: "data", "'data'\r": "data", "  ": "",
	} {
		var cfg struct {
			Dir  string      `env:"DIR"`
			Word secret.Text `env:"WORD"`
			Many int         `env:"MANY"`
		}
		err := cli.ReadEnv(&cfg, map[string]string{"ORDERPOST_DIR": value, "ORDERPOST_WORD": value, "ORDERPOST_MANY": "5"})
		if bare == "" && value != "  " {
			require.NoError(t, err, "%q", value)
			require.Equal(t, value, cfg.Dir)
			continue
		}
		const says = " has a blank, a line end or quotes around its value, as a file of settings with CRLF or quotes leaves them; remove them"
		require.EqualError(t, err, "ORDERPOST_DIR:"+says+"\nORDERPOST_WORD:"+says)
		require.Equal(t, bare, cfg.Dir, "so that nothing else is said of it")
		require.Equal(t, bare, string(cfg.Word))
	}
	var cfg struct {
		Many int `env:"MANY"`
	}
	require.ErrorContains(t, cli.ReadEnv(&cfg, map[string]string{"ORDERPOST_MANY": "5\r"}), "ORDERPOST_MANY: has a blank")
	require.Equal(t, 5, cfg.Many)
}

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
