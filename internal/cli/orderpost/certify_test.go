package orderpost_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/certify"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/cli/service"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
	"orderpost/internal/testing/patient"
)

const key, secret = "AKcertifyKey-0123456789", "SKcertifySecret-abcdefghijk"

// place is a folder with a sandbox API beside it.
type place struct {
	*testing.T
	api          *sandbox.Server
	url          string
	environ      map[string]string
	rules, after string // the files that certify writes
}

func newPlace(t *testing.T) *place {
	t.Helper()
	api, err := sandbox.New(sandbox.Config{Keys: map[string]string{key: secret}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	url, err := api.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Close() })
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sample.json"), []byte(`{"order_no":"x","timeout":60,"amount":"12.50"}`), 0o600))
	return &place{t, api, url, map[string]string{"ORDERPOST_DATA_DIR": filepath.Join(dir, "data"), "USER": "anna",
		certify.Prefix + "API_URL": url, certify.Prefix + "API_KEY": key, certify.Prefix + "API_SECRET": secret},
		filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "certify.env")}
}

func (p *place) set(settings map[string]string) {
	p.Helper()
	require.NoError(p, p.api.Update(func(to *sandbox.Settings) {
		for name, value := range settings {
			require.NoError(p, to.Set(name, value))
		}
	}))
}

func (p *place) run(args ...string) (code int, out, errOut string) {
	p.Helper()
	var o, e bytes.Buffer
	code = orderpost.Run(p.Context(), args, p.environ, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func (p *place) certify(args ...string) (code int, out, errOut string) {
	p.Helper()
	return p.run(append([]string{"certify", "--order", filepath.Join(filepath.Dir(p.rules), "sample.json"), "--rules", p.rules, "--settings", p.after,
		"--pause", "0s", "--idle", "20ms", "--burst", "0"}, args...)...)
}

// TestTheFilesOfCertifyAloneBalanceTheBooks runs a worker with what certify wrote, and nothing else, through 600 of the demo's orders.
func TestTheFilesOfCertifyAloneBalanceTheBooks(t *testing.T) {
	for name, manner := range map[string]map[string]string{
		"status": {"manner": "status"}, "code": {"manner": "code"}, "errno": {"manner": "errno"}, "fields": {"manner": "fields"},
		"code, original returned": {"manner": "code", "duplicates": "return"}, "status, created twice": {"manner": "status", "duplicates": "create-twice"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.set(manner)
			p.set(map[string]string{"rate": "20", "burst": "40"})
			code, out, errOut := p.certify("--burst", "60", "--yes", "127.0.0.1")
			require.Zero(t, code, "%s%s", out, errOut)
			p.set(map[string]string{"rate": "0", "fault-drop-before": "0.02", "fault-drop-after": "0.02", "fault-429": "0.001", "max-faults-per-order": "4"})
			if manner["duplicates"] == "return" { // the answer that throttles was not seen to leave no order behind
				p.set(map[string]string{"fault-429": "0"})
			}
			if manner["manner"] == "status" || manner["manner"] == "fields" { // other manners have codes for these that certify cannot have seen
				p.set(map[string]string{"fault-503": "0.02", "fault-503-after": "0.01", "fault-refuse": "0.02"})
			}
			text, err := os.ReadFile(p.after)
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				if name, value, is := strings.Cut(strings.TrimSpace(line), "="); is && !strings.HasPrefix(line, "#") {
					p.environ[name] = value
				}
			}
			delete(p.environ, "ORDERPOST_RATE_LIMIT") // as measured; it would only take time
			p.environ["ORDERPOST_API_URL"], p.environ["ORDERPOST_API_KEY"], p.environ["ORDERPOST_API_SECRET"] = p.url, key, secret
			p.work()
		})
	}
}

