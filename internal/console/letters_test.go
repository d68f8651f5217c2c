package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/status"
	"orderpost/internal/testing/queuetest"
)

// inDoubt is the report of an order that may have been created.
func inDoubt() order.Report {
	now := time.Now().UTC()
	return order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, Status: 504, Reason: "no answer",
		History: order.History{Attempts: 3, Unsure: true, FirstAttemptAt: now, LastAttemptAt: now}}
}

func (r *rig) refuses(no string) { r.settles(no, answered(order.Rejected, 422, "rule 2", "no")) }

// settlesMany publishes intents and brings them to an end.
func (r *rig) settlesMany(in []settle.Intent, report order.Report) {
	r.Helper()
	for _, res := range r.worker.PublishMany(r.Context(), in) {
		require.NoError(r, res.Err)
	}
	r.settlesPending(report)
}

// settlesPending brings what is in the queue to an end.
func (r *rig) settlesPending(report order.Report) {
	r.Helper()
	require.Eventually(r, func() bool {
		var got []*settle.Delivery
		require.NoError(r, r.worker.Pull(r.Context(), 100, 10*time.Millisecond, func(ds []*settle.Delivery) { got = append(got, ds...) }))
		for _, d := range got {
			_, err := r.worker.Worker.Settle(r.Context(), d, &report, order.Decide(&report, order.Facts{}))
			require.NoError(r, err)
			d.Release()
		}
		_ = r.worker.Trimmer.Trim(r.Context())
		room, err := r.worker.Census.Room(r.Context())
		return err == nil && room.Msgs == 0
	}, patience, time.Millisecond)
}

// lastAct returns the newest act of the journal.
func (r *rig) lastAct() journal.Item {
	r.Helper()
	page, err := journal.Read(r.Context(), r.worker, journal.Query{})
	require.NoError(r, err)
	require.NotEmpty(r, page.Items)
	return page.Items[0]
}

// letterPath is the page of an order's dead letter.
func (r *rig) letterPath(no string) string {
	r.Helper()
	return fmt.Sprint("/letters/", r.letter(no).Seq)
}

// field returns the value of a hidden field of a page.
func hidden(t *testing.T, page, name string) string {
	t.Helper()
	found := regexp.MustCompile(`<input type="hidden" name="` + name + `" value="([^"]*)">`).FindStringSubmatch(page)
	require.NotNil(t, found, "no field %s in %s", name, page)
	return found[1]
}

// TestLettersOfOneAnswer: letters with the same status and another answer are another
// group, and the filter selects one of them.
func TestLettersOfOneAnswer(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	for no, said := range map[string]string{"A-1": "40012: balance # is too low", "A-2": "40012: balance # is too low", "B-1": "40017: symbol # is <halted>"} {
		report := answered(order.Rejected, 422, "refused by status 422", "no")
		report.Said = said
		r.settles(no, report)
	}
	require.Eventually(t, func() bool { return strings.Contains(text(b.open(http.StatusOK, "/letters")), "3 dead letters") }, patience, 50*time.Millisecond)
	page := b.open(http.StatusOK, "/letters")
	require.NotContains(t, page, "<halted>")
	require.Contains(t, text(page), "rejected refused by status 422 2 422 40012: balance # is too low")
	require.Contains(t, text(b.open(http.StatusOK, "/letters?answer=SYMBOL+%23")), "1 dead letter matches the filter")
	link := regexp.MustCompile(`href="(/letters\?[^"]*answer=40017[^"]*)"`).FindStringSubmatch(page)
	require.NotNil(t, link, page)
	require.Contains(t, text(b.open(http.StatusOK, strings.ReplaceAll(link[1], "&amp;", "&"))), "1 dead letter matches the filter")
}

