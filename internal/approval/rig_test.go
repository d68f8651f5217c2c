package approval

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
	"orderpost/internal/worker/feed"
)

func TestMain(m *testing.M) { patient.Main(m) }

// rig is a broker whose fleet has a rule for approvals.
type rig struct {
	*testing.T
	broker *queuetest.Broker
	q      *queue.Queue
	stop   func() // the feeder

	mu   sync.Mutex
	done map[string]int // how often each order was settled
}

// idle lets no worker take orders.
func idle(r *rig) { r.done = make(map[string]int) }

// newRig starts a broker, sets the rule, and lets a worker without a setting feed.
func newRig(t *testing.T, rule string, change ...func(*rig)) *rig {
	t.Helper()
	r := &rig{T: t, broker: queuetest.Start(t)}
	r.q = r.open("w1")
	SetRule(t.Context(), r.q, rule, "w0", "test", zerolog.Nop())
	r.feed()
	for _, c := range change {
		c(r)
	}
	if r.done == nil {
		r.works()
	}
	return r
}

// works settles whatever is in the queue as accepted.
func (r *rig) works() {
	r.mu.Lock()
	r.done = make(map[string]int)
	r.mu.Unlock()
	q := r.open("w2")
	ctx, stop := context.WithCancel(context.WithoutCancel(r.T.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = q.Pull(ctx, 64, time.Second, func(ds []*settle.Delivery) {
				for _, d := range ds {
					report := order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, History: order.History{Attempts: 1}}
					if _, err := q.Worker.Settle(ctx, d, &report, order.Decide(&report, order.Facts{})); err == nil {
						r.mu.Lock()
						r.done[d.OrderNo()]++
						r.mu.Unlock()
					}
					d.Release()
				}
			})
		}
	}()
	r.Cleanup(func() { stop(); <-done })
}

// sent returns the orders that were settled, and how often.
func (r *rig) sent() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.done)
}

func (r *rig) open(name string) *queue.Queue { return queuetest.Open(r, r.broker, name) }

// feed starts a worker's feeder, as after a restart.
func (r *rig) feed(change ...func(*feed.Options)) {
	r.Helper()
	if r.stop != nil {
		r.stop()
	}
	q := r.open("feeder")
	o := feed.Options{Queue: q, Fleet: fleet.New(q), Name: "feeder", Log: zerolog.Nop()}
	for _, c := range change {
		c(&o)
	}
	f := feed.New(o)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.T.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	stopped := false
	r.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-done
		}
	}
	r.Cleanup(r.stop)
}

// file returns a file of n orders.
func (r *rig) file(batch string, n int, change ...func(*importer.Options)) *importer.File {
	r.Helper()
	var text strings.Builder
	text.WriteString("order_no,timeout,amount\n")
	for i := range n {
		fmt.Fprintf(&text, "%s-R%d,30,%d.10\n", batch, i+1, i+1)
	}
	o := importer.Options{File: batch + ".csv", Reading: importer.Reading{Batch: batch, Mapping: importer.Mapping{Types: map[string]importer.Type{"amount": importer.TypeNumber, "timeout": importer.TypeInt}}}}
	for _, c := range change {
		c(&o)
	}
	f, err := importer.Open(strings.NewReader(text.String()), o)
	require.NoError(r, err)
	r.Cleanup(func() { _ = f.Close() })
	return f
}

// imports imports a file of n orders from a terminal, or as an upload of by.
func (r *rig) imports(batch string, n int, by ...journal.Actor) *importer.Result {
	r.Helper()
	f := r.file(batch, n, func(o *importer.Options) {
		if len(by) > 0 {
			o.Begun = func(ctx context.Context) error {
				act, err := journal.New(r.q, "test", "test").Begin(ctx, journal.Intention{About: journal.About{Kind: journal.Import, Batch: batch, Actor: by[0]}})
				require.NoError(r, err)
				require.NoError(r, act.End(ctx, journal.Result{End: journal.Done}))
				return Upload(ctx, r.q, batch, by[0])
			}
		}
	})
	checked, err := f.Check(r.T.Context())
	require.NoError(r, err)
	done, err := f.Publish(r.T.Context(), r.q, checked)
	require.NoError(r, err)
	return done
}

func login(name string) journal.Actor { return journal.Actor{Name: name, Known: journal.Login} }

