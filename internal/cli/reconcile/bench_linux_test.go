package reconcile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// BenchmarkMillion compares a million rows with a million results, and reports the command's largest memory.
func BenchmarkMillion(b *testing.B) {
	const rows = 1_000_000
	s := queuetest.Start(b)
	q := queuetest.Open(b, s, "w1")
	b.Setenv("ORDERPOST_DATA_DIR", s.Dir)
	queuetest.Publish(b, q, queuetest.Intent("A-0000000", ""))
	at := time.Now().Add(-time.Hour)
	queuetest.Settle(b, q, queuetest.Pull(b, q, 1)[0], queuetest.Report(order.Accepted, order.History{FirstAttemptAt: at, LastAttemptAt: at}))
	js := s.JetStream(b)
	js, err := jetstream.New(js.Conn(), jetstream.WithPublishAsyncMaxPending(1000), jetstream.WithPublishAsyncTimeout(time.Minute))
	require.NoError(b, err)
	list := bytes.NewBufferString("amount,ref\n1,A-0000000\n")
	require.NoError(b, q.Results().Walk(b.Context(), 1, queue.ToTheEnd, func(page []*settle.Message) error {
		for i := 1; i < rows; i++ {
			no := fmt.Sprintf("A-%07d", i)
			again := nats.NewMsg(strings.ReplaceAll(page[0].Subject, "A-0000000", no))
			again.Data = bytes.ReplaceAll(page[0].Data, []byte("A-0000000"), []byte(no))
			_, err := js.PublishMsgAsync(again, jetstream.WithStallWait(time.Minute))
			require.NoError(b, err)
			fmt.Fprintf(list, "1,%s\n", no)
		}
		<-js.PublishAsyncComplete()
		return nil
	}))
	program, file := filepath.Join(b.TempDir(), "orderpost"), filepath.Join(b.TempDir(), "theirs.csv")
	out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "orderpost/cmd/orderpost").CombinedOutput()
	require.NoError(b, err, "%s", out)
	require.NoError(b, os.WriteFile(file, list.Bytes(), 0o600))
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), program, "reconcile", file, "--order-no", "ref", "--as-of", "0s", "--margin", "0s", "--json")
		out, err := cmd.CombinedOutput()
		require.NoError(b, err, "%s", out)
		var got said
		require.NoError(b, json.Unmarshal(out, &got))
		require.Equal(b, rows, got.Agreed)
		b.ReportMetric(float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MB-peak")
		b.ReportMetric(cmd.ProcessState.UserTime().Seconds(), "s-user")
	}
}
