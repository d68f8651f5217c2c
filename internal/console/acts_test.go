package console

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
)

var actAddress = regexp.MustCompile(`/approval\?act=([a-z0-9]{20})`)

// asks sends a confirmed act that needs a second person, and returns its id.
func (b *browser) asks(path string, pairs ...string) (id string) {
	b.Helper()
	require.Contains(b, text(b.open(http.StatusOK, path)), "Here this needs a second person. Nothing is done before another login approves it.")
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	a := b.do(http.MethodPost, path, form)
	require.Equal(b, http.StatusOK, a.StatusCode, a.page)
	found := actAddress.FindStringSubmatch(a.Request.URL.RequestURI())
	require.NotNil(b, found, "%s\n%s", a.Request.URL, a.page)
	require.Contains(b, text(a.page), "You asked for it. Nothing was done yet: another login must approve it.")
	return found[1]
}

// ends waits until a worker has ended an act, and returns its page.
func (b *browser) ends(id string) (page string) {
	b.Helper()
	require.Eventually(b, func() bool {
		page = text(b.open(http.StatusOK, "/approval?act="+id))
		return strings.Contains(page, "It is ")
	}, time.Minute, 20*time.Millisecond)
	return page
}

func (r *rig) outcome(no string) order.Outcome {
	r.Helper()
	e, err := r.worker.Store().Record(r.T.Context(), order.Token(no))
	require.NoError(r, err)
	return e.Record.Outcome()
}

