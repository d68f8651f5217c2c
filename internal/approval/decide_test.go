package approval

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/worker/feed"
)

// An upload goes out once another login has approved what it sees. The journal has both.
func TestASecondLoginApproves(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 8, login("anna"))
	r.asked("march")
	r.passes("others")
	require.Equal(t, 8, r.waits("march"))
	require.Equal(t, 1, r.balances().Awaiting)

	_, err := r.approves("march", login("anna"))
	require.Equal(t, "you uploaded it yourself; another login must approve it", refused(t, err))
	_, err = r.approves("march", login("ANNA"))
	require.Contains(t, refused(t, err), "you uploaded it yourself", "a name in capitals is no other person")
	whole, err := r.approves("march", login("bob"))
	require.NoError(t, err)
	require.True(t, whole)
	r.goes("march")
	require.Zero(t, r.balances().Awaiting)
	_, err = r.approves("march", login("carol"))
	require.Contains(t, refused(t, err), "nothing of the import waits any more")

	names := map[journal.Kind]string{}
	_, err = journal.All(t.Context(), r.q, journal.Query{Batch: "march"}, func(i journal.Item) bool {
		names[i.Kind] = i.Actor.Name
		require.Equal(t, journal.Done, i.Result.End)
		if i.Kind == journal.Approve {
			require.Equal(t, "36.8", i.Details["sum.amount"])
			require.Len(t, i.Details["digest"], 64)
		}
		return true
	})
	require.NoError(t, err)
	require.Equal(t, map[journal.Kind]string{journal.Import: "anna", journal.Approve: "bob"}, names)
}

// Nobody's login was checked when a command imports, whatever its flags claim. So two
// logins must approve.
func TestANameThatAFlagClaimsIsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 5, journal.Actor{Name: "bob", Known: journal.ByFlag})
	require.Nil(t, r.asked("march").Asker)
	for _, how := range []journal.Known{journal.ByFlag, journal.ByUser, journal.ByProcess, journal.Link, journal.Token, journal.Certificate} {
		_, err := r.approves("march", journal.Actor{Name: "carol", Known: how})
		require.Contains(t, refused(t, err), "your name is not proved", how)
	}
	whole, err := r.approves("march", login("anna"))
	require.NoError(t, err)
	require.False(t, whole)
	r.passes("others")
	require.Equal(t, 5, r.waits("march"))
	_, err = r.approves("march", login("Anna"))
	require.Equal(t, "you approved it already; another login must approve it, too", refused(t, err))
	r.imports("march", 5, login("anna")) // who then uploads the same file is still one person
	require.False(t, r.approval("march").Whole())
	whole, err = r.approves("march", journal.Actor{Name: "bob", Known: journal.Proxy})
	require.NoError(t, err)
	require.True(t, whole)
	r.goes("march")
	r.balances()
}

// Whoever imported a file does not approve it in the place of somebody who only imported it
// again, such as to resume it, whatever lies between.
func TestAResumedImportIsStillThatOfWhoeverBeganIt(t *testing.T) {
	for name, between := range map[string]func(*rig){
		"nothing":   func(*rig) {},
		"a command": func(r *rig) { r.imports("march", 5, journal.Actor{Name: "anna", Known: journal.ByFlag}) },
		"a refusal": func(r *rig) {
			_, _, err := r.desk().Refuse(t.Context(), r.decision("march", login("bob"), "wrong month"))
			require.NoError(r, err)
		},
		"capitals": func(r *rig) { r.imports("march", 5, login("ANNA")) },
		"a lapse": func(r *rig) {
			r.stop()
			early := r.desk(func(d *Desk) { d.Now = func() time.Time { return time.Now().Add(-2 * time.Hour) } })
			whole, _, _, err := early.Approve(t.Context(), r.decision("march", login("bob"), ""))
			require.NoError(r, err)
			require.True(r, whole)
			r.feed()
			require.Eventually(r, func() bool { return r.approval("march").Why == "its last approval lapsed" }, time.Minute, 5*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "imports,lapse=1h")
			r.imports("march", 5, login("anna"))
			r.asked("march")
			between(r)
			r.imports("march", 5, login("carol"))
			r.asked("march")
			whole, err := r.approves("march", login("anna"))
			require.NoError(t, err)
			require.False(t, whole)
			require.False(t, r.approval("march").Whole())
			r.passes("others")
			require.Equal(t, 5, r.waits("march"))
			whole, err = r.approves("march", login("dora"))
			require.NoError(t, err)
			require.True(t, whole)
			r.goes("march")
			r.balances()
		})
	}
}

