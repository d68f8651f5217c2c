package e2e

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
	"orderpost/internal/program/orderpost"
	pool "orderpost/internal/worker"
)

const systemdFolder = "../../deployments/systemd"

// unit is a unit file: the values of each "[Section] Key", in order. An empty
// value does not start anew here.
type unit map[string][]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	u, section := unit{}, ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		switch key, value, set := strings.Cut(line, "="); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		default:
			require.True(t, set, "%s: %s", path, line)
			u[section+" "+key] = append(u[section+" "+key], value)
		}
	}
	return u
}

// one gives the only value of a key.
func (u unit) one(t *testing.T, key string) string {
	t.Helper()
	require.Len(t, u["Service "+key], 1, key)
	return u["Service "+key][0]
}

// environment are the unit's own variables.
func (u unit) environment() map[string]string {
	out := map[string]string{}
	for _, line := range u["Service Environment"] {
		for _, word := range strings.Fields(line) {
			name, value, _ := strings.Cut(word, "=")
			out[name] = value
		}
	}
	return out
}

// TestUnitsNameWhatExists: every setting and every command.
func TestUnitsNameWhatExists(t *testing.T) {
	known := map[string]bool{}
	for _, s := range program.Settings(pool.Config{}) {
		known[s.Name] = true
	}
	files, err := filepath.Glob(systemdFolder + "/*")
	require.NoError(t, err)
	require.Len(t, files, 5)
	names := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`ORDERPOST_[A-Z_]+`).FindAllString(string(text), -1) {
			require.True(t, known[name], "%s: %s is no setting", path, name)
			names++
		}
		if filepath.Ext(path) != ".service" {
			continue
		}
		u := readUnit(t, path)
		args := strings.Fields(u.one(t, "ExecStart"))
		require.Equal(t, "/usr/bin/orderpost", args[0])
		root := orderpost.NewCommand(map[string]string{}, strings.NewReader(""), io.Discard, io.Discard)
		cmd, rest, err := root.Find(args[1:])
		require.NoError(t, err, "%s: %v", path, args)
		require.NotEqual(t, root, cmd, path)
		require.NoError(t, cmd.ParseFlags(rest), "%s: %v", path, args)
		require.Empty(t, cmd.Flags().Args(), path)
		require.Equal(t, "/etc/orderpost/orderpost.env", u.one(t, "EnvironmentFile"), path)
		require.Equal(t, "%S/orderpost", u.environment()["ORDERPOST_DATA_DIR"], path)
	}
	require.Greater(t, names, 8)
}

// TestTheUnitsTimesFitTheWorkers: nobody is killed who drains by the defaults,
// and each secret is one that systemd hands over.
func TestTheUnitsTimesFitTheWorkers(t *testing.T) {
	u := readUnit(t, systemdFolder+"/orderpost-worker.service")
	require.Equal(t, "notify", u.one(t, "Type"))
	require.Equal(t, "SIGTERM", u.one(t, "KillSignal"))
	var cfg pool.Config
	require.NoError(t, program.ReadEnv(&cfg, map[string]string{}))
	stop, err := strconv.Atoi(u.one(t, "TimeoutStopSec"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Duration(stop)*time.Second, cfg.DrainTimeout+30*time.Second)
	for name, value := range u.environment() {
		if file, secret := strings.CutPrefix(value, "%d/"); secret {
			require.True(t, strings.HasSuffix(name, "_FILE"), name)
			require.Contains(t, u["Service LoadCredential"], file+":/etc/orderpost/"+file)
		}
	}
	require.Len(t, u["Service LoadCredential"], 2)
}