// TestDeadLettersPage lists letters by group and one by one, and filters them as the
// command does.
func TestDeadLettersPage(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	require.Contains(t, text(b.open(http.StatusOK, "/letters")), "There are no dead letters.")
	r.refuses("A-1")
	r.refuses("A-2")
	r.settles("B-1", inDoubt())
	r.settles("B-2", answered(order.Rejected, 400, `<b>rule</b> "3"`, "no"))
	r.settles("C-1", answered(order.Accepted, 200, "", "{}"))
	show := func(query string) string { return text(b.open(http.StatusOK, "/letters"+query)) }
	require.Eventually(t, func() bool { return strings.Contains(show(""), "4 dead letters, by outcome and reason") }, patience, 50*time.Millisecond)
	page := b.open(http.StatusOK, "/letters")
	require.NotContains(t, page, "<b>rule")
	require.Contains(t, text(page), "rejected rule 2 2 ")
	for query, want := range map[string]string{
		"?outcome=unknown":                 "B-1",
		"?outcome=unknown,rejected":        "A-1 A-2 B-1 B-2",
		"?outcome=unknown&outcome=expired": "B-1",
		"?status=4xx":                      "A-1 A-2 B-2",
		"?status=400,504":                  "B-1 B-2",
		"?reason=RULE":                     "A-1 A-2 B-2",
		"?order-no=*-1":                    "A-1 B-1",
		"?batch=march&order-no=A-2":        "A-2",
		"?batch=april":                     "",
		"?since=1h":                        "A-1 A-2 B-1 B-2",
		"?until=1h":                        "",
		"?reason=%3Cb%3Erule%3C":           "B-2",
	} {
		page := b.open(http.StatusOK, "/letters"+query)
		var got []string
		for _, m := range regexp.MustCompile(`href="/letters/\d+">([^<]+)<`).FindAllStringSubmatch(page, -1) {
			got = append(got, m[1])
		}
		require.Equal(t, want, strings.Join(got, " "), query)
		if want == "" {
			require.Contains(t, text(page), "No dead letter matches.")
		} else { // what acts on all that match would send
			values, err := url.ParseQuery(query[1:])
			require.NoError(t, err)
			sent, err := url.ParseQuery(strings.ReplaceAll(hidden(t, page, "filter"), "&amp;", "&"))
			require.NoError(t, err)
			require.Equal(t, readFilter(values), readFilter(sent))
			require.Equal(t, fmt.Sprint(r.letter("B-2").Seq), hidden(t, page, "seen"))
		}
	}
	for query, want := range map[string]string{
		"?status=6xx":       `"6xx" is not an HTTP status`,
		"?outcome=accepted": "an order that is accepted has no dead letter",
		"?since=yesterday":  `"yesterday" is neither a time`,
		"?from=first":       "The page that this link names does not exist.",
	} {
		require.Contains(t, text(strings.ReplaceAll(b.open(http.StatusBadRequest, "/letters"+query), "&#34;", `"`)), want, query)
	}
	overview := text(b.open(http.StatusOK, "/"))
	require.Contains(t, overview, "Unknown orders 1 they may exist at the API")
	require.Contains(t, overview, "rejected 3 dead letters")
}

// TestDeadLettersInPages goes forwards and backwards through many letters.
func TestDeadLettersInPages(t *testing.T) {
	r := newRig(t)
	var in []settle.Intent
	for i := range 2*letterRows + 3 {
		no := fmt.Sprintf("A-%03d", i)
		in = append(in, settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), ID: no})
	}
	r.settlesMany(in, answered(order.Rejected, 422, "rule 2", "no"))
	b := r.loggedIn()
	require.Eventually(t, func() bool { return strings.Contains(b.open(http.StatusOK, "/letters"), "103 dead letters") }, patience, 50*time.Millisecond)
	link := func(page, rel string) string {
		found := regexp.MustCompile(`rel="` + rel + `" href="([^"]*)"`).FindStringSubmatch(page)
		if found == nil {
			return ""
		}
		return strings.ReplaceAll(found[1], "&amp;", "&")
	}
	first := b.open(http.StatusOK, "/letters?outcome=rejected")
	require.Empty(t, link(first, "prev"))
	second := b.open(http.StatusOK, link(first, "next"))
	third := b.open(http.StatusOK, link(second, "next"))
	require.Empty(t, link(third, "next"))
	require.Contains(t, third, "A-102")
	require.NotContains(t, third, "A-099")
	back := b.open(http.StatusOK, link(third, "prev"))
	require.Contains(t, back, "A-050")
	require.Contains(t, back, "A-099")
	require.NotContains(t, back, "A-049")
	require.Contains(t, b.open(http.StatusOK, link(back, "prev")), "A-000")
	require.Contains(t, text(b.open(http.StatusOK, "/letters?from=999999")), "Nothing is left on this page.")
}