// A file of another content under the name of an import takes nothing over from it, and
// its uploader does not stand for the other file.
func TestAnotherFileUnderTheSameName(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 5)
	r.asked("march")
	other := r.file("march", 6, func(o *importer.Options) {
		o.Begun = func(ctx context.Context) error { return Upload(ctx, r.q, "march", login("anna")) }
	})
	checked, err := other.Check(t.Context())
	require.NoError(t, err)
	_, err = other.Publish(t.Context(), r.q, checked)
	require.ErrorIs(t, err, importer.ErrOtherContent)
	require.Nil(t, r.approval("march").Asker)
}

// What is stored after an approval, by whomever, needs another one.
func TestAnApprovalCoversOnlyWhatWasSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 6, login("anna"))
	r.asked("march")
	r.stop()
	seen := r.decision("march", login("bob"), "")
	require.NoError(t, publishRow(r, "march", "march:7", "late"))
	whole, _, _, err := r.desk().Approve(t.Context(), seen)
	require.NoError(t, err)
	require.True(t, whole)
	r.feed()
	require.Eventually(t, func() bool { return r.waits("march") == 1 }, time.Minute, 5*time.Millisecond)
	require.Eventually(t, func() bool { return !r.approval("march").Whole() }, time.Minute, 5*time.Millisecond)
	again := r.asked("march")
	require.Contains(t, again.Why, "stored after the last decision")
	require.Nil(t, again.Asker, "anna did not upload that")
	r.passes("others")
	require.Equal(t, 1, r.waits("march"))
}

// A worker compares what is stored with what the logins saw before it moves anything.
func TestWhatWasApprovedIsWhatIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 4, login("anna"))
	r.asked("march")
	d := r.decision("march", login("bob"), "")
	d.Seen.Digest = "of something else"
	whole, _, _, err := r.desk().Approve(t.Context(), d)
	require.NoError(t, err)
	require.True(t, whole)
	require.Eventually(t, func() bool { return r.approval("march").Why == "what waits of it is not what was approved" }, time.Minute, 5*time.Millisecond)
	r.passes("others")
	require.Equal(t, 4, r.waits("march"))
	require.Empty(t, r.approval("march").Given)
	whole, err = r.approves("march", login("bob"))
	require.NoError(t, err)
	require.True(t, whole)
	r.goes("march")
}

// Two logins approve at the same moment: one is enough, and the other learns it.
func TestTwoApproveAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 3, login("anna"))
	r.asked("march")
	r.stop()
	var both, ready sync.WaitGroup
	ready.Add(2)
	errs := make([]error, 2)
	for i, name := range []string{"bob", "carol"} {
		both.Go(func() {
			d := r.desk(func(d *Desk) {
				d.between = func() { ready.Done(); ready.Wait() } // both have journaled their intention
			})
			_, _, _, errs[i] = d.Approve(t.Context(), r.decision("march", login(name), ""))
		})
	}
	both.Wait()
	err := errors.Join(errs...)
	require.Contains(t, refused(t, err), "it was approved already, by ")
	require.Len(t, r.approval("march").Given, 1)
	r.feed()
	r.goes("march")
	r.balances()
	failed := 0
	_, err = journal.All(t.Context(), r.q, journal.Query{Batch: "march", Kind: journal.Approve}, func(i journal.Item) bool {
		if i.Result.End == journal.Failed {
			failed++
			require.Contains(t, i.Result.Error, "it was approved already")
		}
		return true
	})
	require.NoError(t, err)
	require.Equal(t, 1, failed, "the journal has the intention that came too late, and its end")
}

