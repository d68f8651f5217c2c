package program_test

import (
	"testing"

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