// TestFourEyesOverActs: replays of orders in doubt, resolve and a higher limit wait for a second
// login, who sees what was asked for; each refusal has its words; the journal has both names.
func TestFourEyesOverActs(t *testing.T) {
	users := approvers(t, "emil", "bob", "carol", "dora")
	r := newRig(t, func(c *Config) { c.Users = users })
	r.approving("resubmit-unknown,resolve,limit")
	for _, no := range []string{"A-1", "A-2", "A-3", "A-4"} {
		r.doubts(no)
	}
	emil, bob, carol, dora := r.as("emil"), r.as("bob"), r.as("carol"), r.as("dora")
	require.Contains(t, text(carol.open(http.StatusOK, "/approvals")), "So do these acts: sending orders again that may exist, and settling orders in doubt, and a higher rate limit. "+
		"Two logins must stand for an act: whoever asks for it in this console and one that approves it, or two that approve it if a command asks. Nothing waits for an approval.")

	id := emil.asks(r.letterPath("A-1")+"/resolve", "as", "accepted", "note", "seen in the back office")
	page := emil.open(http.StatusOK, "/approval?act="+id)
	require.Contains(t, text(page), "needs approval Resolve order A-1 as accepted. It waits for a login other than emil.")
	require.Contains(t, text(page), "You cannot approve it. You asked for it yourself; another login must approve it.")
	require.NotContains(t, page, "/approval/approve?")
	var overview string
	require.Eventually(t, func() bool {
		overview = text(bob.open(http.StatusOK, "/"))
		return strings.Contains(overview, "Acts that wait for an approval")
	}, time.Minute, 20*time.Millisecond)
	require.Contains(t, overview, "resolve order A-1 as accepted you a login other than emil Emil asked for it.")
	page = text(bob.open(http.StatusOK, "/approval?act="+id))
	for _, says := range []string{"It would do now 1 resolved", "Note seen in the back office", "Asked by emil", "emil asked for it", "First dead letters", "A-1 unknown"} {
		require.Contains(t, page, says)
	}

	ask := bob.open(http.StatusOK, "/approval/approve?act="+id)
	require.Contains(t, text(ask), "Asked by emil (logged in)")
	form := func() url.Values {
		return url.Values{"act": {id}, "seen": {seenField.FindStringSubmatch(ask)[1]}}
	}
	a := emil.do(http.MethodPost, "/approval/approve", form())
	require.Equal(t, http.StatusConflict, a.StatusCode)
	require.Contains(t, text(a.page), "You asked for it yourself; another login must approve it. Nothing was done.")
	a = carol.do(http.MethodPost, "/approval/approve", form())
	require.Equal(t, http.StatusForbidden, a.StatusCode)
	require.Contains(t, text(a.page), "needs the right approve, and you do not have it. Nothing was done.")
	writeApprovers(t, users, "emil", "bob", "carol")
	require.NoError(t, os.Chtimes(users, time.Now(), time.Now().Add(time.Second)))
	a = dora.do(http.MethodPost, "/approval/approve", form())
	require.Equal(t, http.StatusUnauthorized, a.StatusCode)
	require.Equal(t, order.OutcomeUnknown, r.outcome("A-1"))

	require.Contains(t, text(bob.send(http.StatusOK, "/approval/approve", "act", id, "note", "looked, too")), "You approved it. A worker does it within seconds, if one runs.")
	page = emil.ends(id)
	require.Contains(t, page, "done It is done.")
	require.Contains(t, page, "Approved by bob")
	require.Equal(t, order.OutcomeAccepted, r.outcome("A-1"))
	a = bob.do(http.MethodPost, "/approval/approve", form())
	require.Equal(t, http.StatusConflict, a.StatusCode)
	require.Contains(t, text(a.page), "This waits for no approval any more: it is done. Nothing was done.")

	// One letter, and a group of them.
	one := emil.asks(r.letterPath("A-2")+"/replay", "typed", "A-2", "note", "the API refuses duplicates")
	group := emil.asks(emil.preview("act", "replay", "which", "chosen", "unknown", "yes", "letter", r.seq("A-3"), "letter", r.seq("A-4"))+"/confirm", "count", "2", "note", "as well")
	require.Equal(t, 3, r.lettersLeft())
	require.Contains(t, text(bob.open(http.StatusOK, "/approval?act="+group)), "It would do now 2 replayed")
	for _, id := range []string{one, group} {
		bob.send(http.StatusOK, "/approval/approve", "act", id)
		require.Contains(t, bob.ends(id), "done It is done.")
	}
	r.settlesPending(answered(order.Accepted, 200, "", "{}"))
	require.Zero(t, r.lettersLeft())

	// The limit.
	require.NoError(t, fleet.New(r.worker).SetLimit(t.Context(), &fleet.Limit{PerSecond: 10, By: "carol", At: time.Now().UTC()}))
	require.NotContains(t, text(emil.open(http.StatusOK, "/fleet/limit?limit=5")), "second person")
	limit := emil.asks("/fleet/limit?limit=50", "limit", "50")
	refuse := bob.open(http.StatusOK, "/approval/refuse?act="+limit)
	require.Contains(t, text(refuse), "limit 50, now 10/s")
	require.Contains(t, text(bob.send(http.StatusUnprocessableEntity, "/approval/refuse", "act", limit)), "Fill in the field &#34;Reason&#34; first.")
	bob.send(http.StatusOK, "/approval/refuse", "act", limit, "note", "the API is slow today")
	require.Contains(t, emil.ends(limit), "failed It is failed (nothing was done: bob refused it: the API is slow today).")
	view, err := fleet.New(r.worker).Read(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 10, view.Limit.PerSecond, 0)

	var acts []string
	_, err = journal.All(t.Context(), r.worker, journal.Query{OrderNo: "A-1"}, func(i journal.Item) bool {
		acts = append(acts, string(i.Kind)+" by "+i.Actor.Name+": "+i.Note)
		return true
	})
	require.NoError(t, err)
	require.Equal(t, []string{"approve by bob: looked, too", "resolve by emil: seen in the back office"}, acts)
	require.Contains(t, text(carol.audited()), "The books balance")
	emil.open(http.StatusNotFound, "/approval?act=nothing")
	emil.open(http.StatusNotFound, "/approval?act=*")
}