// Half of an import was sent before approvals were asked for. The other half waits, and an
// approval is about that half.
func TestAHalfThatWasAlreadySent(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", idle)
	r.imports("march", 40)
	require.Eventually(t, func() bool { return r.waits("march") < 40 }, time.Minute, time.Millisecond)
	r.stop()
	left := r.waits("march")
	require.Positive(t, left)
	require.Less(t, left, 40)
	r.works()
	SetRule(t.Context(), r.q, "imports", "w0", "test", zerolog.Nop())
	r.feed()
	r.asked("march")
	require.Equal(t, left, r.waits("march"))
	require.Equal(t, left, r.sees("march").Count)
	for _, name := range []string{"bob", "carol"} {
		_, err := r.approves("march", login(name))
		require.NoError(t, err)
	}
	require.Equal(t, left, r.approval("march").Count)
	r.goes("march")
	require.Eventually(t, func() bool { return len(r.sent()) == 40 }, time.Minute, 5*time.Millisecond)
}

// An approval that nobody gave in time cannot be given any more, and one that was given
// lets nothing go out after its time.
func TestAnApprovalLapses(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports,lapse=1h")
	r.imports("march", 3, login("anna"))
	r.asked("march")
	late := r.desk(func(d *Desk) { d.Now = func() time.Time { return time.Now().Add(61 * time.Minute) } })
	_, _, _, err := late.Approve(t.Context(), r.decision("march", login("bob"), ""))
	require.Equal(t, "it waited for longer than 1h0m0s, so its approval lapsed: cancel the import, and import the file again (enqueue: --retry-failed)", refused(t, err))

	r.stop()
	early := r.desk(func(d *Desk) { d.Now = func() time.Time { return time.Now().Add(-2 * time.Hour) } })
	whole, _, _, err := early.Approve(t.Context(), r.decision("march", login("bob"), ""))
	require.NoError(t, err)
	require.True(t, whole)
	r.feed()
	require.Eventually(t, func() bool { return r.approval("march").Why == "its last approval lapsed" }, time.Minute, 5*time.Millisecond)
	r.passes("others")
	require.Equal(t, 3, r.waits("march"))
	require.False(t, r.approval("march").Whole())
}

// A refusal holds the import, also if its console is killed before it cancels it, and
// nobody can approve it afterwards.
func TestARefusalHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 3, login("anna"))
	r.asked("march")
	_, _, err := r.desk().Refuse(t.Context(), r.decision("march", login("bob"), ""))
	require.Equal(t, "a refusal needs a reason", refused(t, err))
	_, _, err = r.desk().Refuse(t.Context(), r.decision("march", login("anna"), "no"))
	require.Contains(t, refused(t, err), "you uploaded it yourself", "who uploaded cancels it instead")
	_, unwritten, err := r.desk().Refuse(t.Context(), r.decision("march", login("bob"), "the prices are of last year"))
	require.NoError(t, errors.Join(err, unwritten))
	_, err = r.approves("march", login("carol"))
	require.Contains(t, refused(t, err), "bob refused the import at ")
	require.Contains(t, refused(t, err), "the prices are of last year. Correct the file and import it again")
	r.feed()
	r.passes("others")
	require.Equal(t, 3, r.waits("march"))
	r.balances()

	_, err = imports.CancelBatch(t.Context(), r.q, "march", "bob")
	require.True(t, err == nil || errors.Is(err, imports.ErrNotAwaited), err)
	r.goes("march")
	for no := range r.sent() {
		require.Contains(t, no, "others", "nothing of the import went out")
	}
	f := r.file("march", 3, func(o *importer.Options) { o.RetryFailed = true }) // from a terminal
	checked, err := f.Check(t.Context())
	require.NoError(t, err)
	_, err = f.Publish(t.Context(), r.q, checked)
	require.NoError(t, err)
	require.Eventually(t, func() bool { a := r.approval("march"); return a.Refused == nil && a.Why != "" }, time.Minute, 5*time.Millisecond)
	require.Nil(t, r.approval("march").Asker)
	r.passes("more")
	require.Equal(t, 3, r.waits("march"))
}

