package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
)

// preview posts the list's form and returns the preview's path once it has ended.
func (b *browser) preview(pairs ...string) string {
	b.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	a := b.do(http.MethodPost, "/letters/act", form)
	require.Equal(b, http.StatusOK, a.StatusCode, a.page)
	path := a.Request.URL.Path
	b.ended(path)
	return path
}

// ended waits for the job of a path and returns its page.
func (b *browser) ended(path string) string {
	b.Helper()
	job := b.jobs.Find(strings.TrimPrefix(path, "/jobs/"))
	require.NotNil(b, job, path)
	require.NoError(b, job.Wait(b.T.Context()))
	return text(b.open(http.StatusOK, path))
}

// run confirms a preview and returns the run's path.
func (b *browser) run(preview string, pairs ...string) string {
	b.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	a := b.do(http.MethodPost, preview+"/confirm", form)
	require.Equal(b, http.StatusOK, a.StatusCode, a.page)
	require.Regexp(b, `^/jobs/\w+$`, a.Request.URL.Path, a.page)
	return a.Request.URL.Path
}

func (r *rig) lettersLeft() int {
	r.Helper()
	c, err := r.worker.Census.Count(r.T.Context())
	require.NoError(r, err)
	return int(c.Letters)
}

// TestReplayAGroup: preview by fate, confirmation that names filter, sequence and
// counts, job, journal. Letters that came later stay.
func TestReplayAGroup(t *testing.T) {
	r := newRig(t)
	for i := range 4 {
		r.refuses(fmt.Sprintf("R-%d", i))
	}
	r.doubts("D-1")
	b := r.loggedIn()
	require.Eventually(t, func() bool {
		return strings.Contains(b.open(http.StatusOK, "/letters?reason=rule"), "all 4 that match the filter")
	}, patience, 50*time.Millisecond)

	preview := b.preview("act", "replay", "which", "all", "filter", "reason=rule", "seen", fmt.Sprint(r.letter("D-1").Seq))
	page := b.ended(preview)
	require.Contains(t, page, "4 dead letters would be put back into the queue. Nothing was done yet.")
	require.Contains(t, page, "Filter reason rule")
	require.Equal(t, 5, r.lettersLeft())
	r.refuses("R-later")

	asks := text(b.open(http.StatusOK, preview+"/confirm"))
	require.Contains(t, asks, "4 dead letters are put back into the queue.")
	require.Contains(t, asks, fmt.Sprintf("Up to letter %d; later ones are left alone", r.letter("D-1").Seq))
	require.Contains(t, asks, "Counted 4 replayed, at ")
	page = b.ended(b.run(preview, "note", "the API is back"))
	require.Contains(t, page, "4 dead letters were put back into the queue.")
	require.Equal(t, 6, r.lettersLeft())
	require.Equal(t, 4, strings.Count(b.open(http.StatusOK, "/letters"), "under way"))

	act := r.lastAct()
	require.Equal(t, journal.Replay, act.Kind)
	require.Equal(t, map[string][]string{"reason": {"rule"}}, act.Filter)
	require.Equal(t, map[string]int{"replayed": 4}, act.Expected)
	require.Equal(t, map[string]int{"replayed": 4}, act.Result.Counts)
	require.Equal(t, journal.Done, act.Result.End)
	require.Equal(t, "the API is back", act.Note)
	require.Equal(t, "anna", act.Actor.Name)

	require.Contains(t, text(b.send(http.StatusConflict, preview+"/confirm", "note", "x", "seen", "x")), "anna has started exactly this already, at ")
	require.Contains(t, text(b.open(http.StatusOK, "/jobs")), "Replay dead letters anna")
}

// TestDropAGroup asks for the count and a note.
func TestDropAGroup(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.refuses(fmt.Sprintf("R-%d", i))
	}
	b := r.loggedIn()
	preview := b.preview("act", "drop", "which", "chosen", "letter", fmt.Sprint(r.letter("R-0").Seq), "letter", fmt.Sprint(r.letter("R-2").Seq))
	require.Contains(t, b.ended(preview), "2 dead letters would be forgotten.")
	require.Contains(t, b.open(http.StatusOK, preview+"/confirm"), "Type 2 to confirm")
	require.Contains(t, text(b.send(http.StatusUnprocessableEntity, preview+"/confirm", "count", "2")), "Fill in the field")
	require.Contains(t, text(b.send(http.StatusUnprocessableEntity, preview+"/confirm", "count", "3", "note", "old")), "as the count, and it is 2.")
	require.Equal(t, 3, r.lettersLeft())
	require.Contains(t, b.ended(b.run(preview, "count", "2", "note", "old")), "2 dead letters were forgotten.")
	require.Equal(t, 1, r.lettersLeft())
	require.Equal(t, "R-1", r.letter("R-1").OrderNo)
	entry, err := r.worker.Store().Record(t.Context(), order.Token("R-0"))
	require.NoError(t, err)
	require.True(t, entry.Record.Dropped)
}

