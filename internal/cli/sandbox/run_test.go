package sandbox_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	program_sandbox "orderpost/internal/cli/sandbox"
	"orderpost/internal/sandbox"
	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) { patient.Main(m) }

// running is the program, started.
type running struct {
	url    string
	stop   context.CancelFunc
	code   chan int
	stdout strings.Builder
	stderr strings.Builder
	read   chan struct{}
}

var listensOn = regexp.MustCompile(`Listening on (\S+)`)

// start runs the program until it says where it listens.
func start(t *testing.T, environ map[string]string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{stop: cancel, code: make(chan int, 1), read: make(chan struct{})}
	from, to := io.Pipe()
	go func() {
		r.code <- program_sandbox.Run(ctx, append([]string{"--addr", "127.0.0.1:0"}, args...), environ, nil, &r.stdout, to)
		to.Close()
	}()
	urls := make(chan string, 1)
	go func() {
		defer close(r.read)
		defer close(urls)
		for lines := bufio.NewScanner(from); lines.Scan(); {
			r.stderr.WriteString(lines.Text() + "\n")
			if m := listensOn.FindStringSubmatch(lines.Text()); m != nil {
				urls <- m[1]
			}
		}
	}()
	r.url = <-urls
	if r.url == "" {
		<-r.read
		require.Fail(t, "it does not listen", r.stderr.String())
	}
	t.Cleanup(func() { cancel(); <-r.read })
	return r
}

// end stops the program and gives its exit code; then its output may be read.
func (r *running) end() int {
	r.stop()
	<-r.read
	return <-r.code
}

func get(t *testing.T, url, key string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("X-API-Key", key)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

func TestRunUntilStopped(t *testing.T) {
	r := start(t, nil)
	status, _ := get(t, r.url+"/v1/account", "sandbox-key")
	require.Equal(t, 200, status)
	require.Zero(t, r.end())
	for _, line := range []string{"export ORDERPOST_API_URL=" + r.url, "export ORDERPOST_API_KEY=sandbox-key",
		"export ORDERPOST_API_SECRET=sandbox-secret", "This is a sandbox"} {
		require.Contains(t, r.stderr.String(), line)
	}
	require.NotContains(t, r.stderr.String(), "Warning")
	require.Regexp(t, `requests +1\n +account +1\n`, r.stdout.String())
}

func TestTLS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	r := start(t, nil, "--tls", "--tls-ca-file", file)
	require.True(t, strings.HasPrefix(r.url, "https://"))
	pem, err := os.ReadFile(file)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get(r.url + "/v1/account")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 401, res.StatusCode)
	transport.CloseIdleConnections()
	require.Zero(t, r.end())
	require.Contains(t, r.stderr.String(), "export ORDERPOST_API_CA_FILE="+file)
	require.NoFileExists(t, file)

	var stderr strings.Builder
	require.Equal(t, cli.ExitFailed, program_sandbox.Run(t.Context(), []string{"--addr", "127.0.0.1:0", "--tls", "--tls-ca-file", "/nonexistent/ca.pem"}, nil, nil, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "tls-ca-file: open /nonexistent/ca.pem")
}

func TestSummaryAsJSON(t *testing.T) {
	r := start(t, nil, "--json")
	get(t, r.url+"/v1/account", "nobody")
	require.Zero(t, r.end())
	var l sandbox.Ledger
	require.NoError(t, json.Unmarshal([]byte(r.stdout.String()), &l), "stdout is JSON and nothing else")
	require.EqualValues(t, 1, l.Requests)
	require.EqualValues(t, 1, l.Answers["unknown-key"])
}

func TestFlagsBeatTheEnvironment(t *testing.T) {
	environ := map[string]string{
		"ORDERPOST_SANDBOX_LATENCY":   "1ms",
		"ORDERPOST_SANDBOX_FAULT_503": "0.5",
		"ORDERPOST_SANDBOX_MANNER":    "",
		"ORDERPOST_LOG_LEVEL":         "warn",
		"ORDERPOST_API_KEY":           "the worker's",
	}
	r := start(t, environ, "--fault-503", "0.25")
	_, body := get(t, r.url+"/_sandbox/config", "")
	var config map[string]string
	require.NoError(t, json.Unmarshal([]byte(body), &config))
	require.Equal(t, "0.25", config["fault-503"])
	require.Equal(t, "1ms", config["latency"])
	require.Equal(t, "status", config["manner"])
	require.Zero(t, r.end())
	require.NotContains(t, r.stderr.String(), "INF")
}