// work brings 600 of the demo's orders, balances the books, and compares them with the sandbox's ledger.
func (p *place) work() {
	p.Helper()
	before := make(map[string]bool)
	for no := range p.api.Each {
		before[no] = true
	}
	p.environ["ORDERPOST_OPS_ADDR"] = ""
	ctx, stop := context.WithCancel(p.Context())
	var log patient.Buffer
	ended := make(chan int, 1)
	go func() { ended <- orderpost.Run(ctx, []string{"worker"}, p.environ, strings.NewReader(""), &log, &log) }()
	defer func() {
		stop()
		require.Zero(p, <-ended, log.String())
	}()
	require.Eventually(p, func() bool { // it has made its streams
		code, _, _ := p.run("fleet")
		return code == cli.ExitDone
	}, time.Minute, 50*time.Millisecond)
	demo, err := os.ReadFile("../../../examples/orders.csv")
	require.NoError(p, err)
	rows := strings.SplitAfterN(string(demo), "\n", 602)
	file := filepath.Join(filepath.Dir(p.rules), "orders.csv")
	require.NoError(p, os.WriteFile(file, []byte(strings.Join(rows[:601], "")), 0o600))
	code, out, errOut := p.run("enqueue", file, "--wait", "--batch", "demo")
	require.Contains(p, []int{cli.ExitDone, cli.ExitPartial}, code, "%s%s%s", out, errOut, log.String())
	code, out, errOut = p.run("audit")
	require.Zero(p, code, "%s%s", out, errOut)

	cfg := queue.DefaultConfig()
	require.NoError(p, service.JoinEmbedded(&cfg, p.environ["ORDERPOST_DATA_DIR"]))
	q, err := queue.Open(p.Context(), cfg, zerolog.Nop())
	require.NoError(p, err)
	defer q.Close()
	outcomes := make(map[string]int)
	require.NoError(p, queue.EachRecord(p.Context(), q, func(r *order.Record) error {
		outcomes[r.Word]++
		made := p.api.Created(r.OrderNo)
		switch r.Outcome() {
		case order.OutcomeAccepted:
			require.Equal(p, 1, made, r.OrderNo)
		case order.OutcomeUnknown:
			require.LessOrEqual(p, made, 1, r.OrderNo)
		default:
			require.Zero(p, made, "%s is %s", r.OrderNo, r.Word)
		}
		return nil
	}))
	p.Log(outcomes)
	require.Greater(p, outcomes["accepted"], 500)
	for no, e := range p.api.Each {
		require.True(p, before[no] || e.Created <= 1, "%s was created %d times", no, e.Created)
	}
	require.NotContains(p, log.String(), "settles nothing", "every answer was explained")
}

func TestCertifyRefusesTheAddressOfRealOrders(t *testing.T) {
	p := newPlace(t)
	code, _, errOut := p.certify()
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "there is no terminal to ask on; give --yes HOST")
	code, _, errOut = p.certify("--yes", "api.example.com")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, `nothing was sent: "api.example.com" is not the host`)
	code, _, errOut = p.certify("--yes", "127.0.0.1", "--order-no", "ONE")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "has no {n}")

	p.environ["ORDERPOST_API_URL"], p.environ["ORDERPOST_API_KEY"], p.environ["ORDERPOST_API_SECRET"] = p.url, key, secret
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	p.environ["ORDERPOST_OPS_ADDR"] = ""
	go func() {
		ended <- orderpost.Run(ctx, []string{"worker"}, p.environ, strings.NewReader(""), &patient.Buffer{}, &patient.Buffer{})
	}()
	require.Eventually(t, func() bool {
		code, _, errOut = p.run("fleet")
		return code == cli.ExitDone
	}, time.Minute, 50*time.Millisecond, errOut)
	code, _, errOut = p.certify("--yes", "127.0.0.1")
	stop()
	<-ended
	require.Equal(t, cli.ExitUsage, code, errOut)
	require.Contains(t, errOut, "the orders here belong to "+p.url+"; nothing was sent")
	for no := range p.api.Each {
		require.Fail(t, "created", no)
	}

	delete(p.environ, certify.Prefix+"API_KEY")
	_, _, errOut = p.certify("--yes", "127.0.0.1")
	require.Contains(t, errOut, certify.Prefix+"API_KEY", "the key of real orders is not taken")
	require.NotContains(t, errOut, "ORDERPOST_API_KEY")
}
