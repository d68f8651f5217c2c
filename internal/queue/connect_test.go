package queue

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestRefusedCredentialsAreReportedAtOnce(t *testing.T) {
	s := startBroker(t)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.ConnectTimeout = s.URL, "wrong", time.Hour
	_, err := Open(t.Context(), cfg, zerolog.Nop())
	require.ErrorContains(t, err, "refused our credentials")
}

// A worker that does not know who else is present could change the AckWait that
// running workers rely on.
func TestAWorkerMustKnowWhoElseIsPresent(t *testing.T) {
	s := startBroker(t)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Worker = s.URL, s.Token, true
	_, err := Open(t.Context(), cfg, zerolog.Nop())
	require.ErrorContains(t, err, "Config.Living is not set")
}