// Cancelling needs no approval.
func TestCancelledWhileItWaitsForApproval(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 5, login("anna"))
	r.asked("march")
	seen := r.decision("march", login("bob"), "")
	_, err := imports.CancelBatch(t.Context(), r.q, "march", "anna")
	require.True(t, err == nil || errors.Is(err, imports.ErrNotAwaited), err)
	r.goes("march")
	require.Empty(t, r.sent(), "nothing of it went out")
	_, _, _, err = r.desk().Approve(t.Context(), seen) // of a page that was opened before
	require.NoError(t, err)
	_, err = r.approves("march", login("bob"))
	require.Contains(t, refused(t, err), "nothing of the import waits any more")
	require.Empty(t, r.sent())
}

// A worker that restarts while an import waits keeps it waiting, and so does one that lacks
// the setting.
func TestAWorkerRestartsWhileAnImportWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 4, login("anna"))
	r.asked("march")
	r.feed()
	SetRule(t.Context(), r.q, "", "w2", "test", zerolog.Nop()) // one without the setting
	r.passes("others")
	require.Equal(t, 4, r.waits("march"))
	whole, err := r.approves("march", login("bob"))
	require.NoError(t, err)
	require.True(t, whole)
	r.goes("march")
	SetRule(t.Context(), r.q, "none", "w3", "test", zerolog.Nop())
	r.imports("april", 4)
	r.goes("april")
	var rules []string
	_, err = journal.All(t.Context(), r.q, journal.Query{Kind: journal.Rule}, func(i journal.Item) bool {
		rules = append(rules, i.Details["from"]+" > "+i.Details["to"])
		return true
	})
	require.NoError(t, err)
	require.Equal(t, []string{"imports,lapse=168h0m0s > none", "none > imports,lapse=168h0m0s"}, rules)
}

// The bucket is lost, and the rule with it. A feeder whose settings name one waits until it is
// back, and what was approved before must be approved again.
func TestTheRuleIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 4, login("anna"))
	r.asked("march")
	r.feed(func(o *feed.Options) { o.Ruled = true })
	require.NoError(t, r.q.Bucket().Delete(t.Context(), "waiting.approvals", 0))
	var problem string
	require.Eventually(t, func() bool {
		f, err := imports.ReadFeeding(t.Context(), r.q, 0)
		if err == nil && f.Lease != nil {
			problem = f.Lease.Problem
		}
		return problem != ""
	}, time.Minute, 5*time.Millisecond)
	require.Contains(t, problem, "the fleet has no rule for approvals")
	require.Equal(t, 4, r.waits("march"))
	ctx, stop := context.WithCancel(t.Context())
	var keeps sync.WaitGroup
	keeps.Go(func() { KeepRule(ctx, r.q, "imports", "w1", "test", zerolog.Nop()) })
	defer keeps.Wait()
	defer stop()
	r.asked("march")
	require.Equal(t, 4, r.waits("march"))
	_, err := r.approves("march", login("bob"))
	require.NoError(t, err)
	_, err = r.approves("march", login("carol"))
	require.NoError(t, err)
	r.goes("march")
}

