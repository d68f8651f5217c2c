package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/order"
	"orderpost/internal/sandbox"
	"orderpost/proof/oracle"
)

// written is a history as a run writes it: two orders, from the sandbox, the streams
// and a worker's log. With fault, the second one is acknowledged and never recorded.
func written(t *testing.T, fault bool) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "history.jsonl")
	h, err := newHistory(path, oracle.Settings{Policy: order.Resubmit, AckWait: ackWait, Command: "go run ./proof/cmd/chaos"})
	require.NoError(t, err)
	in := newIntents()
	in.history = h
	p := &process{name: "worker-1", history: h, log: filepath.Join(dir, "worker-1.log")}
	p.began()
	at := func(i int) time.Time { return h.start.Add(time.Duration(i) * time.Second) }
	var log bytes.Buffer
	line := func(i int, text string) {
		_, _ = log.WriteString(`{"level":"debug","at_ns":` + itoa(at(i).UnixNano()) + `,` + text + "}\n")
	}
	for i, no := range []string{"A", "B"} {
		in.attempt(no)
		in.confirm(order.OutcomeNone, no)
		stamp := at(10*i + 2).UnixMilli()
		line(10*i+1, `"order_no":"`+no+`","intent_id":"`+no+`","sequence":`+itoa(int64(i+1))+`,"delivered":1,"delivery":"reply-`+no+`","message":"intent delivered"`)
		line(10*i+2, `"order_no":"`+no+`","timestamp":`+itoa(stamp)+`,"message":"order posted"`)
		h.witness(sandbox.Witnessed{At: at(10*i + 3), OrderNo: no, Timestamp: stamp, Answer: "created", Created: true})
		line(10*i+4, `"order_no":"`+no+`","timestamp":`+itoa(stamp)+`,"verdict":"accepted","message":"attempt"`)
		if none := uint64(0); !fault || no == "A" {
			h.tell(oracle.Event{At: h.moment(at(10*i + 5)), Kind: oracle.Recorded, OrderNo: no, Seq: uint64(i + 1), Replaces: &none,
				Record: &order.Record{OrderNo: no, Word: "accepted", IntentID: no, Worker: "worker-1", Settled: 1}})
		}
		h.tell(oracle.Event{At: h.moment(at(10*i + 6)), Kind: oracle.Acknowledged, Reply: "reply-" + no})
	}
	_, _ = log.WriteString("panic: half a line, {")
	require.NoError(t, os.WriteFile(p.log, log.Bytes(), 0o600))
	require.NoError(t, h.readLog(p))
	h.tell(oracle.Event{At: h.moment(at(30)), Kind: oracle.End})
	require.NoError(t, h.close())
	return path
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestAHistoryIsWrittenAndJudged(t *testing.T) {
	path := written(t, false)
	var out, errOut bytes.Buffer
	require.Equal(t, cli.ExitDone, Run(t.Context(), []string{"judge", path}, nil, nil, &out, &errOut), errOut.String()+out.String())
	require.Contains(t, out.String(), "2 orders, 2 deliveries, 2 requests, 2 records (0 overwritten unseen), 2 acknowledgements")
	require.Contains(t, out.String(), "broken invariants: 0")
}

// The order, the rule and the lines are named.
func TestAFindingNamesOrderRuleAndLines(t *testing.T) {
	path := written(t, true)
	var out, errOut bytes.Buffer
	require.Equal(t, cli.ExitFailed, Run(t.Context(), []string{"judge", path}, nil, nil, &out, &errOut))
	require.Contains(t, out.String(), "R4: an intent is acknowledged only after its outcome is stored: order B: B was acknowledged")
	require.Regexp(t, `(?m)^ \* line \d+: .*"acknowledged".*"reply-B"`, out.String())
	require.Regexp(t, `(?m)^   line \d+: .*"posted".*"order_no":"B"`, out.String())
	require.NotContains(t, out.String(), `"order_no":"A"`)
	require.Contains(t, errOut.String(), "findings")
}

func TestAPlantedFaultMustBeFound(t *testing.T) {
	for _, fault := range []bool{false, true} {
		o := &options{history: written(t, fault), plant: "ack-first"}
		var out bytes.Buffer
		require.Equal(t, fault, o.found(&out) == nil)
	}
}

func TestAHistoryThatShowsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	h, err := newHistory(path, oracle.Settings{})
	require.NoError(t, err)
	require.NoError(t, h.close())
	var out, errOut bytes.Buffer
	require.Equal(t, cli.ExitFailed, Run(t.Context(), []string{"judge", path}, nil, nil, &out, &errOut))
	require.Contains(t, errOut.String(), "shows nothing")
	require.Equal(t, cli.ExitUsage, Run(t.Context(), []string{"judge", path + ".none"}, nil, nil, &out, &errOut))
}