// TestResolveAndResubmitAGroup: orders in doubt take a word, or a right.
func TestResolveAndResubmitAGroup(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	r.doubts("D-1")
	r.doubts("D-2")
	r.doubts("D-3")
	operator, chief := r.as("operator"), r.as("chief")
	operator.send(http.StatusForbidden, "/letters/act", "act", "replay", "which", "all", "unknown", "yes")
	preview := operator.preview("act", "replay", "which", "all")
	page := operator.ended(preview)
	require.Contains(t, page, "None of these letters would be put back into the queue.")
	require.Contains(t, page, "3 would stay: the order may exist at the API")
	require.NotContains(t, page, "in doubt</button>")
	operator.open(http.StatusBadRequest, preview+"/confirm")

	preview = operator.preview("act", "resolve", "which", "chosen", "letter", fmt.Sprint(r.letter("D-1").Seq))
	operator.send(http.StatusUnprocessableEntity, preview+"/confirm", "note", "asked them")
	operator.send(http.StatusBadRequest, preview+"/confirm", "note", "asked them", "as", "cancelled")
	require.Contains(t, operator.ended(operator.run(preview, "note", "asked them", "as", "accepted")), "1 dead letter was settled.")
	entry, err := r.worker.Store().Record(t.Context(), order.Token("D-1"))
	require.NoError(t, err)
	require.Equal(t, order.OutcomeAccepted, entry.Record.Outcome())
	require.Equal(t, "operator", entry.Record.By)

	require.Contains(t, chief.open(http.StatusOK, chief.preview("act", "replay", "which", "all")), "Preview with the 2 orders in doubt")
	preview = chief.preview("act", "replay", "which", "all", "unknown", "yes")
	operator.open(http.StatusForbidden, preview+"/confirm")
	chief.send(http.StatusUnprocessableEntity, preview+"/confirm", "note", "they recognise duplicates")
	require.Contains(t, chief.ended(chief.run(preview, "note", "they recognise duplicates", "count", "2")), "2 dead letters were put back into the queue.")
}

// TestTwoPeopleRunTheSameGroup: nothing is done twice, and the second sees what the
// first did.
func TestTwoPeopleRunTheSameGroup(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	for i := range 3 {
		r.refuses(fmt.Sprintf("R-%d", i))
	}
	one, two := r.as("operator"), r.as("chief")
	first, second := one.preview("act", "replay", "which", "all"), two.preview("act", "replay", "which", "all")
	require.Contains(t, one.ended(one.run(first)), "3 dead letters were put back into the queue.")
	page := two.ended(two.run(second))
	require.Contains(t, page, "0 dead letters were put back into the queue.")
	c, err := r.worker.Census.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(3), c.Pending)
}

// TestAnOldPreview cannot be confirmed, and says why. Nothing is done.
func TestAnOldPreview(t *testing.T) {
	r := newRig(t)
	r.refuses("R-1")
	b := r.loggedIn()
	preview := b.preview("act", "replay", "which", "all")
	b.open(http.StatusOK, preview+"/confirm")
	r.ahead.Store(int64(previewLasts + time.Minute))
	const says = "This preview is 31 minutes old, and a preview counts for 30 minutes. Nothing was done. Open the list of dead letters and preview again."
	require.Contains(t, text(b.open(http.StatusConflict, preview+"/confirm")), says)
	require.Contains(t, text(b.send(http.StatusConflict, preview+"/confirm", "note", "x", "seen", "x")), says)
	require.Equal(t, 1, r.lettersLeft())
	page := text(b.open(http.StatusOK, preview))
	require.NotContains(t, page, "Go on…")
	require.Contains(t, page, "This preview is too old to go on with. Preview again.")
}

