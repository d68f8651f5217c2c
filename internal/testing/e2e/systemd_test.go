package e2e

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/orderpost"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/console"
)

const systemdFolder = "../../../deployments/systemd"

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
	for _, s := range append(cli.Settings(pool.Config{}), cli.Settings(console.Config{})...) { // the worker has those of the doors, too
		known[s.Name] = true
	}
	files, err := filepath.Glob(systemdFolder + "/*")
	require.NoError(t, err)
	require.Len(t, files, 13)
	names := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`ORDERPOST_[A-Z_]+`).FindAllString(string(text), -1) {
			require.True(t, known[name], "%s: %s is no setting", path, name)
			names++
		}
		if filepath.Ext(path) != ".service" || strings.Contains(path, "@") { // TestAnInstanceIsAWorker
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
		require.ElementsMatch(t, u["Service ReadWritePaths"], cmd.Flags().Args(), "%s: a program writes in the folder that it is told", path)
		settings := []string{"/etc/orderpost/orderpost.env"}
		if own := filepath.Join(systemdFolder, args[1]+".env"); slices.Contains(files, own) { // it may be missing on a host
			settings = append(settings, "-/etc/orderpost/"+filepath.Base(own))
		}
		require.Equal(t, settings, u["Service EnvironmentFile"], path)
		require.Equal(t, "%S/orderpost", u.environment()["ORDERPOST_DATA_DIR"], path)
	}
	require.Greater(t, names, 8)
}

// TestTheUnitsTimesFitThePrograms: nobody is killed who drains by the defaults, and each
// secret is one that systemd hands over.
func TestTheUnitsTimesFitThePrograms(t *testing.T) {
	var cfg pool.Config
	require.NoError(t, cli.ReadEnv(&cfg, map[string]string{}))
	addresses := map[string]bool{cfg.OpsAddr: true} // no two of them on one host
	for name, want := range map[string]struct {
		kind    string
		stop    time.Duration
		secrets int
	}{
		"worker":  {"notify", cfg.DrainTimeout + 30*time.Second, 2},
		"gateway": {"exec", cfg.DrainTimeout + 10*time.Second, 0},
		"notify":  {"exec", 15 * time.Second, 1}, // an attempt's timeout, though it waits for three seconds
		"console": {"exec", 10 * time.Second, 0},
		"watch":   {"exec", 10 * time.Second, 0}, // an import saves its progress within five seconds
	} {
		u := readUnit(t, systemdFolder+"/orderpost-"+name+".service")
		require.Equal(t, want.kind, u.one(t, "Type"), name)
		require.Equal(t, "SIGTERM", u.one(t, "KillSignal"), name)
		stop, err := strconv.Atoi(u.one(t, "TimeoutStopSec"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Duration(stop)*time.Second, want.stop, name)
		for variable, value := range u.environment() {
			if file, secret := strings.CutPrefix(value, "%d/"); secret {
				require.True(t, strings.HasSuffix(variable, "_FILE"), variable)
				require.Contains(t, u["Service LoadCredential"], file+":/etc/orderpost/"+file)
			}
		}
		require.Len(t, u["Service LoadCredential"], want.secrets, name)
		if addr, set := u.environment()["ORDERPOST_OPS_ADDR"]; set {
			require.False(t, addresses[addr], "%s: %s is another's", name, addr)
			addresses[addr] = true
		}
	}
}

// TestAnInstanceIsAWorker: the unit for several APIs on one host is the worker's, but for where its things are.
func TestAnInstanceIsAWorker(t *testing.T) {
	settings := func(name string) string {
		text, err := os.ReadFile(filepath.Join(systemdFolder, name))
		require.NoError(t, err)
		_, text, found := bytes.Cut(text, []byte("[Unit]"))
		require.True(t, found)
		return string(text)
	}
	want := strings.NewReplacer("=orderpost worker (", "=orderpost worker %i (", "StateDirectory=orderpost", "StateDirectory=orderpost-%i", "%S/orderpost", "%S/orderpost-%i",
		"/etc/orderpost/orderpost.env", "/etc/orderpost/%i.env", ":/etc/orderpost/", ":/etc/orderpost/%i.").Replace(settings("orderpost-worker.service"))
	require.Equal(t, want, settings("orderpost-worker@.service"))
}

// TestTheUnitsAreHardenedAlike: a door is confined as the worker is, since strangers talk to it.
func TestTheUnitsAreHardenedAlike(t *testing.T) {
	worker := readUnit(t, systemdFolder+"/orderpost-worker.service")
	for _, name := range []string{"gateway", "notify", "console", "watch"} {
		u := readUnit(t, systemdFolder+"/orderpost-"+name+".service")
		if name == "watch" { // it sees who has a file open, and its group reads results
			require.Equal(t, []string{"CAP_LEASE", "CAP_LEASE", "0007"}, []string{u.one(t, "CapabilityBoundingSet"), u.one(t, "AmbientCapabilities"), u.one(t, "UMask")})
			for _, key := range []string{"CapabilityBoundingSet", "AmbientCapabilities", "UMask"} {
				u["Service "+key] = worker["Service "+key]
			}
		}
		for key, values := range worker {
			if word := strings.TrimPrefix(key, "Service "); strings.HasPrefix(word, "Protect") || strings.HasPrefix(word, "Restrict") || strings.HasPrefix(word, "Private") ||
				strings.HasPrefix(word, "SystemCall") || slices.Contains([]string{"NoNewPrivileges", "CapabilityBoundingSet", "AmbientCapabilities", "DevicePolicy", "RemoveIPC",
				"KeyringMode", "LockPersonality", "MemoryDenyWriteExecute", "LimitCORE", "UMask", "StateDirectoryMode"}, word) {
				require.Equal(t, values, u[key], "%s: %s", name, key)
			}
		}
	}
}
