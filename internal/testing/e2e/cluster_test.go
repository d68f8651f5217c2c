package e2e

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
)

// cluster is three servers that were started from deployments/nats/cluster.conf, with the
// settings that each role's programs need for them.
type cluster struct {
	conf     conf
	nodes    []*server.Server
	settings map[string]map[string]string // by role
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	ca := newCertificates(t)
	cert, key := ca.issue("server")
	c := &cluster{settings: make(map[string]map[string]string), conf: conf{file: "../../../deployments/nats/cluster.conf",
		vars: map[string]string{"NATS_CERT_FILE": cert, "NATS_KEY_FILE": key, "NATS_CA_FILE": ca.file}}}
	for _, role := range roles {
		pair, err := nkeys.CreateUser()
		require.NoError(t, err)
		public, err := pair.PublicKey()
		require.NoError(t, err)
		c.conf.vars[strings.ToUpper(role)+"_NKEY"] = public
		seed, err := pair.Seed()
		require.NoError(t, err)
		settings := map[string]string{"ORDERPOST_NATS_CA_FILE": ca.file, "ORDERPOST_NATS_INBOX_PREFIX": "_INBOX_" + role, "ORDERPOST_REPLICAS": "3",
			"ORDERPOST_NATS_NKEY_FILE": filepath.Join(t.TempDir(), role+".nk")}
		settings["ORDERPOST_NATS_CERT_FILE"], settings["ORDERPOST_NATS_KEY_FILE"] = ca.issue(role)
		require.NoError(t, os.WriteFile(settings["ORDERPOST_NATS_NKEY_FILE"], seed, 0o600))
		c.settings[role] = settings
	}
	ports := freePorts(t, 3)
	routes := make([]string, len(ports))
	for i, port := range ports {
		routes[i] = fmt.Sprintf("nats-route://127.0.0.1:%d", port)
	}
	c.conf.vars["NATS_ROUTES"] = "[" + strings.Join(routes, ", ") + "]"
	for i, port := range ports {
		c.nodes = append(c.nodes, c.run(t, fmt.Sprint("nats-", i), t.TempDir(), port))
	}
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(c.nodes, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 })
	}, patience, pause, "the three do not become a cluster")
	urls := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		urls[i] = strings.Replace(node.ClientURL(), "nats://", "tls://", 1)
	}
	for _, settings := range c.settings {
		settings["ORDERPOST_NATS_URL"] = strings.Join(urls, ",")
	}
	return c
}

// run starts one of the three, with the files of a former run in dir if there are some.
func (c *cluster) run(t *testing.T, name, dir string, port int) *server.Server {
	t.Helper()
	c.conf.vars["NATS_SERVER_NAME"], c.conf.vars["NATS_STORE_DIR"] = name, dir
	opts := c.conf.options(t)
	require.Len(t, opts.Routes, 3, "NATS_ROUTES is read as a list")
	opts.HTTPPort = 0 // beside each other
	opts.Cluster.Host, opts.Cluster.Port = "127.0.0.1", port
	node, err := server.NewServer(opts)
	require.NoError(t, err)
	node.Start()
	t.Cleanup(func() { node.Shutdown(); node.WaitForShutdown() })
	return node
}

func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// TestClusterConfiguration: three servers from the very file of the manifests
// become a cluster with TLS between them; the worker makes its streams with
// three replicas there, with the role's rights. Producers and operators reach
// them from their own accounts over each of the servers.
func TestClusterConfiguration(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	settings, _ := api(t)
	maps.Copy(settings, c.settings["worker"])
	w := startWorker(t, settings)
	account, err := c.nodes[0].LookupAccount("ORDERPOST")
	require.NoError(t, err)
	for _, stream := range []string{"ORDERS", "ORDERS_RESULTS", "ORDERS_DEAD", "KV_ORDERPOST"} {
		require.Eventually(t, func() bool {
			at := 0
			for _, node := range c.nodes {
				if node.JetStreamIsStreamAssigned(account.Name, stream) {
					at++
				}
			}
			return at == 3
		}, patience, pause, "%s does not lie on three servers", stream)
	}
	for i, node := range c.nodes {
		producer, operator := maps.Clone(c.settings["producer"]), maps.Clone(c.settings["operator"])
		producer["ORDERPOST_NATS_URL"] = strings.Replace(node.ClientURL(), "nats://", "tls://", 1)
		operator["ORDERPOST_NATS_URL"] = producer["ORDERPOST_NATS_URL"]
		code, _, errOut := importFile(t, producer, rows(t, fmt.Sprint("NODE-", i), 3), "--wait")
		require.Equal(t, cli.ExitDone, code, errOut)
		code, out, errOut := runProgram(t, deadletter.Run, operator, "list")
		require.Equal(t, cli.ExitDone, code, "%s %s", out, errOut)
	}
	require.Equal(t, cli.ExitDone, w.end(), w.errOut.String())
}