// asked waits until the feeder has asked for an approval, and returns it.
func (r *rig) asked(batch string) *imports.Approval {
	r.Helper()
	var a *imports.Approval
	require.Eventually(r, func() bool {
		a = r.approval(batch)
		return a != nil && a.Why != ""
	}, time.Minute, 5*time.Millisecond)
	return a
}

func (r *rig) approval(batch string) *imports.Approval {
	r.Helper()
	f, err := imports.ReadFeeding(r.T.Context(), r.q, 0)
	require.NoError(r, err)
	return f.Approvals.Imports[imports.ImportToken(batch)]
}

// sees is what a login sees of an import.
func (r *rig) sees(batch string) *imports.Assessment {
	r.Helper()
	a, err := imports.Assess(r.T.Context(), r.q, batch, "", queue.ToTheEnd, nil)
	require.NoError(r, err)
	return a
}

func (r *rig) desk(change ...func(*Desk)) *Desk {
	d := &Desk{Queue: r.q, Journal: journal.New(r.q, "test", "test"), Now: time.Now}
	for _, c := range change {
		c(d)
	}
	return d
}

func (r *rig) decision(batch string, by journal.Actor, note string) Decision {
	return Decision{Batch: batch, Seen: r.sees(batch), About: journal.About{Actor: by, Note: note}}
}

// approves lets a login approve what it sees.
func (r *rig) approves(batch string, by journal.Actor) (whole bool, err error) {
	r.Helper()
	whole, _, unwritten, err := r.desk().Approve(r.T.Context(), r.decision(batch, by, ""))
	require.NoError(r, unwritten)
	return whole, err
}

// waits counts what waits of an import, queued what is in the queue.
func (r *rig) waits(batch string) int {
	r.Helper()
	n, err := r.q.Waiting.Of(r.T.Context(), imports.ImportToken(batch))
	require.NoError(r, err)
	return int(n)
}

func (r *rig) queued() int {
	r.Helper()
	c, err := r.q.Census.Count(r.T.Context())
	require.NoError(r, err)
	return int(c.Pending)
}

// passes waits until the feeder has moved an order of no import that is stored now. It
// takes turns with whatever may go, so a held import has had its chance then.
func (r *rig) passes(name string) {
	r.Helper()
	for i := range 3 {
		no := fmt.Sprintf("%s-%d", name, i)
		in := settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), ID: no, Lane: "bulk"}
		require.NoError(r, r.q.PublishMany(r.T.Context(), []settle.Intent{in})[0].Err)
		require.Eventually(r, func() bool { return r.sent()[no] == 1 }, time.Minute, 5*time.Millisecond)
	}
}

func (r *rig) goes(batch string) {
	r.Helper()
	require.Eventually(r, func() bool { return r.waits(batch) == 0 }, time.Minute, 5*time.Millisecond)
}

// refused is the text of a refusal.
func refused(t *testing.T, err error) string {
	t.Helper()
	why := IsRefusal(err)
	require.NotNil(t, why, "%v", err)
	return why.Text
}

// balances requires that the journal has every approval.
func (r *rig) balances() *audit.AuditResult {
	r.Helper()
	a := &audit.AuditResult{}
	require.NoError(r, Audit(r.T.Context(), r.q, a))
	f, err := imports.ReadFeeding(r.T.Context(), r.q, 0)
	require.NoError(r, err)
	require.NoError(r, auditActs(r.T.Context(), r.q, &f.Approvals, 0, a))
	require.Empty(r, a.Offenders)
	return a
}

// publishRow stores one order of an import, as a program of somebody else's would.
func publishRow(r *rig, batch, id, no string) error {
	in := settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), ID: id, Lane: "bulk", Batch: batch}
	return r.q.PublishMany(r.T.Context(), []settle.Intent{in})[0].Err
}

// importsText imports a file from a terminal.
func (r *rig) importsText(batch, text string) {
	r.Helper()
	o := importer.Options{File: batch + ".csv", Reading: importer.Reading{Batch: batch, Mapping: importer.Mapping{Types: map[string]importer.Type{"amount": importer.TypeNumber, "timeout": importer.TypeInt}}}}
	if !strings.Contains(text, "amount") {
		delete(o.Mapping.Types, "amount")
	}
	f, err := importer.Open(strings.NewReader(text), o)
	require.NoError(r, err)
	defer func() { _ = f.Close() }()
	checked, err := f.Check(r.T.Context())
	require.NoError(r, err)
	_, err = f.Publish(r.T.Context(), r.q, checked)
	require.NoError(r, err)
}