// TestALettersPage shows what happened, and nothing of it as markup.
func TestALettersPage(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	r.settles("B-1", answered(order.Rejected, 422, "rule 2", `<script>alert("answer")</script>`))
	r.settles("D-1", inDoubt())
	page := r.as("operator").open(http.StatusOK, r.letterPath("B-1"))
	require.NotContains(t, page, "<script>alert")
	for _, words := range []string{"The API refused this order for good.", "rule 2", "march.csv:7", "none: no attempt can have created the order", "secret_field", "Replay… Drop…"} {
		require.Contains(t, text(page), words)
	}
	require.Contains(t, page, `href="/order?no=B-1"`)
	page = r.as("viewer").open(http.StatusOK, r.letterPath("B-1"))
	require.NotContains(t, page, "secret_field")
	require.Contains(t, text(page), "Bodies of orders are hidden from viewers.")
	require.NotContains(t, page, "Replay…")
	page = text(r.as("operator").open(http.StatusOK, r.letterPath("D-1")))
	require.Contains(t, page, "Replay… Look up… Resolve… Drop…")
	require.Contains(t, page, "an attempt may have created the order, and nothing has settled that")
	for _, path := range []string{"/letters/999", "/letters/0", "/letters/x"} {
		r.as("viewer").open(http.StatusNotFound, path)
	}
}