// TestAConsoleThatRestarted: what a page from before it sends does nothing, and leads to
// what is known.
func TestAConsoleThatRestarted(t *testing.T) {
	r := newRig(t)
	r.refuses("R-1")
	b := r.loggedIn()
	preview := b.preview("act", "replay", "which", "all")
	r.Server.Stop()
	r.Server = r.console()
	b.base = r.URL()
	require.Contains(t, text(b.send(http.StatusUnauthorized, preview+"/confirm", "note", "x", "seen", "x")), "Your login has ended, so nothing was done.")
	b.open(http.StatusOK, strings.TrimPrefix(r.lastLink(), r.URL()))
	require.Contains(t, text(b.send(http.StatusNotFound, preview+"/confirm", "note", "x", "seen", "x")), "This job is not known any more.")
	require.Equal(t, 1, r.lettersLeft())
}

// TestMistakesInGroups each get a sentence.
func TestMistakesInGroups(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("operator")
	for want, pairs := range map[string][]string{
		"It is not known what to do":     {"act", "import"},
		"One of the chosen dead letters": {"act", "drop", "which", "chosen", "letter", "x"},
		"The filter has a mistake":       {"act", "drop", "which", "all", "filter", "outcome=nice"},
	} {
		require.Contains(t, text(b.send(http.StatusBadRequest, "/letters/act", pairs...)), want)
	}
	for _, seen := range []string{"x", "1"} {
		require.Contains(t, text(b.send(http.StatusConflict, "/letters/act", "act", "drop", "which", "all", "seen", seen)), "The list that this form comes from does not exist any more")
	}
	many := []string{"act", "drop", "which", "chosen"}
	for i := range maxChosen + 1 {
		many = append(many, "letter", strconv.Itoa(i+1))
	}
	require.Contains(t, text(b.send(http.StatusBadRequest, "/letters/act", many...)), "More dead letters were chosen")
	b.open(http.StatusNotFound, "/jobs/gone")
	b.open(http.StatusNotFound, "/jobs/gone/confirm")
	b.send(http.StatusNotFound, "/jobs/gone/stop")
	require.Contains(t, b.ended(b.preview("act", "drop", "which", "all")), "No dead letter matches, so there is nothing to do.")
	require.Equal(t, http.StatusForbidden, r.as("importer").do(http.MethodPost, "/letters/act", url.Values{}).StatusCode)
}

// TestJobIsStopped by an operator, and says so; a viewer cannot.
func TestJobIsStopped(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	p := &plan{act: journal.Drop, fields: map[string][]string{"all": {"true"}}, filter: deadletter.LetterFilter{}}
	job, err := r.jobs.Start(jobs.Spec{Kind: string(journal.Drop), Title: "Drop dead letters", By: "operator", Subject: p}, waiting)
	require.NoError(t, err)
	viewer, operator := r.as("viewer"), r.as("operator")
	require.NotContains(t, viewer.open(http.StatusOK, "/jobs/"+job.ID), "Stop it")
	viewer.send(http.StatusForbidden, "/jobs/"+job.ID+"/stop")
	require.Regexp(t, regexp.MustCompile(`\d of about 9 letters: 3 dropped`), text(operator.open(http.StatusOK, "/jobs/"+job.ID)))
	operator.send(http.StatusOK, "/jobs/"+job.ID+"/stop")
	require.Contains(t, operator.ended("/jobs/"+job.ID), "It was stopped by operator. What is counted below was done; the other letters are as they were.")
}

// TestLookUpAGroup: workers are to ask the API about the orders in doubt, from the list and from the page of one letter.
func TestLookUpAGroup(t *testing.T) {
	r := newRig(t)
	r.refuses("R-1")
	r.doubts("D-1")
	r.doubts("D-2")
	b := r.loggedIn()
	page := b.open(http.StatusOK, "/letters/"+r.seq("D-1"))
	require.Contains(t, page, `name="act" value="lookup"`)
	require.NotContains(t, b.open(http.StatusOK, "/letters/"+r.seq("R-1")), "Look up")

	preview := b.preview("act", "lookup", "which", "all")
	page = b.ended(preview)
	require.Contains(t, page, "2 dead letters would be put into the queue, to be looked up. Nothing was done yet.")
	require.Contains(t, page, "is not in doubt")
	require.Contains(t, text(b.open(http.StatusOK, preview+"/confirm")), "Nothing is posted.")
	page = b.ended(b.run(preview, "note", ""))
	require.Contains(t, page, "2 dead letters were put into the queue, to be looked up")
	act := r.lastAct()
	require.Equal(t, []any{journal.Lookup, map[string]int{"asked": 2, "certain": 1}}, []any{act.Kind, act.Result.Counts})
	require.Equal(t, 2, strings.Count(b.open(http.StatusOK, "/letters"), "under way"))
}
