package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/queuetest"
)

// check --answer judges as a worker would that has seen no answer yet.
func TestCheckAnswerJudgesAsAWorkerDoes(t *testing.T) {
	for _, c := range []struct {
		status, orderNo, answer string
		want                    []string // in the text
		verdict                 string
	}{
		{"409", "", `{"message":"order was NOT created"}`, []string{"status 409, but it says that the order was not created", "is held: "}, "unsure"},
		{"409", "", `{"message":"order exists"}`, []string{"no code in it says that the order exists", "is held: ", "its words suggest duplicate"}, "unsure"},
		{"409", "", `{"error":"ORDER_EXISTS"}`, []string{"accepted: ", "goes on"}, "duplicate"},
		{"200", "", `{"id":1}`, []string{"it neither says success nor repeats our order_no", "is held: "}, "unsure"},
		{"200", "A-1", `{"order_no":"A-1"}`, []string{"goes on"}, "accepted"},
		{"200", "A-1", `{"order_no":"B-1"}`, []string{"is held: ", "about another order"}, "unsure"},
		{"303", "", `{}`, []string{"is held: ", "ORDERPOST_API_URL"}, "unsure"},
		{"407", "", ``, []string{"a proxy on the way asks for credentials"}, "retry"},
	} {
		run := func(more ...string) string {
			var out bytes.Buffer
			cmd := newCheckCommand(map[string]string{})
			cmd.SetIn(strings.NewReader(c.answer))
			cmd.SetOut(&out)
			cmd.SetArgs(append([]string{"--answer", "-", "--status", c.status, "--order-no", c.orderNo}, more...))
			require.NoError(t, cmd.Execute())
			return out.String()
		}
		text := run()
		for _, want := range c.want {
			require.Contains(t, text, want)
		}
		var v struct{ Verdict string }
		require.NoError(t, json.Unmarshal([]byte(run("--json")), &v, json.MatchCaseInsensitiveNames(true)))
		require.Equal(t, c.verdict, v.Verdict, text)
	}
}

// check --broker asks each server for its version, and fails for one that programs refuse.
func TestCheckBrokerSaysTheVersions(t *testing.T) {
	s := queuetest.Start(t)
	var urls []string
	for _, version := range []string{"2.15.0", "2.12.10"} {
		as, err := netcut.NewImpostor(strings.TrimPrefix(s.URL, "nats://"), version)
		require.NoError(t, err)
		t.Cleanup(as.Close)
		urls = append(urls, strings.Replace(as.URL(), "nats://", "nats://"+s.Token+"@", 1))
	}
	run := func(nats string) (string, error) {
		var out bytes.Buffer
		cmd := newCheckCommand(map[string]string{"ORDERPOST_API_URL": "https://api.example.com", "ORDERPOST_API_KEY": "k", "ORDERPOST_API_SECRET": "s",
			"ORDERPOST_NATS_URL": nats, "ORDERPOST_DATA_DIR": t.TempDir()})
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs([]string{"--broker"})
		err := cmd.ExecuteContext(t.Context())
		require.NotContains(t, out.String(), s.Token)
		return out.String(), err
	}
	text, err := run("")
	require.NoError(t, err)
	require.Contains(t, text, "compiled in: nats-server "+embedded.Version+"\n")

	text, err = run(urls[0])
	require.NoError(t, err)
	require.Contains(t, text, "nats-server 2.15.0\n  warning: ")
	require.Contains(t, text, "#8629")

	text, err = run(strings.Join(urls, ","))
	require.ErrorContains(t, err, "nats-server 2.12.10 is older than")
	require.Equal(t, cli.ExitFailed, exitCode(t, err))
	require.Contains(t, text, "nats-server 2.15.0\n")
	require.Contains(t, text, "nats-server 2.12.10, refused\n")

	s.Stop()
	_, err = run(urls[0])
	require.Equal(t, cli.ExitUnreachable, exitCode(t, err))
}

// TestCheckSaysOneThingOfAValue: of one that cannot be read, what was seen and what it may be, and nothing of
// the zero that stands in for it.
func TestCheckSaysOneThingOfAValue(t *testing.T) {
	var out bytes.Buffer
	code := Run(t.Context(), []string{"check"}, map[string]string{
		"ORDERPOST_API_URL": "https://api.example.com", "ORDERPOST_API_KEY": "k", "ORDERPOST_API_SECRET": "s",
		"ORDERPOST_REQUEST_TIMEOUT": "30", "ORDERPOST_CONCURRENCY": "1e3", "ORDERPOST_ON_UNSURE": "Park",
	}, nil, &out, &out)
	require.Equal(t, cli.ExitUsage, code, &out)
	require.Equal(t, 1, strings.Count(out.String(), "ORDERPOST_REQUEST_TIMEOUT"), &out)
	require.Equal(t, 1, strings.Count(out.String(), "ORDERPOST_CONCURRENCY"), &out)
	require.Contains(t, out.String(), `ORDERPOST_ON_UNSURE: unknown policy "Park": expected one of ["resubmit" "park"]`)
}

