package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// TestRunbookCommandsAsOperator: whoever is woken at night has the role operator,
// and every command of the runbook that is ours works with its rights alone.
func TestRunbookCommandsAsOperator(t *testing.T) {
	lines := shellLines(t, runbookPath)
	s := startSecured(t)
	p := newPlace(t, 1, s)
	p.run(runbookPath, p.doubtful[0], append([]string{"orderpost backup monday.orderpost"}, lines...))
	require.Greater(t, p.commands, 30)
}

// natsCommands are the commands of the nats tool that the documents may name,
// with what they ask of the server.
var natsCommands = map[string][]string{
	"nats stream report":                           {"$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST"},
	"nats stream edit ORDERS_RESULTS":              {"$JS.API.STREAM.INFO.ORDERS_RESULTS"}, // and UPDATE with what it read
	"nats stream cluster step-down ORDERS_RESULTS": {"$JS.API.STREAM.INFO.ORDERS_RESULTS"}, // and STREAM.LEADER.STEPDOWN, which a single server refuses
	"nats stream edit NAME":                        {"$JS.API.STREAM.INFO.ORDERS"},
	"nats stream edit ORDERS_JOURNAL":              {"$JS.API.STREAM.INFO.ORDERS_JOURNAL"},
	"nats stream backup ORDERS_WAITING":            {"$JS.API.STREAM.INFO.ORDERS_WAITING"},
	"nats stream info ORDERS_WAITING":              {"$JS.API.STREAM.INFO.ORDERS_WAITING"}, // the rest is in TestASealedStreamIsRestoredWithAnotherConfiguration
	"nats stream rm ORDERS_WAITING":                {"$JS.API.STREAM.INFO.ORDERS_WAITING"},
	"nats stream restore backup/ORDERS_WAITING":    {"$JS.API.INFO"},
}

var natsCommand = regexp.MustCompile("(?m)(?:^|`)(nats (?:stream|consumer|server|kv|account|request) [^`#\n]*)")

// TestNATSCommandsOfTheDocuments: each is one that the role admin may run on the
// shipped server, and the document says that it takes this role.
func TestNATSCommandsOfTheDocuments(t *testing.T) {
	s := startSecured(t)
	settings, _ := api(t)
	startWorker(t, s.as("worker", settings)).end()
	nc := s.connect(t, "admin")
	seen := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range natsCommand.FindAllStringSubmatch(string(text), -1) {
			seen++
			require.Contains(t, strings.ToLower(string(text)), "as admin", "%s: %s", path, m[1])
			var subjects []string
			for command, asks := range natsCommands {
				if strings.HasPrefix(strings.TrimSpace(strings.ReplaceAll(m[1], "\n", " "))+" ", command+" ") {
					subjects = asks
				}
			}
			require.NotNil(t, subjects, "%s: %s is in no list of this test: may a role run it?", path, m[1])
			for _, subject := range subjects {
				requireAnswered(t, nc, subject)
			}
		}
	}
	require.Greater(t, seen, 6)
}

func requireAnswered(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	answer, err := nc.Request(subject, nil, patience)
	require.NoError(t, err, subject)
	require.NotContains(t, string(answer.Data), `"error"`, subject)
}

var (
	kubectlCommand = regexp.MustCompile("kubectl ([^\n`;|]*)")
	kubectlObject  = regexp.MustCompile(`\b(deploy|deployment|statefulset|job|scaledobject|pvc|configmap|secret generic)[/ ]([a-z0-9-]+)`)
	anyKind        = regexp.MustCompile(`^(create namespace|apply -k|delete -k|-n (orderpost|nats) )`)
)

// TestKubectlCommandsOfTheDocuments: each names its namespace, since a secret that
// is made in the wrong one mends nothing, and objects that the manifests have.
func TestKubectlCommandsOfTheDocuments(t *testing.T) {
	var deployed strings.Builder
	for _, folder := range []string{manifests, natsFolder} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			deployed.Write(text)
			return err
		}))
	}
	seen := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range kubectlCommand.FindAllStringSubmatch(string(text), -1) {
			command := m[1]
			if !strings.Contains(command, " ") { // named, not typed
				continue
			}
			seen++
			require.Regexp(t, anyKind, command, "%s: kubectl %s: say which namespace (-n)", path, command)
			for _, object := range kubectlObject.FindAllStringSubmatch(command, -1) {
				name := strings.TrimSuffix(object[2], "-nats-0") // a claim: <template>-<stateful set>-<number>
				require.Contains(t, deployed.String(), name, "%s: kubectl %s", path, command)
			}
			require.NotContains(t, command, "scale deploy/orderpost-worker --replicas=0", "%s: an autoscaler undoes it: pause that instead", path)
		}
	}
	require.Greater(t, seen, 40)
}