// TestLettersOfAnything: an order number of 255 bytes of what JSON can hold is listed,
// shown, replayed and dropped.
func TestLettersOfAnything(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	for i, no := range []string{
		strings.Repeat("x", order.MaxOrderNo), strings.Repeat("%/..&?#+\"'<>\\;= ", 15), strings.Repeat("ü", 127), "\u202e right to left \u0000\n\t\x7f", "*", "🛒/..//../", " ",
	} {
		r.settles(no, inDoubt())
		path := r.letterPath(no)
		list := "/letters?order-no=" + url.QueryEscape(strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`).Replace(no))
		require.Eventually(t, func() bool {
			r.watch.letters.anew() // it may have been read within this second
			page := b.open(http.StatusOK, list)
			return strings.Contains(page, `href="`+path+`"`) && !strings.Contains(page, "\u202e")
		}, time.Minute, 10*time.Millisecond, "%q", no)
		require.NotContains(t, b.open(http.StatusOK, path), "\u202e")
		if i%2 == 0 {
			require.Contains(t, text(b.send(http.StatusOK, path+"/drop", "note", "not wanted")), "is dropped.")
		} else {
			form := b.open(http.StatusOK, path+"/replay")
			page := b.send(http.StatusOK, path+"/replay", "seen", hidden(t, form, "seen"), "note", "they said it is not there", "typed", typed(r.letter(no)))
			require.Contains(t, text(page), "The order is back in the queue. Its dead letter stays until it has its outcome.", "%q", no)
			r.settlesPending(answered(order.Accepted, 200, "", "{}"))
		}
		b.open(http.StatusNotFound, path)
	}
}

// TestReplay puts an order back, after a page that says what will happen.
func TestReplay(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	r.refuses("A-1")
	path, b := r.letterPath("A-1"), r.as("operator")
	form := b.open(http.StatusOK, path+"/replay")
	require.Contains(t, text(form), "The order goes back into the queue, unchanged and under its own order number.")
	r.letter("A-1") // a GET does not act
	page := b.send(http.StatusOK, path+"/replay", "seen", hidden(t, form, "seen"), "note", "the rule is mended")
	require.Contains(t, text(page), "The order is back in the queue. Its dead letter stays until it has its outcome.")
	require.Contains(t, text(b.open(http.StatusOK, "/letters")), "A-1 rejected under way")
	require.Contains(t, text(b.open(http.StatusOK, path)), "Under way a replay or a correction of the order is in the queue")
	item := r.lastAct()
	require.Equal(t, []any{journal.Replay, "operator", "A-1", "the rule is mended", journal.Done}, []any{item.Kind, item.Actor.Name, item.OrderNo, item.Note, item.Result.End})

	// The form again, as from a page that was left open.
	page = b.send(http.StatusConflict, path+"/replay", "seen", hidden(t, form, "seen"))
	require.Contains(t, text(page), "replay is in the queue already, and has no outcome yet. Nothing was done.")

	// It fails again. The old page is about the old letter.
	r.settlesPending(answered(order.Rejected, 422, "rule 2", "no"))
	page = b.send(http.StatusConflict, path+"/replay", "seen", hidden(t, form, "seen"))
	require.Contains(t, text(page), "This dead letter is gone since you opened the page")
	b.open(http.StatusNotFound, path)
	require.NotEqual(t, path, r.letterPath("A-1"))

	// Another intent is in the queue.
	path = r.letterPath("A-1")
	form = b.open(http.StatusOK, path+"/replay")
	require.NoError(t, r.worker.PublishMany(t.Context(), []settle.Intent{{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30}`), ID: "other"}})[0].Err)
	require.Contains(t, text(b.send(http.StatusConflict, path+"/replay", "seen", hidden(t, form, "seen"))), "Another intent for this order number is in the queue, so the letter stays. Nothing was done.")
	for _, act := range []string{"replay", "drop"} {
		require.Contains(t, text(b.open(http.StatusConflict, path+"/"+act)), "Another intent for this order number is in the queue")
	}
	// It is accepted meanwhile, and the letter goes.
	r.settlesPending(answered(order.Accepted, 200, "", "{}"))
	b.send(http.StatusConflict, path+"/replay", "seen", hidden(t, form, "seen"))
	require.Eventually(t, func() bool {
		return strings.Contains(text(b.open(http.StatusOK, "/letters")), "There are no dead letters.")
	}, patience, 50*time.Millisecond)
}

// An order in doubt and its correction, which was not sent, have a letter each.
func TestTheLettersOfAnOrder(t *testing.T) {
	r := newRig(t)
	r.doubts("A-1")
	require.NoError(t, r.worker.PublishMany(t.Context(), []settle.Intent{{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"text":"corrected"}`), ID: "second"}})[0].Err)
	for _, d := range queuetest.Pull(t, r.worker, 1) {
		_, err := r.worker.Worker.Refuse(t.Context(), d)
		require.NoError(t, err)
		d.Release()
	}
	queuetest.Drained(t, r.worker)
	b := r.loggedIn()
	var paths []string
	found, err := r.worker.Ledger.Letters(t.Context(), "A-1")
	require.NoError(t, err)
	for _, l := range found {
		paths = append(paths, fmt.Sprint("/letters/", l.Seq))
	}
	require.Len(t, paths, 2)
	page, list := b.open(http.StatusOK, "/order?no=A-1"), b.open(http.StatusOK, "/letters")
	for _, path := range paths {
		require.Contains(t, page, `href="`+path+`"`)
		require.Contains(t, list, `href="`+path+`"`)
	}
	require.Contains(t, text(page), "corrected")
	require.Equal(t, 2, strings.Count(text(page), "The order of the dead letter of"))
	require.Contains(t, text(b.open(http.StatusOK, paths[0])), "corrected", "the one that was filed last")
	require.NotContains(t, text(b.open(http.StatusOK, paths[1])), "corrected")
	b.send(http.StatusOK, paths[0]+"/drop")
	b.open(http.StatusNotFound, paths[0])
	b.open(http.StatusOK, paths[1])
}

// TestReplayOfAnExpiredOrder sends it without a deadline.
func TestReplayOfAnExpiredOrder(t *testing.T) {
	r := newRig(t)
	past := time.Now().Add(-time.Hour)
	r.settlesMany([]settle.Intent{{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30}`), ID: "a", Deadline: past}}, order.Report{End: order.EndDeadline})
	b := r.loggedIn()
	path := r.letterPath("A-1")
	form := b.open(http.StatusOK, path+"/replay")
	require.Contains(t, text(form), "so it is sent without a deadline")
	b.send(http.StatusOK, path+"/replay", "seen", hidden(t, form, "seen"))
	require.Equal(t, "none", r.lastAct().Details["deadline"])
	found, err := status.Find(t.Context(), r.worker, "A-1")
	require.NoError(t, err)
	require.True(t, found.Pending)
}

