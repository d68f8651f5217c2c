package cli_test

import (
	"testing"
	"time"

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
