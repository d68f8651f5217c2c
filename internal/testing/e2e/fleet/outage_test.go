package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/worker"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/sandbox"
	"orderpost/internal/testing/e2e/child"
	"orderpost/internal/testing/patient"
)

// desk is a data folder whose broker a worker process runs, and the people who
// work there.
type desk struct {
	t        *testing.T
	dir      string
	api      *sandbox.Server
	settings map[string]string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: filepath.Join(t.TempDir(), "data")}
	var err error
	d.api, err = sandbox.New(sandbox.Config{Keys: map[string]string{"key": "secret"}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	url, err := d.api.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.api.Close() })
	d.settings = map[string]string{
		"ORDERPOST_API_URL": url, "ORDERPOST_API_KEY": "key", "ORDERPOST_API_SECRET": "secret", "ORDERPOST_OPS_ADDR": "",
		"ORDERPOST_DATA_DIR": d.dir, "ORDERPOST_NATS_LISTEN": "127.0.0.1:0", "ORDERPOST_ACK_WAIT": "3s",
		"ORDERPOST_REQUEST_TIMEOUT": "1s", "ORDERPOST_RATE_LIMIT": "200", "ORDERPOST_LOG_LEVEL": "debug",
	}
	return d
}

// open starts a worker, whose broker takes a free port, and waits for it.
func (d *desk) open(name string) (*child.Child, string) {
	d.t.Helper()
	before, _ := embedded.ReadEndpoint(d.dir)
	c := child.Start(d.t, name, d.settings)
	var now embedded.Endpoint
	require.Eventually(d.t, func() bool {
		var err error
		now, err = embedded.ReadEndpoint(d.dir)
		return err == nil && now.PID != before.PID
	}, patience, 5*time.Millisecond, "%s", c.Said())
	return c, now.URL
}

// clerk is a program for people that runs beside the test.
type clerk struct {
	args        []string
	out, errOut patient.Buffer
	code        chan int
}

func (d *desk) begin(run cli.RunFunc, args ...string) *clerk {
	c := &clerk{args: args, code: make(chan int, 1)}
	environ := map[string]string{"ORDERPOST_DATA_DIR": d.dir, "ORDERPOST_ACK_WAIT": d.settings["ORDERPOST_ACK_WAIT"], "ORDERPOST_NATS_CONNECT_TIMEOUT": "30s", "USER": "anna"}
	go func() {
		c.code <- run(context.WithoutCancel(d.t.Context()), args, environ, strings.NewReader(""), &c.out, &c.errOut)
	}()
	return c
}

// ends waits for the program's end.
func (d *desk) ends(c *clerk, want int) {
	d.t.Helper()
	select {
	case code := <-c.code:
		require.Equal(d.t, want, code, "%v: %s", c.args, c.errOut.String())
	case <-time.After(patience):
		d.t.Fatalf("%v did not end: %s", c.args, c.errOut.String())
	}
}

// TestCommandsGoOnThroughOutagesOfTheEmbeddedBroker: the worker that runs the
// broker is killed while an import waits, and asked to stop while another one
// publishes; each time the next one's broker has another port. Programs that
// were there go on, one that is started meanwhile waits, and each order exists
// once.
func TestCommandsGoOnThroughOutagesOfTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	const orders = 600
	d := newDesk(t)
	file := func(batch string) string {
		var b strings.Builder
		b.WriteString("order_no,timeout\n")
		for i := range orders {
			fmt.Fprintf(&b, "%s-%04d,30\n", batch, i)
		}
		path := filepath.Join(t.TempDir(), batch+".csv")
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
		return path
	}
	created := func() int64 { return d.api.Ledger().OrdersCreated }
	waits := func(all ...*clerk) {
		t.Helper()
		for _, c := range all {
			require.Eventually(t, func() bool { return strings.Contains(c.errOut.String(), "waiting for the broker") }, patience, 5*time.Millisecond, "%v: %s", c.args, c.errOut.String())
		}
	}

	one, first := d.open("one")
	march := d.begin(enqueue.Run, file("march"), "--batch", "march", "--wait", "--results", filepath.Join(t.TempDir(), "march.out"))
	require.Eventually(t, func() bool { return created() > 50 }, patience, 5*time.Millisecond, "%s", march.errOut.String())
	watch := d.begin(enqueue.Run, "watch", "march", "--json")
	april := d.begin(enqueue.Run, file("april"), "--batch", "april", "--rate", "100", "--wait")
	require.Eventually(t, func() bool { return created() > 150 }, patience, 5*time.Millisecond)
	one.Kill()
	waits(march, watch, april)
	late := d.begin(enqueue.Run, "watch", "march", "--json")
	hold := d.begin(worker.Run, "limit", "250/s")
	waits(late, hold)
	two, second := d.open("two")
	require.NotEqual(t, first, second)
	d.ends(hold, cli.ExitDone)

	require.Eventually(t, func() bool { return created() > 450 }, patience, 5*time.Millisecond)
	t.Logf("SIGTERM took %s", two.End(patience).Round(time.Millisecond))
	may := d.begin(enqueue.Run, file("may"), "--batch", "may", "--wait")
	waits(may)
	three, third := d.open("three")
	require.NotEqual(t, second, third)
	for _, c := range []*clerk{march, watch, april, late, may} {
		d.ends(c, cli.ExitDone)
		require.Regexp(t, "the broker (is back|answered) after", c.errOut.String(), c.args)
	}
	for _, text := range []string{watch.out.String(), late.out.String()} {
		var status struct{ Outcomes map[string]int }
		require.NoError(t, json.Unmarshal([]byte(text), &status), text)
		require.Equal(t, map[string]int{"accepted": orders}, status.Outcomes)
	}
	audit := d.begin(deadletter.Run, "audit")
	d.ends(audit, cli.ExitDone)
	require.EqualValues(t, 3*orders, created())
	for no, e := range d.api.Each {
		require.Equal(t, 1, e.Created, no)
	}

	three.Kill()
	gone := d.begin(enqueue.Run, file("june"), "--batch", "june") // begins without a broker
	waits(gone)
	four, _ := d.open("four")
	d.ends(gone, cli.ExitDone)
	stays := d.begin(enqueue.Run, "watch", "june", "--broker-wait", "1500ms")
	require.Eventually(t, func() bool { return created() > 3*orders+20 }, patience, 5*time.Millisecond)
	four.Kill()
	d.ends(stays, cli.ExitUnreachable)
	require.Contains(t, stays.errOut.String(), "broker out of reach: no answer from the broker at nats://127.0.0.1:")
	require.Contains(t, stays.errOut.String(), "Run it again when the broker is back; the orders go on without this program:\n  enqueue watch june --broker-wait 1500ms\n")
}
