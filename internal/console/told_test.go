package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// TestEveryPageSaysThatNothingIsSent: whoever waits finds the reason below the navigation
// of each page, and where an order or an import would else be "under way".
func TestEveryPageSaysThatNothingIsSent(t *testing.T) {
	r := newRig(t)
	c := fleet.New(r.worker)
	r.appear(0)
	res := r.worker.PublishMany(t.Context(), []settle.Intent{{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30}`), ID: "march:1", Batch: "march"}})
	require.NoError(t, res[0].Err)
	require.NoError(t, imports.SaveImport(t.Context(), r.worker, &imports.Import{Batch: "march", File: "march.csv", Rows: 1, Done: 1, Counts: map[string]int{"stored": 1}, StartedAt: time.Now().UTC()}))
	b := r.loggedIn()
	const why = "Nothing is sent since"
	require.NotContains(t, text(b.open(http.StatusOK, "/")), why)
	require.NotContains(t, text(b.open(http.StatusOK, "/journal")), why)

	since := time.Now().UTC()
	require.NoError(t, c.SetHold(t.Context(), fleet.Hold{By: "otto", Reason: "month end closing", Since: since}))
	r.Server.watch.forget()
	says := why + " " + since.Format("15:04") + " UTC: held by otto: month end closing."
	for _, item := range menu {
		page := b.open(http.StatusOK, item.Path())
		require.Contains(t, text(page), says, item.Path())
		require.Less(t, strings.Index(page, "</nav>"), strings.Index(page, why))
		require.Less(t, strings.Index(page, why), strings.Index(page, "<main"))
	}
	require.Contains(t, text(b.open(http.StatusOK, "/order?no=A-1")), "It is in the queue, and nothing is sent since")
	require.Eventually(t, func() bool {
		return strings.Contains(text(b.open(http.StatusOK, "/import?batch=march")), "waiting 1 order has no outcome yet. "+says)
	}, patience, 20*time.Millisecond)
	a := r.browser()
	require.NotContains(t, text(a.open(http.StatusOK, "/login")), why, "nobody is told before the login")
}

// TestPendingPage lists the orders that are retried, in pages, and links lead there from
// each count.
func TestPendingPage(t *testing.T) {
	r := newRig(t)
	r.worker.PublishMany(t.Context(), []settle.Intent{{OrderNo: "POISON <1>", Body: []byte(`{"order_no":"POISON <1>","timeout":30}`), ID: "march:1", Batch: "march"}})
	var got []*settle.Delivery
	for start := time.Now(); len(got) == 0 && time.Since(start) < time.Minute; {
		require.NoError(t, r.worker.Pull(t.Context(), 1, time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	}
	require.Len(t, got, 1)
	report := answered(order.Retry, 500, "status 500", `{"error":"<b>poison</b>"}`)
	report.End, report.Delay, report.History.Attempts = order.EndSubmissionBudget, time.Hour, 7
	_, err := r.worker.Worker.Settle(t.Context(), got[0], &report, order.Decide(&report, order.Facts{}))
	require.NoError(t, err)
	got[0].Release()
	var rest []settle.Intent
	for i := range pendingShown + 5 {
		no := fmt.Sprintf("Q-%02d", i)
		rest = append(rest, settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), ID: no})
	}
	for _, p := range r.worker.PublishMany(t.Context(), rest) {
		require.NoError(t, p.Err)
	}
	require.NoError(t, imports.SaveImport(t.Context(), r.worker, &imports.Import{Batch: "march", File: "march.csv", Rows: 1, Done: 1, Counts: map[string]int{"stored": 1}, StartedAt: time.Now().UTC()}))
	b := r.loggedIn()
	page := b.open(http.StatusOK, "/pending?retrying=on")
	require.Contains(t, text(page), `POISON &lt;1&gt; retrying 7 status 500: {&#34;error&#34;:&#34;&lt;b&gt;poison&lt;/b&gt;&#34;} in `)
	require.NotContains(t, text(page), "Q-00")
	page = b.open(http.StatusOK, "/pending")
	require.Contains(t, text(page), "56 orders are in the queue")
	require.Contains(t, text(page), "Q-48 queued 0")
	require.NotContains(t, text(page), "Q-49")
	_, next, found := strings.Cut(page, `rel="next" href="`)
	require.True(t, found)
	page = b.open(http.StatusOK, next[:strings.Index(next, `"`)])
	require.Contains(t, text(page), "Q-49 queued 0")
	require.NotContains(t, page, `rel="next"`)
	require.Contains(t, text(b.open(http.StatusOK, "/pending?batch=march")), "This list shows those of the import march.")
	require.Contains(t, text(b.open(http.StatusOK, "/pending?batch=april")), "No order matches.")

	require.Contains(t, b.open(http.StatusOK, "/"), `<a href="/pending">`)
	require.Contains(t, b.open(http.StatusOK, "/imports"), `<a href="/pending?batch=march">`)
	require.Contains(t, b.open(http.StatusOK, "/import?batch=march"), `<a href="/pending?batch=march">`)
}

// TestWaitingRoomPage: what waits is on the console, with its lanes, its times and paused
// imports, which go on by a form that carries who held them.
func TestWaitingRoomPage(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	c := fleet.New(r.worker)
	require.NoError(t, c.SetLane(t.Context(), "night", 7, "anna"))
	at := time.Now().Add(30 * time.Hour).Truncate(time.Second).UTC()
	var in []settle.Intent
	for i := range 5 {
		no := fmt.Sprintf("W-%d", i)
		w := settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), ID: no, Batch: "march", Lane: order.BulkLane}
		if i < 2 {
			w.NotBefore = at
		}
		in = append(in, w)
	}
	for _, p := range r.worker.PublishMany(t.Context(), in) {
		require.NoError(t, p.Err)
	}
	importer, viewer := r.as("importer"), r.as("viewer")
	require.Contains(t, text(viewer.open(http.StatusOK, "/")), "Waiting room 5 they wait for their turn or time Pending 0")
	page := viewer.open(http.StatusOK, "/waiting")
	for _, words := range []string{"5 orders wait for their turn or their time.", "Nobody feeds the queue from here", "bulk 1 3", "night 7 0 – 0 0", "march bulk 3 2 " + stamp(at)} {
		require.Contains(t, text(page), words)
	}
	require.NotContains(t, page, "/import/pause", "a viewer may not")

	pause := importer.open(http.StatusOK, "/import/pause?batch=march")
	require.Contains(t, text(pause), "They wait now 5 orders")
	state := stateField.FindStringSubmatch(pause)[1]
	importer.send(http.StatusConflict, "/import/pause", "batch", "march", "seen", "other")
	require.Contains(t, text(importer.send(http.StatusOK, "/import/pause", "batch", "march", "seen", state, "note", "wrong prices")), "The import is paused.")
	h, err := imports.ReadHold(t.Context(), r.worker, "march")
	require.NoError(t, err)
	require.Equal(t, "importer", h.By())
	require.Contains(t, text(importer.send(http.StatusConflict, "/import/pause", "batch", "march", "seen", state)), "It is held by importer. Nothing was done.")

	page = importer.open(http.StatusOK, "/waiting")
	require.Contains(t, text(page), "Paused imports Their orders that wait stay where they are")
	require.Contains(t, text(page), "bulk 1 0 – 0 5")
	require.Contains(t, text(importer.open(http.StatusOK, "/")), "1 import is paused")
	resume := importer.open(http.StatusOK, "/import/resume?batch=march")
	require.Contains(t, text(resume), "It is paused by importer.")
	importer.send(http.StatusConflict, "/import/resume", "batch", "march", "seen", state)
	require.Contains(t, text(importer.send(http.StatusOK, "/import/resume", "batch", "march", "seen", stateField.FindStringSubmatch(resume)[1])), "The import goes on.")
	h, err = imports.ReadHold(t.Context(), r.worker, "march")
	require.NoError(t, err)
	require.Empty(t, h)
	importer.open(http.StatusNotFound, "/import/pause?batch=nowhere")
	journal := text(r.as("operator").open(http.StatusOK, "/journal"))
	require.Contains(t, journal, "wrong prices")
}

// TestAnUploadWaitsForItsTime: a person names the time before which nothing is sent, and a
// time that is over is refused.
func TestAnUploadWaitsForItsTime(t *testing.T) {
	r := newRig(t)
	require.NoError(t, fleet.New(r.worker).Appear(t.Context(), fleet.Presence{Worker: "w1", ID: "w1", Since: time.Now().UTC(), Open: true, Joined: true}))
	b := r.loggedIn()
	a := b.upload(http.StatusOK, "march.csv", strings.NewReader("order_no,timeout\nA-1,30\n"))
	path := a.Request.URL.Path
	b.send(http.StatusOK, path+"/check", append(columnsForm(t, a.page), "batch", "march")...)
	require.Contains(t, text(b.settled(path)), "Not before (UTC)")
	over := time.Now().UTC().Add(-24 * time.Hour)
	require.Contains(t, text(b.send(http.StatusBadRequest, path+"/import", "not-before", over.Format("2006-01-02T15:04"))), "ago. Nothing was imported.")
	b.send(http.StatusBadRequest, path+"/import", "not-before", "soon")
	require.Contains(t, text(b.send(http.StatusBadRequest, path+"/import", "deadline", over.Format("2006-01-02T15:04"))), "ago, so every order would expire. Nothing was imported.")
	at := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Minute)
	require.Contains(t, text(b.send(http.StatusBadRequest, path+"/import", "not-before", at.Format("2006-01-02T15:04"), "deadline", at.Format("2006-01-02T15:04"))), "before which nothing is sent, so every order would expire.")
	b.send(http.StatusOK, path+"/import", "not-before", at.Format("2006-01-02T15:04"))
	b.settled(path)
	list, err := r.worker.Waiting.All(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.True(t, at.Equal(list[0].At), list[0].At)

	// A person may say that times which are over are right, of rows and of the import.
	a = b.upload(http.StatusOK, "late.csv", strings.NewReader("order_no,timeout,_not_before\nL-1,30,"+over.Format(time.RFC3339)+"\nL-2,30,\n"))
	path = a.Request.URL.Path
	require.Contains(t, text(b.settled(path)), "1 row of 2 cannot be sent.")
	b.send(http.StatusOK, path+"/check", append(columnsForm(t, a.page), "allow-past", "on")...)
	require.Contains(t, text(b.settled(path)), "2 rows, all can be sent.")
	require.Contains(t, b.open(http.StatusOK, path+"/mapping"), " --allow-past FILE")
	b.send(http.StatusOK, path+"/import", "not-before", over.Format("2006-01-02T15:04"), "allow-past", "on")
	require.Contains(t, text(b.settled(path)), "imported")
	waits, err := r.worker.Waiting.Total(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, waits)
}

// TestTheFleetsPaceAndItsAbsentWorkers are told on the overview and the fleet's page.
func TestTheFleetsPaceAndItsAbsentWorkers(t *testing.T) {
	r := newRig(t)
	c := fleet.New(r.worker)
	require.NoError(t, c.Appear(t.Context(), fleet.Presence{Worker: "w-1", ID: "1", Since: time.Now().UTC(), Open: true, Joined: true, InFlight: 64, Slots: 64, P50MS: 10_000, P99MS: 11_000, Binds: fleet.BindsAPI}))
	b := r.loggedIn()
	for _, path := range []string{"/", "/fleet"} {
		require.Contains(t, text(b.open(http.StatusOK, path)), "The API is slow: answers take 10 s (p50) and 11 s (p99); 64 of 64 slots are in use.", path)
	}
	require.Contains(t, text(b.open(http.StatusOK, "/fleet")), "p50 10 s, p99 11 s the API")
	snap := *r.Server.watch.look(t.Context())
	view := *snap.Fleet
	view.Now = view.Now.Add(12 * time.Second) // the worker is frozen
	snap.Fleet, snap.Workers, snap.Told, snap.At = &view, nil, view.Tell(time.Now(), 30*time.Second), time.Now()
	r.Server.watch.mu.Lock()
	r.Server.watch.last = &snap
	r.Server.watch.mu.Unlock()
	require.Regexp(t, `w-1 not seen for 1\d s, its 64 orders go to the next worker that starts, in 1\d s\.`, text(b.open(http.StatusOK, "/fleet")))
}

// TestTheFleetPageShowsDoors: who lets orders in, and who tells outcomes.
func TestTheFleetPageShowsDoors(t *testing.T) {
	r := newRig(t)
	ctx, hide := context.WithCancel(t.Context())
	var shown sync.WaitGroup
	shown.Go(func() {
		fleet.New(r.worker).ShowDoor(ctx, zerolog.Nop(), func() fleet.Door {
			return fleet.Door{Kind: fleet.DoorNotify, Name: "teller<1>", Version: "v7", Sends: true, Backlog: 1234, Problem: "status 500: <b>no</b>"}
		})
	})
	defer func() { hide(); shown.Wait() }()
	b := r.loggedIn()
	require.Eventually(t, func() bool {
		return strings.Contains(text(b.open(http.StatusOK, "/fleet")), "teller&lt;1&gt; notify 0 1,234")
	}, patience, 20*time.Millisecond)
	require.Contains(t, text(b.open(http.StatusOK, "/fleet")), "status 500: &lt;b&gt;no&lt;/b&gt;")
}
