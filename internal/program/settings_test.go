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

// TestWrongSetting: the error names the variable, the value and what is wanted.
func TestWrongSetting(t *testing.T) {
	var cfg struct {
		Wait time.Duration `env:"LONGEST_WAIT" envDefault:"1s"`
	}
	err := program.ReadEnv(&cfg, map[string]string{"ORDERPOST_LONGEST_WAIT": "2"})
	require.EqualError(t, err, `ORDERPOST_LONGEST_WAIT: "2" is not a duration such as 500ms, 30s or 2h`)
}
