package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/testing/bitrot"
)

// A server of three comes back without a part of the results, and answers reads as if all was
// well. Workers find that out while orders flow, and post nothing until the server is stopped.
// With its store emptied it comes back whole.
func TestADamagedReplicaHoldsTheFleet(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	settings, _ := api(t)
	maps.Copy(settings, c.settings["worker"])
	w := startWorker(t, settings)
	imports := func(prefix string) {
		t.Helper()
		code, _, errOut := importFile(t, c.settings["producer"], rows(t, prefix, 60), "--wait")
		require.Equal(t, cli.ExitDone, code, errOut)
	}
	imports("A")

	nc := connectAs(t, settings, settings["ORDERPOST_NATS_URL"])
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for i := range 12 { // large ones, so that the results fill a file
		_, err := js.Publish(t.Context(), fmt.Sprint("orders.results.LARGE-", i), []byte(strings.Repeat("x", 900<<10)))
		require.NoError(t, err)
	}
	stream, err := js.Stream(t.Context(), "ORDERS_RESULTS")
	require.NoError(t, err)
	leader := stream.CachedInfo().Cluster.Leader
	at := slices.IndexFunc(c.nodes, func(s *server.Server) bool { return s.Name() != leader })
	name, dir, port := c.nodes[at].Name(), c.nodes[at].StoreDir(), c.nodes[at].ClusterAddr().Port
	stop := func() {
		c.nodes[at].Shutdown()
		c.nodes[at].WaitForShutdown()
	}
	begin := func() {
		t.Helper()
		c.nodes[at] = c.run(t, name, filepath.Dir(dir), port)
	}
	require.Eventually(t, func() bool {
		n, err := bitrot.Holds(c.nodes[at], "ORDERS_RESULTS")
		return err == nil && n == 72
	}, patience, pause)
	stop()
	require.NoError(t, bitrot.Damage(dir, "ORDERS_RESULTS", "A-20", bitrot.Flip))
	begin()

	w.saw(&w.errOut, "nothing is posted, since an accepted order could be posted again")
	var out string
	require.Eventually(t, func() bool {
		_, out, _ = runProgram(t, orderpost.Run, c.settings["viewer"], "fleet")
		return strings.Contains(out, "a replica of stream ORDERS_RESULTS lacks")
	}, patience, pause)
	t.Log(out)
	_, out, _ = runProgram(t, orderpost.Run, c.settings["viewer"], "audit")
	require.Contains(t, out, "a replica of stream ORDERS_RESULTS lacks")

	stop()
	w.saw(&w.errOut, "the broker is as it should be again")
	imports("B") // by the other two
	require.NoError(t, os.RemoveAll(dir))
	begin()
	require.Eventually(t, func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && !slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current })
	}, patience, pause)
	imports("C")
	require.Eventually(t, func() bool {
		code, out, errOut := runProgram(t, orderpost.Run, c.settings["viewer"], "fleet")
		return code == cli.ExitDone && !strings.Contains(out+errOut, "replica")
	}, patience, pause)
	require.Equal(t, 1, strings.Count(w.errOut.String(), "nothing is posted, since"))
	require.Equal(t, cli.ExitDone, w.end(), w.errOut.String())
}
