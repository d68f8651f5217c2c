package console

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
)

// TestBooks: an audit runs in the background and prints the command's sums.
func TestBooks(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	require.Contains(t, text(b.open(http.StatusOK, "/books")), "No audit was made since this console started.")
	r.settles("A-1", answered(order.Accepted, 200, "", "{}"))
	r.settles("B-1", answered(order.Rejected, 422, "rule 2", ""))
	b.send(http.StatusOK, "/books")
	require.Eventually(t, func() bool { return r.jobs.Last(auditKind).State() == jobs.Done }, patience, 10e6)
	page := text(b.open(http.StatusOK, "/books"))
	for _, want := range []string{"balanced", "The books balance: every intent is accounted for, and the streams agree.", "2 intents had ever been stored when the audit began",
		"2 of them are settled", "0 wait or are being worked on", "1 accepted", "1 rejected", "1 dead letters, 0 of them about an order that exists with another body", "anna started this audit"} {
		require.Contains(t, page, want)
	}

	// A letter that somebody removed by hand is a contradiction, and has a sentence.
	require.NoError(t, r.worker.Store().DeleteLetter(t.Context(), r.letter("B-1").Token(), r.letter("B-1").Seq))
	b.send(http.StatusOK, "/books")
	require.Eventually(t, func() bool { return r.jobs.Last(auditKind).State() == jobs.Done }, patience, 10e6)
	page = text(b.open(http.StatusOK, "/books"))
	require.Contains(t, page, "The books do not balance. The streams contradict each other about 1 order.")
	require.Contains(t, page, "B-1 outcome rejected, and the dead letter 1 that it names is not stored")
}

// TestOneAuditAtATime that outlives its page and can be stopped.
func TestOneAuditAtATime(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	_, err := r.jobs.Start(jobs.Spec{Kind: auditKind, Key: auditKind, Title: "Audit", By: "viewer"}, func(ctx context.Context, job *jobs.Job) (any, error) {
		job.Tell(jobs.Progress{Step: "look 1", Done: 2560, Of: 10_000})
		<-ctx.Done()
		return (*audit.AuditResult)(nil), ctx.Err()
	})
	require.NoError(t, err)
	job := r.jobs.Last(auditKind)
	importer := r.as("importer")
	page := importer.open(http.StatusOK, "/books")
	require.Contains(t, text(page), "viewer started it at ")
	require.Contains(t, text(page), "2,560 of about 10,000 messages are read (look 1).")
	require.NotContains(t, page, "/books/stop")
	require.Contains(t, text(importer.send(http.StatusConflict, "/books")), "This runs already: viewer started it at ")
	importer.send(http.StatusForbidden, "/books/stop", "job", job.ID)
	operator := r.as("operator")
	require.Regexp(t, regexp.MustCompile(`name="job" value="`+job.ID+`"`), operator.open(http.StatusOK, "/books"))
	operator.send(http.StatusOK, "/books/stop", "job", job.ID)
	require.Eventually(t, func() bool {
		return strings.Contains(text(importer.open(http.StatusOK, "/books")), "It was stopped by operator before its end, so it says nothing about the books.")
	}, patience, 10e6)
	operator.send(http.StatusNotFound, "/books/stop", "job", "gone")
}