// TestCheckReadsEveryFile that the worker would read before it works, and its broker's address, and names
// all that cannot be used at once.
func TestCheckReadsEveryFile(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no certificate\n"), 0o600))
	var out bytes.Buffer
	code := Run(t.Context(), []string{"check"}, map[string]string{
		"ORDERPOST_API_URL": "https://api.example.com", "ORDERPOST_API_KEY": "k", "ORDERPOST_API_SECRET": "s", "ORDERPOST_API_CA_FILE": text,
		"ORDERPOST_ORDER_SCHEMA": none, "ORDERPOST_RULES": none, "ORDERPOST_NATS_LISTEN": "0.0.0.0:4222",
		"ORDERPOST_GATEWAY_LISTEN": "127.0.0.1:0", "ORDERPOST_GATEWAY_CLIENTS": none, "ORDERPOST_GATEWAY_TLS_CERT_FILE": text, "ORDERPOST_GATEWAY_TLS_KEY_FILE": none,
		"ORDERPOST_NOTIFY_URL": "https://hooks.example.com", "ORDERPOST_NOTIFY_SECRET_FILE": none,
	}, nil, &out, &out)
	require.Equal(t, cli.ExitUsage, code, &out)
	for _, name := range []string{"API_CA_FILE: ", "ORDER_SCHEMA: ", "RULES: ", "NATS_LISTEN: ", "GATEWAY_CLIENTS: ", "GATEWAY_TLS_CERT_FILE: ", "NOTIFY_SECRET_FILE: "} {
		require.Contains(t, out.String(), "ORDERPOST_"+name)
	}
}

// TestCheckEndsAsTheWorkerWould: each of these ends a worker's start with exit code 2.
func TestCheckEndsAsTheWorkerWould(t *testing.T) {
	for name, value := range map[string]string{"ORDERPOST_OPS_ADDR": "127.0.0.1:99999", "ORDERPOST_GATEWAY_LISTEN": "127.0.0.1:99999",
		"ORDERPOST_LOG_LEVEL": "disabled"} {
		var out bytes.Buffer
		code := Run(t.Context(), []string{"check"}, map[string]string{
			"ORDERPOST_API_URL": "https://api.example.com", "ORDERPOST_API_KEY": "k", "ORDERPOST_API_SECRET": "s", name: value}, nil, &out, &out)
		require.Equal(t, cli.ExitUsage, code, name)
		require.Contains(t, out.String(), name+": \""+value+"\" is not ")
	}
}

// TestCheckRefusesAbsurdTimes: a result that is kept "for ever" would have expired before it is written.
func TestCheckRefusesAbsurdTimes(t *testing.T) {
	seen := 0
	for _, s := range cli.Settings(pool.Config{}) {
		if _, err := time.ParseDuration(s.Default); err != nil || s.Default == "0" {
			continue
		}
		seen++
		for _, value := range []string{"2562047h", "9999999h", "876001h", "-1s", "-2562047h"} {
			var out bytes.Buffer
			code := Run(t.Context(), []string{"check"}, map[string]string{
				"ORDERPOST_API_URL": "https://api.example.com", "ORDERPOST_API_KEY": "k", "ORDERPOST_API_SECRET": "s", s.Name: value}, nil, &out, &out)
			require.Equal(t, cli.ExitUsage, code, "%s=%s: %s", s.Name, value, out.String())
			require.Contains(t, out.String(), s.Name+": ")
			require.Equal(t, 1, strings.Count(out.String(), s.Name), "it is said once: %s", out.String())
		}
	}
	require.Greater(t, seen, 9)
}

// TestHoldRefusesAbsurdTimes: a flag has the same bounds as a setting.
func TestHoldRefusesAbsurdTimes(t *testing.T) {
	for value, want := range map[string]string{"-1s": "is below 0", "2562047h": "is too long; give at most 876000h (100 years)", "1e9h": "is not a duration"} {
		var out bytes.Buffer
		require.Equal(t, cli.ExitUsage, Run(t.Context(), []string{"hold", "--for", value}, map[string]string{}, nil, &out, &out))
		require.Contains(t, out.String(), want)
	}
}

// --answer judges an answer, and --broker asks servers: together they are wrong usage.
func TestCheckAnswerOrBroker(t *testing.T) {
	var errOut bytes.Buffer
	code := Run(t.Context(), []string{"check", "--answer", "x", "--broker"}, map[string]string{}, nil, &errOut, &errOut)
	require.Equal(t, cli.ExitUsage, code, &errOut)
	require.Contains(t, errOut.String(), "check --help)")
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *cli.ExitError
	require.ErrorAs(t, err, &exit)
	return exit.Code
}

// Replicas need several servers, and the broker in a worker is one.
func TestCheckRefusesReplicasOfTheBrokerInTheWorker(t *testing.T) {
	environ := map[string]string{"ORDERPOST_API_URL": "https://api.example", "ORDERPOST_API_KEY": "k", "ORDERPOST_API_SECRET": "s", "ORDERPOST_REPLICAS": "3"}
	check := func() error {
		cmd := newCheckCommand(environ)
		cmd.SetOut(new(bytes.Buffer))
		cmd.SetArgs(nil)
		return cmd.Execute()
	}
	require.ErrorContains(t, check(), "ORDERPOST_REPLICAS: 3 needs a NATS cluster")
	environ["ORDERPOST_NATS_URL"] = "nats://127.0.0.1:4222"
	require.NoError(t, check())
}
