package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestPasswordsStayOutOfURLs(t *testing.T) {
	for in, want := range map[string]string{
		"nats://127.0.0.1:4222":                            "nats://127.0.0.1:4222",
		"nats://[::1]:4222,tls://nats-2.example":           "nats://[::1]:4222,tls://nats-2.example",
		"nats://ann:hunter2@host:4222":                     "nats://***@host:4222",
		"nats://token@host, tls://a:p@b@c:1,d":             "nats://***@host,tls://***@c:1,d",
		"ann:hunter2@host":                                 "***@host",
		"host:4222,ann:hunter2@other:4222":                 "***@other:4222",
		"":                                                 "",
		"nats://ann:hun/ter2@host:4222":                    "nats://***@host:4222",
		"nats://ann:hun#ter2@host:4222":                    "nats://***@host:4222",
		"nats://ann:hun?ter2@host:4222":                    "nats://***@host:4222",
		"nats://ann:hun,ter2@host:4222":                    "nats://***@host:4222",
		"nats://ann:12,34@host:4222,nats://b:5/6@c":        "nats://***@host:4222,nats://***@c",
		"nats://ann:12?34=5@host:4222":                     "nats://***",
		"nats://ann:hunter2":                               "nats://***",
		"nats://ann:hunter2#":                              "nats://***",
		"nats://host:4222?token=hunter2":                   "nats://host:4222/***",
		"nats://host:4222/?token=hun@ter2,nats://two":      "nats://***,nats://two",
		"nats://one:4222,nats://two?token=hunter2":         "nats://one:4222,nats://two/***",
		"hunter2 is my password":                           "***",
		"nats://host:4222/, nats://ann:hun://ter2@b":       "nats://host:4222/,nats://***@b",
		" nats://host:4222 ,  wss://ann:hunter2@c/nats/ws": "nats://host:4222,wss://***@c/***",
	} {
		require.Equal(t, want, RedactURL(in), in)
	}
}

func TestSchemeAndPortOfURLs(t *testing.T) {
	for url, wrong := range map[string]string{
		"":                                 "",
		"host":                             "",
		"nats://host:65535":                "",
		"tls://one, wss://two/nats":        "",
		"http://host:4222":                 "ORDERPOST_NATS_URL: http://host:4222: the scheme is nats, tls, ws or wss",
		"nats://ann:word@one,mqtt://two":   "ORDERPOST_NATS_URL: nats://***@one,mqtt://two: the scheme is nats, tls, ws or wss",
		"nats://host:42222222":             "ORDERPOST_NATS_URL: nats://***: a port is a number from 1 to 65535",
		"nats://one:4222,nats://a:b@two:0": "ORDERPOST_NATS_URL: nats://one:4222,nats://***@two:0: a port is a number from 1 to 65535",
		"host:99999":                       "ORDERPOST_NATS_URL: host:99999: a port is a number from 1 to 65535",
	} {
		err := checkURLs(url)
		if wrong == "" {
			require.NoError(t, err, url)
			continue
		}
		require.EqualError(t, err, wrong)
	}
}

// TestURLsAreCheckedBeforeTheyAreDialled: the client would dial other hosts and
// ports than these settings mean.
func TestURLsAreCheckedBeforeTheyAreDialled(t *testing.T) {
	for name, url := range map[string]string{
		"slash": "nats://ann:12/hunter2@127.0.0.1:1", "hash": "nats://ann:12#hunter2@127.0.0.1:1",
		"question mark": "nats://ann:12?hunter2@127.0.0.1:1", "comma": "nats://ann:hun,hunter2@127.0.0.1:1",
		"letters before a slash": "nats://ann:hunter2/@127.0.0.1:1", "token as a parameter": "nats://127.0.0.1:1?token=hunter2",
		"second of two": "nats://127.0.0.1:1,nats://127.0.0.1:1/?token=hunter2", "no scheme": "127.0.0.1:1?token=hunter2",
		"bad characters": "nats://ann:hunter2@ho st:4222", "not a port": "nats://ann:hunter2@127.0.0.1:port",
		"bad escape": "nats://ann:%zzhunter2@127.0.0.1:1", "no host": "nats://", "empty": "nats://127.0.0.1:1,",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.URL, cfg.ConnectTimeout = url, time.Nanosecond
			err := cfg.Validate()
			require.ErrorContains(t, err, "ORDERPOST_NATS_URL: ")
			require.ErrorContains(t, err, "%2F")
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "ann")
			_, err = Open(t.Context(), cfg, zerolog.Nop())
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
	for _, url := range []string{"", "127.0.0.1:1", "nats://a:1,tls://b,c:3", "nats://ann:hun%2Fter2@127.0.0.1:1", "nats://host:4222/", "wss://host/nats/ws", "nats://[::1]:4222"} {
		cfg := DefaultConfig()
		cfg.URL = url
		require.NoError(t, cfg.Validate(), url)
	}
}

func TestErrorsOfOpenHoldNoPassword(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URL, cfg.ConnectTimeout = "nats://ann:hunter2@127.0.0.1:1", 10*time.Millisecond
	_, err := Open(t.Context(), cfg, zerolog.Nop())
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.False(t, strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ann"), err.Error())
}
