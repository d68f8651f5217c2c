package queue

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestPasswordsStayOutOfURLs(t *testing.T) {
	for in, want := range map[string]string{
		"nats://127.0.0.1:4222":                "nats://127.0.0.1:4222",
		"nats://ann:hunter2@host:4222":         "nats://***@host:4222",
		"nats://token@host, tls://a:p@b@c:1,d": "nats://***@host,tls://***@c:1,d",
		"ann:hunter2@host":                     "***@host",
		"":                                     "",
	} {
		require.Equal(t, want, RedactURL(in))
	}
}

func TestErrorsOfOpenHoldNoPassword(t *testing.T) {
	for name, url := range map[string]string{
		"nobody listens": "nats://ann:hunter2@127.0.0.1:1",
		"not a URL":      "nats://ann:hunter2@127.0.0.1:port",
		"bad characters": "nats://ann:hunter2@ho st:4222",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.URL, cfg.ConnectTimeout = url, 10*time.Millisecond
			_, err := Open(t.Context(), cfg, zerolog.Nop())
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hunter2")
			if name == "nobody listens" {
				require.ErrorIs(t, err, ErrUnreachable)
				require.ErrorContains(t, err, "127.0.0.1:1")
			}
		})
	}
}

func TestRefusedCredentialsAreReportedAtOnce(t *testing.T) {
	s := startBroker(t)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.ConnectTimeout = s.URL, "wrong", time.Hour
	_, err := Open(t.Context(), cfg, zerolog.Nop())
	require.ErrorContains(t, err, "refused our credentials")
}