// TestReplayOfAnUnknownOrder needs the right, the order number and a note.
func TestReplayOfAnUnknownOrder(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	r.settles("A-1", inDoubt())
	path := r.letterPath("A-1")
	require.Contains(t, text(r.as("operator").open(http.StatusForbidden, path+"/replay")), "needs the right resubmit-unknown, and you do not have it")
	r.as("operator").send(http.StatusForbidden, path+"/replay", "seen", "x", "note", "x", "typed", "A-1")
	b := r.as("chief")
	form := b.open(http.StatusOK, path+"/replay")
	require.Contains(t, text(form), "it is created twice")
	state := hidden(t, form, "seen")
	for _, bad := range [][]string{{"seen", state, "typed", "A-1"}, {"seen", state, "note", "ticket 17"}, {"seen", state, "note", "ticket 17", "typed", "A-2"}} {
		require.Contains(t, text(b.send(http.StatusUnprocessableEntity, path+"/replay", bad...)), "Nothing was done.")
	}
	r.letter("A-1") // it is still there
	b.send(http.StatusOK, path+"/replay", "seen", state, "note", "ticket 17", "typed", "A-1")
	item := r.lastAct()
	require.Equal(t, "true", item.Details["resubmit-unknown"])
	require.Equal(t, "ticket 17", item.Note)
	entry, err := r.worker.Ledger.Lookup(t.Context(), "A-1")
	require.NoError(t, err)
	require.Equal(t, "chief", entry.Record.Interventions[0].By)
}

// TestResolve needs a note, and an order whose outcome is unknown.
func TestResolve(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	r.settles("A-1", inDoubt())
	r.refuses("B-1")
	b := r.as("operator")
	require.Contains(t, text(b.open(http.StatusConflict, r.letterPath("B-1")+"/resolve")), "there is nothing to resolve")
	path := r.letterPath("A-1")
	b.open(http.StatusOK, path+"/resolve")
	for _, bad := range [][]string{{"as", "accepted"}, {"note", "seen"}} {
		require.Contains(t, text(b.send(http.StatusUnprocessableEntity, path+"/resolve", bad...)), "Nothing was done. Fill in the field")
	}
	b.send(http.StatusBadRequest, path+"/resolve", "as", "expired", "note", "seen")
	require.Contains(t, text(b.send(http.StatusOK, path+"/resolve", "as", "accepted", "note", "seen in the back office")), "Recorded: the order is accepted.")
	entry, err := r.worker.Ledger.Lookup(t.Context(), "A-1")
	require.NoError(t, err)
	require.Equal(t, []string{"accepted", "operator"}, []string{entry.Record.Word, entry.Record.By})
	require.Contains(t, text(b.send(http.StatusConflict, path+"/resolve", "as", "rejected", "note", "no", "seen", "x")), "This dead letter is gone")
	require.Equal(t, journal.Resolve, r.lastAct().Kind)
}