func TestKeyPairs(t *testing.T) {
	const secret = "gQ7-a-secret:with-a-colon"
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte("first-key-0001:"+secret+"\r\n\nsecond-key-0002:"+secret+"\n"), 0o600))
	for name, c := range map[string]struct {
		environ map[string]string
		args    []string
	}{
		"flags":            {nil, []string{"--key", "first-key-0001:" + secret, "--key", "second-key-0002:" + secret}},
		"file":             {nil, []string{"--keys-file", file}},
		"file by variable": {map[string]string{"ORDERPOST_SANDBOX_KEYS_FILE": file}, nil},
		"variable":         {map[string]string{"ORDERPOST_SANDBOX_KEYS": "first-key-0001:" + secret + "\nsecond-key-0002:" + secret}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, c.environ, append(c.args, "--log-level", "debug")...)
			for key, want := range map[string]int{"first-key-0001": 200, "second-key-0002": 200, "sandbox-key": 401} {
				status, _ := get(t, r.url+"/v1/account", key)
				require.Equal(t, want, status, key)
			}
			require.Zero(t, r.end())
			out := r.stdout.String() + r.stderr.String()
			for _, confidential := range []string{secret, "first-key-0001", "second-key-0002", "sandbox-secret"} {
				require.NotContains(t, out, confidential)
			}
		})
	}
}

// TestWrongUsage: every bad setting is named at once, nothing starts, and no
// secret is shown.
func TestWrongUsage(t *testing.T) {
	for name, c := range map[string]struct {
		environ map[string]string
		args    []string
		named   []string
	}{
		"many at once": {
			map[string]string{"ORDERPOST_SANDBOX_JITTER": "soon", "ORDERPOST_SANDBOX_LATENSY": "1s"},
			[]string{"--fault-503", "1.5", "--latency", "x", "--rate", "-1", "--trail", "many", "--manner", "odd", "--log-level", "loud",
				"--key", "no-colon-s3cret", "--down", "refuse"},
			[]string{"fault-503: 1.5", `latency: "x"`, "rate: -1", `trail: "many"`, `manner: "odd"`, `log-level: "loud"`,
				"keys: pair 1", "--admin-addr", "jitter", "ORDERPOST_SANDBOX_LATENSY: there is no such setting"},
		},
		"unknown flag":     {nil, []string{"--no-such"}, []string{"--no-such", "--help"}},
		"argument":         {nil, []string{"orders.csv"}, []string{`"orders.csv" is not expected`}},
		"no file":          {nil, []string{"--keys-file", "/nonexistent/keys"}, []string{"keys-file", "no such file"}},
		"empty secret":     {nil, []string{"--key", "abc:"}, []string{"secret of **** is empty"}},
		"key given twice":  {nil, []string{"--key", "abc:s3cret", "--key", "abc:s3cret2"}, []string{"pair 2"}},
		"address is wrong": {nil, []string{"--addr", "nowhere"}, []string{"addr", "nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := program_sandbox.Run(t.Context(), c.args, c.environ, nil, &stdout, &stderr)
			require.Equal(t, cli.ExitUsage, code, stderr.String())
			require.Empty(t, stdout.String())
			for _, n := range c.named {
				require.Contains(t, stderr.String(), n)
			}
			require.NotContains(t, stderr.String(), "s3cret")
			require.NotContains(t, stderr.String(), "Listening")
		})
	}
}

func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	addr := taken.Addr().String()
	for _, args := range [][]string{{"--addr", addr}, {"--addr", "127.0.0.1:0", "--admin-addr", addr}} {
		var stderr strings.Builder
		require.Equal(t, cli.ExitFailed, program_sandbox.Run(t.Context(), args, nil, nil, io.Discard, &stderr))
		require.Contains(t, stderr.String(), addr+" is in use by another program")
	}
}

func TestOpenAddressIsWarnedOf(t *testing.T) {
	r := start(t, nil, "--addr", "0.0.0.0:0")
	require.Zero(t, r.end())
	require.Contains(t, r.stderr.String(), "Warning: 0.0.0.0:0 is not a loopback address")
}

func TestHelpNamesEverySetting(t *testing.T) {
	var help strings.Builder
	require.Zero(t, program_sandbox.Run(t.Context(), []string{"--help"}, nil, nil, &help, io.Discard))
	var settings sandbox.Settings
	for s := range settings.Each {
		require.Contains(t, help.String(), "--"+s.Name+" ")
	}
	for _, line := range strings.Split(help.String(), "\n") {
		require.LessOrEqual(t, len(line), 150, line)
	}
}
