package program_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
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
	require.NoError(t, program.ReadEnv(&cfg, map[string]string{}))
	require.Equal(t, "here", cfg.Inner.Addr)
	require.NoError(t, program.ReadEnv(&cfg, map[string]string{"ORDERPOST_ADDR": "", "ORDERPOST_LEVEL": ""}))
	require.Empty(t, cfg.Inner.Addr)
	require.Equal(t, "info", cfg.Level)
}

// TestRenamedSetting: the old name works, the new one wins, and an error names the
// variable that is set.
func TestRenamedSetting(t *testing.T) {
	for _, c := range []struct {
		name    string
		environ map[string]string
		want    time.Duration
		err     string
	}{
		{"neither", nil, time.Second, ""},
		{"the new name", map[string]string{"ORDERPOST_LONGEST_WAIT": "2s"}, 2 * time.Second, ""},
		{"the old name", map[string]string{"ORDERPOST_MOST_WAIT": "3s"}, 3 * time.Second, ""},
		{"both", map[string]string{"ORDERPOST_LONGEST_WAIT": "2s", "ORDERPOST_MOST_WAIT": "3s"}, 2 * time.Second, ""},
		{"the new one is empty", map[string]string{"ORDERPOST_LONGEST_WAIT": "", "ORDERPOST_MOST_WAIT": "3s"}, 3 * time.Second, ""},
		{"the new one is wrong", map[string]string{"ORDERPOST_LONGEST_WAIT": "2"}, 0, `ORDERPOST_LONGEST_WAIT: "2" is not a duration such as 500ms, 30s or 2h`},
		{"the old one is wrong", map[string]string{"ORDERPOST_MOST_WAIT": "3"}, 0, `ORDERPOST_MOST_WAIT: "3" is not a duration such as 500ms, 30s or 2h`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cfg struct {
				Wait time.Duration `env:"LONGEST_WAIT" formerly:"MOST_WAIT" envDefault:"1s" desc:"longest wait"`
			}
			err := program.ReadEnv(&cfg, c.environ)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, cfg.Wait)
			require.Equal(t, "longest wait; formerly ORDERPOST_MOST_WAIT, which still works", program.Settings(cfg)[0].Description)
		})
	}
}
