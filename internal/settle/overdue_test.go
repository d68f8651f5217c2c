package settle_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// laterTime is the real time, ahead by what a test says. Both clocks are.
type laterTime struct {
	settle.Runtime
	ahead *atomic.Int64
}

func (r laterTime) Now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// R9: a broker whose clock was ahead set a time for an order that is far in the future by the clock
// that it has now. A NAK with a long delay leaves the same. The order is asked for again.
func TestR9WhatWaitsInTheFutureIsAskedForAgain(t *testing.T) {
	q := openQueue(t, startBroker(t), "a", func(c *queue.Config) { c.AckWait = shortAckWait })
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"))
	ds := pull(t, q, 2)
	require.NoError(t, ds[0].ExportAnswer().NakWithDelay(time.Hour))
	ds[0].Release()
	var ahead atomic.Int64
	p := settle.New(settle.Config{Worker: "b", IntentSubjects: "orders.new.", LongestDelay: time.Minute, Log: zerolog.Nop()}, q.Store(), laterTime{settle.RealTime(), &ahead})
	p.Claims.Start(time.Minute, "")
	look := func(want int) {
		t.Helper()
		asked, err := p.Overdue.Look(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, asked)
	}
	look(0)
	ahead.Store(int64(2 * time.Minute))
	look(0) // a delivery may take as long
	ahead.Store(int64(4 * time.Minute))
	settleAs(t, q, ds[1], report(order.Accepted, order.History{Attempts: 1}))
	look(1)
	d := pull(t, q, 1)[0]
	require.Equal(t, "A-1", d.OrderNo())
	settleAs(t, q, d, report(order.Accepted, order.History{Attempts: 1}))
	requireBalanced(t, q)
}

// R9: a worker whose clock is years ahead wrote a delay, or the note of an attempt. Another one waits no
// longer than a delay, or an attempt, can last.
func TestR9NoWaitLastsLongerThanADelay(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	var ahead atomic.Int64
	p := settle.New(settle.Config{Worker: "b", IntentSubjects: "orders.new.", LongestDelay: time.Minute, AttemptTimeout: time.Second, Log: zerolog.Nop()}, q.Store(), laterTime{settle.RealTime(), &ahead})
	years := time.Now().Add(12 * 365 * 24 * time.Hour)
	check := func(no string, d *settle.Delivery, want settle.Work) {
		t.Helper()
		require.NoError(t, p.Worker.Check(t.Context(), []*settle.Delivery{d}))
		require.Equal(t, want, d.Work, no)
	}
	for no, c := range map[string]struct {
		write func(*order.Record)
		waits settle.Work
		most  time.Duration
	}{
		"delayed":   {func(r *order.Record) { r.Note, r.NotBefore = order.NoteDelayed, years }, settle.WorkNotYet, time.Minute},
		"attempted": {func(r *order.Record) { r.Note, r.LastAttemptAt = order.NoteAttempt, years }, settle.WorkClaimed, time.Second},
	} {
		ahead.Store(0)
		publish(t, q, intent(no, "i-"+no))
		d := pull(t, q, 1)[0]
		r := order.Report{End: order.EndSubmissionBudget, Verdict: order.Retry, Delay: time.Millisecond, History: d.History}
		note := *settleAs(t, q, d, r).Record
		c.write(&note)
		d = pull(t, q, 1)[0]
		_, err := q.Store().PutRecord(t.Context(), settle.FileToken(d.OrderNo()), &note, d.Last.Seq)
		require.NoError(t, err)
		check(no, d, c.waits)
		ahead.Store(int64(c.most - time.Millisecond*100))
		check(no, d, c.waits)
		ahead.Store(int64(c.most))
		check(no, d, settle.WorkSubmit)
	}
}
