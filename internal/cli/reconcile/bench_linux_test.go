package reconcile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(b, cmd.Start())
		ended, most := make(chan error, 1), 0
		go func() { ended <- cmd.Wait() }()
		for running := true; running; {
			select {
			case err := <-ended:
				require.NoError(b, err, "%s", out.Bytes())
				running = false
			case <-time.After(20 * time.Millisecond): // Maxrss would be the memory of this process, which forks
				most = max(most, peak(cmd.Process.Pid))
			}
		}
		var got said
		require.NoError(b, json.Unmarshal(out.Bytes(), &got))
		require.Equal(b, rows, got.Agreed)
		b.ReportMetric(float64(most)/1024, "MB-peak")
		b.ReportMetric(cmd.ProcessState.UserTime().Seconds(), "s-user")
	}
}

// peak is the largest memory that a process has had, in KiB; 0 if it has ended.
func peak(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	_, _ = fmt.Sscan(after, &kib)
	return kib
}