// The approver's console is killed between the intention in the journal and the effect:
// nothing was approved, the journal says so, and somebody can approve again.
func TestAConsoleIsKilledBetweenIntentionAndEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 4, login("anna"))
	r.asked("march")
	ctx, kill := context.WithCancel(t.Context())
	d := r.desk(func(d *Desk) {
		d.Queue = r.open("killed")
		d.between = func() { kill(); d.Queue.Close() }
	})
	_, _, _, err := d.Approve(ctx, r.decision("march", login("bob"), ""))
	require.Error(t, err)
	require.Empty(t, r.approval("march").Given)
	r.passes("others")
	require.Equal(t, 4, r.waits("march"))
	r.balances()
	whole, err := r.approves("march", login("bob"))
	require.NoError(t, err)
	require.True(t, whole)
	r.goes("march")
	r.balances()
}

// An approval without its act in the journal is a contradiction.
func TestTheAuditNamesAnApprovalThatTheJournalLacks(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports")
	r.imports("march", 2)
	r.asked("march")
	require.NoError(t, imports.ChangeApprovals(t.Context(), r.q, func(all *imports.Approvals) (bool, error) {
		a := all.Imports[imports.ImportToken("march")]
		a.Given = []imports.Signature{{Name: "mallory", How: "login", At: time.Now()}}
		a.Asker = &imports.Signature{Name: "anna", How: "login", At: time.Now()}
		a.Until = time.Now().Add(time.Hour)
		return true, nil
	}))
	a := &audit.AuditResult{}
	require.NoError(t, Audit(t.Context(), r.q, a))
	require.Len(t, a.Offenders, 2)
	require.Contains(t, a.Offenders[0].Problem, "mallory approved it at ")
	require.Contains(t, a.Offenders[1].Problem, "anna uploaded it at ")
	require.False(t, a.Balanced())
}

// Limits let small imports go, once they are whole.
func TestImportsBelowTheLimitsNeedNoApproval(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports.rows=10,imports.sum.amount=100.00")
	r.imports("small", 5) // 15.50
	r.goes("small")
	r.imports("long", 11)
	require.Equal(t, "it has 11 rows, more than 10", r.asked("long").Why)
	r.importsText("dear", "order_no,timeout,amount\nD-1,30,50.00\nD-2,30,50.01\n")
	require.Equal(t, "its amount adds up to 100.01, more than 100", r.asked("dear").Why)
	r.importsText("fair", "order_no,timeout,amount\nF-1,30,50.00\nF-2,30,50.00\n")
	r.goes("fair")
	r.importsText("odd", "order_no,timeout\nO-1,30\n")
	require.Equal(t, "1 of its orders have no number in amount", r.asked("odd").Why)
	require.NoError(t, publishRow(r, "foreign", "foreign:1", "X-1"))
	require.Contains(t, r.asked("foreign").Why, "nobody knows how many orders follow")
	for _, batch := range []string{"long", "dear", "odd", "foreign"} {
		require.Positive(t, r.waits(batch), batch)
	}
}

// Whoever leaves the waiting room out is refused: there the import would be held.
func TestDirectImportsAreRefused(t *testing.T) {
	r := newRig(t, "imports.rows=10")
	f := r.file("march", 2, func(o *importer.Options) { o.Direct = true })
	checked, err := f.Check(t.Context())
	require.NoError(t, err)
	_, err = f.Publish(t.Context(), r.q, checked)
	require.ErrorIs(t, err, importer.ErrDirect)
	require.ErrorContains(t, err, "leave --direct out (imports of more than 10 rows)")
	require.Zero(t, r.queued())
}

// An import that is being stored is not judged before its end, so its first rows do not
// slip through below the limit.
func TestAnImportIsJudgedAsAWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, "imports.rows=10")
	imp := &imports.Import{Batch: "march", Rows: 3, Done: 3, Storing: true}
	require.NoError(t, imports.SaveImport(t.Context(), r.q, imp))
	require.NoError(t, publishRow(r, "march", "march:1", "M-1"))
	r.passes("others")
	r.passes("more")
	require.Equal(t, 1, r.waits("march"))
	require.Nil(t, r.approval("march"))
	imp.Storing = false
	require.NoError(t, imports.SaveImport(t.Context(), r.q, imp))
	r.goes("march")
}
