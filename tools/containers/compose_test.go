package containers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"orderpost/internal/ops"
	"orderpost/internal/sandbox"
)

// Two workers, with 64 requests at once each, have work with these orders for a minute, and
// never an idle moment.
const (
	orders  = 15000
	latency = `{"latency":"500ms"}`
)

// TestCompose starts what compose.yaml says, with two workers. It brings one order through the
// door, as the file's comments say, and its outcome comes out. Then it imports a file. Meanwhile
// both workers are replaced one after the other, and NATS; one worker is killed, and the engine
// starts it again. In the end each order was created, and none twice.
func TestCompose(t *testing.T) {
	p := load(t)
	all := make(map[string][]*container)
	port := 9464
	add := func(s types.ServiceConfig) {
		name := fmt.Sprintf("%s-%d", s.Name, len(all[s.Name])+1)
		c := start(t, name, arguments(t, p, s, port)...)
		c.ops = port
		all[s.Name] = append(all[s.Name], c)
		port++
	}
	// Each after what it depends on. nats is named, since no service requires it: cluster.env leaves it out.
	require.NoError(t, p.ForEachService([]string{"nats", "gateway"}, func(_ string, s *types.ServiceConfig) error {
		add(*s)
		return nil
	}))
	add(p.Services["worker"])
	require.Len(t, all, 4, "with the sandbox and a worker, on which the door depends")
	workers := all["worker"]
	for _, c := range append(workers, all["gateway"]...) {
		c.requireHealthy()
	}

	requireOutcome(t, all["gateway"][0])
	require.EqualValues(t, 1, ledger(t).OrdersCreated)

	operator := []string{"run", "--rm", "--interactive", "--add-host", "nats:127.0.0.1", "--env", "ORDERPOST_NATS_URL=" + *p.Services["worker"].Environment["ORDERPOST_NATS_URL"], "localhost/orderpost-operator"}
	status, said := call(t, http.MethodPut, "http://127.0.0.1:8089/_sandbox/config", latency)
	require.Equal(t, http.StatusOK, status, "%s", said)
	imported := enqueue(t, operator)
	for _, c := range workers {
		requireBusy(t, c)
		requireDrained(t, c.recreate())
		c.requireHealthy()
		t.Logf("%s was replaced, %d orders are created", c.name, ledger(t).OrdersCreated)
	}
	requireBusy(t, workers...)
	all["nats"][0].recreate()
	requireBusy(t, workers...)
	workers[0].kill()
	requireBusy(t, workers...)
	t.Logf("NATS was replaced and %s killed, %d orders are created", workers[0].name, ledger(t).OrdersCreated)

	t.Logf("enqueue:\n%s", imported())
	t.Logf("audit:\n%s", podman(t, append(operator, "deadletter", "audit")...))
	l := ledger(t)
	t.Logf("ledger: %d orders created, %d twice; faults: %v", l.OrdersCreated, l.CreatedTwice, l.Faults)
	require.EqualValues(t, orders+1, l.OrdersCreated)
	require.EqualValues(t, orders+1, l.Creations)
	require.NotEmpty(t, l.Faults, "compose.yaml asks the sandbox for them")

	for _, name := range []string{"gateway", "worker", "sandbox"} {
		for _, c := range all[name] {
			c.stop()
		}
	}
}

// enqueue starts an import in the image for people. What it returns waits for the outcomes.
func enqueue(t *testing.T, operator []string) (wait func() string) {
	t.Helper()
	var file strings.Builder
	file.WriteString("order_no,timeout\n")
	for i := range orders {
		fmt.Fprintf(&file, "B-%d,30\n", i)
	}
	var said bytes.Buffer
	cmd := command(&said, append(operator, "enqueue", "-", "--wait")...)
	cmd.Stdin = strings.NewReader(file.String())
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() string {
		t.Helper()
		select {
		case err := <-ended:
			require.NoError(t, err, "enqueue: %s", &said)
		case <-time.After(patience):
			require.Fail(t, "the import does not end")
		}
		return said.String()
	}
}

// requireOutcome brings an order through the door and waits for its outcome. The engine starts
// the door again until the worker has made the streams.
func requireOutcome(t *testing.T, door *container) {
	t.Helper()
	const url = "http://127.0.0.1:8080/v1/orders"
	require.Eventually(t, func() bool {
		status, said := call(t, http.MethodPost, url, `{"order_no":"A-1","timeout":30}`)
		require.NotEqual(t, 4, status/100, "%s", said)
		return status == http.StatusCreated
	}, patience, pause, "the door")
	t.Logf("the door was started again %d times", door.number(".RestartCount"))
	status, said := call(t, http.MethodGet, url+"?order_no=A-1&wait=60s", "")
	require.Equal(t, http.StatusOK, status, "%s", said)
	var answer struct{ Outcome string }
	require.NoError(t, json.Unmarshal(said, &answer))
	require.Equal(t, "accepted", answer.Outcome, "%s", said)
}

// requireBusy waits until another thousand orders are created, and each of the workers is ready and has orders in hand.
func requireBusy(t *testing.T, workers ...*container) {
	t.Helper()
	before := ledger(t).OrdersCreated
	require.Eventually(t, func() bool { return ledger(t).OrdersCreated >= before+1000 }, patience, pause, "%d orders were created", before)
	for _, c := range workers {
		var said []byte
		require.Eventually(t, func() bool {
			var r ops.Readiness
			_, said = call(t, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", c.ops), "")
			return json.Unmarshal(said, &r) == nil && r.Ready && r.InFlight > 0
		}, patience, pause, "%s is idle: are there too few orders? %s", c.name, &said)
	}
}

// requireDrained: the worker had orders in hand when it was told to stop, and finished them.
func requireDrained(t *testing.T, log string) {
	t.Helper()
	var last struct {
		Message  string
		InFlight int `json:"in_flight"`
	}
	inFlight := 0
	for lines := bufio.NewScanner(strings.NewReader(log)); lines.Scan(); {
		require.NoError(t, json.Unmarshal(lines.Bytes(), &last), "%s", lines.Text())
		if strings.HasPrefix(last.Message, "draining") {
			inFlight = last.InFlight
		}
	}
	require.Positive(t, inFlight, "nothing was in flight")
	require.Equal(t, "stopped; nothing in flight", last.Message)
	t.Logf("%d orders were in flight, and drained", inFlight)
}

// call sends a request with the token of compose.yaml's comments. The status is 0 if nobody answers.
func call(t *testing.T, method, url, body string) (status int, said []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer try")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	if said, err = io.ReadAll(resp.Body); err != nil { // it was stopped or killed
		return 0, nil
	}
	return resp.StatusCode, said
}

func ledger(t *testing.T) (l sandbox.Ledger) {
	t.Helper()
	status, said := call(t, http.MethodGet, "http://127.0.0.1:8089/_sandbox/ledger", "")
	require.Equal(t, http.StatusOK, status, "%s", said)
	require.NoError(t, json.Unmarshal(said, &l))
	return l
}