// TestResolveACorrection: its letter stays if the order exists, and the page says so.
func TestResolveACorrection(t *testing.T) {
	r := newRig(t)
	r.doubts("A-1")
	b := r.loggedIn()
	const stays = "about a correction with another body"
	require.NotContains(t, text(b.open(http.StatusOK, r.letterPath("A-1")+"/resolve")), stays)
	publish := r.worker.PublishMany(t.Context(), []settle.Intent{{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30}`), ID: "april:9"}})
	require.NoError(t, publish[0].Err)
	require.Eventually(t, func() (refused bool) {
		require.NoError(t, r.worker.Pull(t.Context(), 1, time.Second, func(ds []*settle.Delivery) {
			require.Equal(t, settle.WorkWithheld, ds[0].Work)
			_, err := r.worker.Worker.Refuse(t.Context(), ds[0])
			require.NoError(t, err)
			refused = true
		}))
		return refused
	}, patience, time.Millisecond)
	r.settlesPending(order.Report{}) // nothing is left but the acknowledgement
	path := r.letterPath("A-1")
	require.Contains(t, text(b.open(http.StatusOK, path+"/resolve")), stays)
	b.send(http.StatusOK, path+"/resolve", "as", "accepted", "note", "seen in the back office")
	require.True(t, r.letter("A-1").Conflict)
}

// TestNothingHappensWithoutTheJournal: an act that the journal does not take is none.
func TestNothingHappensWithoutTheJournal(t *testing.T) {
	r := newRig(t)
	r.refuses("A-1")
	b := r.loggedIn()
	path := r.letterPath("A-1")
	r.fillJournal()
	require.Contains(t, text(b.send(http.StatusServiceUnavailable, path+"/drop", "note", "x")), "Nothing was done, because the journal cannot be written.")
	r.letter("A-1") // it is still there
}

// seq is the sequence of an order's dead letter.
func (r *rig) seq(no string) string { return strings.TrimPrefix(r.letterPath(no), "/letters/") }

// TestALetterIsCorrectedInPlace: the order of a dead letter, corrected on its page, is checked as a file with one order, and
// its import is a correction under the same number.
func TestALetterIsCorrectedInPlace(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	r.refuses("B-1")
	b := r.as("operator")
	path := r.letterPath("B-1")
	page := b.open(http.StatusOK, path)
	require.Contains(t, page, `<textarea id="body" name="body"`)
	require.NotContains(t, r.as("viewer").open(http.StatusOK, path), "<textarea")
	body := string(r.letter("B-1").Body)
	require.Contains(t, text(b.send(http.StatusBadRequest, path+"/correct", "body", body)), "so there is nothing to correct")
	require.Contains(t, text(b.send(http.StatusUnprocessableEntity, path+"/correct", "body", "{")), "That is no JSON object")
	require.Contains(t, text(b.send(http.StatusNotFound, "/letters/99999/correct", "body", body)), "not there any more")

	corrected := strings.Replace(body, `"timeout":30`, `"timeout":31`, 1)
	require.NotEqual(t, body, corrected)
	page = b.send(http.StatusOK, path+"/correct", "body", strings.ReplaceAll(corrected, ",", ",\r\n"))
	at := regexp.MustCompile(`/upload/[0-9a-f]{16}`).FindString(page)
	require.Contains(t, text(b.settled(at)), "Import 1 order")
	b.send(http.StatusOK, at+"/import", "direct", "on")
	require.Contains(t, text(b.settled(at)), "1 Enqueued as corrections")
	r.pull(1, order.Accepted)
	require.Contains(t, text(b.open(http.StatusOK, "/order?no=B-1")), "accepted")
	require.Contains(t, text(b.open(http.StatusNotFound, path)), "not there any more")
}
