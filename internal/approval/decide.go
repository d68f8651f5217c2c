package approval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// Refusal says why an approval was not taken. Nothing was done.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Counts reports whether a login counts for an approval: the console checked a password, or
// an authenticating proxy named the person. A name that a flag claims, a link in a
// terminal and a program's token do not.
func Counts(k journal.Known) bool { return k == journal.Login || k == journal.Proxy }

// Upload notes that a login imports a file, before it stores an order of it. A name that
// does not count takes away the one that was noted before.
func Upload(ctx context.Context, q *queue.Queue, batch string, by journal.Actor) error {
	return imports.ChangeApprovals(ctx, q, func(all *imports.Approvals) (bool, error) {
		token := imports.ImportToken(batch)
		before := all.Imports[token]
		rule := all.ReadRule()
		if !rule.On() || !Counts(by.Known) && (before == nil || before.Asker == nil) {
			return false, nil
		}
		next := imports.Approval{At: time.Now().UTC()}
		if before != nil {
			next = *before
		}
		if next.Asker = nil; Counts(by.Known) {
			if !next.Imported(by.Name) {
				next.Importers = append(next.Importers, by.Name)
			}
			next.Asker = &imports.Signature{Name: by.Name, How: string(by.Known), At: time.Now().UTC()}
		}
		if next.Refused != nil { // what was refused is withdrawn; this is about what is stored from now on
			next = imports.Approval{At: next.At, Asker: next.Asker, Importers: next.Importers}
		}
		all.Imports[token] = &next
		return true, nil
	})
}

// Address is the page of the console on which an import is approved or refused.
func Address(batch string) string { return "/approval?batch=" + url.QueryEscape(batch) }

// Describe says what keeps the waiting orders of an import where they are; "" = nothing.
func Describe(hold *imports.Hold, batch string) string {
	switch {
	case hold == nil:
		return ""
	case hold.ForApproval != "":
		return fmt.Sprintf("it needs approval (%s): people approve or refuse it in the console, on the page %s", hold.ForApproval, Address(batch))
	default:
		return "paused by " + hold.By()
	}
}

// noteStored bounds the note of an approval in the bucket. The journal has all of it.
const noteStored = 200

// Desk is where approvals are given.
type Desk struct {
	Queue   *queue.Queue
	Journal *journal.Journal
	// Now is the clock.
	Now func() time.Time

	// between is called between the intention and the effect; a test stops there.
	between func()
}

// Decision is what a login decides about an import or an act.
type Decision struct {
	Batch string
	// Act is what was asked for; nil = the decision is about the import.
	Act *journal.Item
	// Seen is what the person saw. Of an act it is what [Find] returns.
	Seen *imports.Assessment
	// About has the actor, the note and what the journal should have besides.
	About journal.About
}

// in returns where the approval stands that is decided about; nil = nobody asks for one.
func (dec *Decision) in(all *imports.Approvals) *imports.Approval {
	if dec.Act != nil {
		return all.Acts[dec.Act.ID]
	}
	return all.Imports[imports.ImportToken(dec.Batch)]
}

// Standing returns why a login cannot approve or refuse what it sees; nil = it can.
func (d *Desk) Standing(f *imports.Feeding, dec Decision) error {
	by, rule, now := dec.About.Actor, f.Approvals.ReadRule(), d.Now()
	a, it, asked, again, anew := dec.in(&f.Approvals), "import", "uploaded it", "Correct the file and import it again", "cancel the import, and import the file again (enqueue: --retry-failed)"
	if dec.Act != nil {
		it, asked, again, anew = "act", "asked for it", "Ask again if it is still needed", "ask again"
	}
	switch {
	case dec.Act != nil && a == nil:
		return refuse("it waits for no approval any more: %s", Ended(dec.Act))
	case dec.Act == nil && !rule.Imports(), dec.Act != nil && !needsApproval(rule, dec.Act.About):
		return refuse("nothing of this kind needs approval here (ORDERPOST_APPROVALS of the workers)")
	case !Counts(by.Known):
		return refuse("your name is not proved: it was %s; log in with a name and a password (ORDERPOST_CONSOLE_USERS), or by a proxy that names you", by.Known.Meaning())
	case dec.Seen.Count == 0:
		return refuse("nothing of the import waits any more: it was sent, cancelled, or refused")
	case a == nil || a.Why == "":
		return refuse("no worker has asked for an approval of the import yet: it is still being stored, or needs none, or no worker runs")
	case a.Refused != nil:
		return refuse("%s refused the %s at %s: %s. %s", a.Refused.Name, it, stamp(a.Refused.At), a.Refused.Note, again)
	case a.Asker.Same(by.Name):
		return refuse("you %s yourself; another login must approve it", asked)
	case a.Whole() && now.Before(a.Until) && a.UpTo.Covers(dec.Seen.UpTo):
		return refuse("it was approved already, by %s", names(a))
	case now.Sub(dec.Seen.Oldest) > rule.Lapse:
		return refuse("it waited for longer than %s, so its approval lapsed: %s", rule.Lapse, anew)
	case a.Bound == dec.Seen.Bound && now.Before(a.Until) && a.GivenBy(by.Name) != nil:
		return refuse("you approved it already; another login must approve it, too")
	}
	return nil
}

// names lists the logins that stand for an import.
func names(a *imports.Approval) string {
	var all []string
	for _, s := range a.Given {
		all = append(all, s.Name+" at "+stamp(s.At))
	}
	return strings.Join(all, " and ")
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Approve notes that a login approves what it saw. whole says that enough have: the feeder
// compares what is stored of an import with what was approved, and lets it go; a Carrier does
// an act. unwritten is what journal.Act.End returned. The error is a *Refusal if nothing was done, or one of the
// journal.
func (d *Desk) Approve(ctx context.Context, dec Decision) (whole bool, act *journal.Act, unwritten, err error) {
	act, unwritten, err = d.decide(ctx, journal.Approve, dec, func(all *imports.Approvals, a *imports.Approval, s imports.Signature) {
		if a.Bound != dec.Seen.Bound || !s.At.Before(a.Until) { // the others approved something else, or too long ago
			a.Given, a.Compared = nil, false
		}
		rule := all.ReadRule()
		latest := s.At
		if dec.Seen.Latest.After(latest) {
			latest = dec.Seen.Latest
		}
		a.Bound, a.Until, a.Given = dec.Seen.Bound, latest.Add(rule.Lapse), append(a.Given, s)
		whole = a.Whole()
	})
	return whole, act, unwritten, err
}

// Refuse notes that a login refuses an import or an act. The caller cancels the import then.
// Until that is done its orders stay where they are.
func (d *Desk) Refuse(ctx context.Context, dec Decision) (act *journal.Act, unwritten, err error) {
	if dec.About.Note == "" {
		return nil, nil, refuse("a refusal needs a reason")
	}
	return d.decide(ctx, journal.Refuse, dec, func(_ *imports.Approvals, a *imports.Approval, s imports.Signature) {
		a.Bound, a.Given, a.Compared, a.Refused = dec.Seen.Bound, nil, false, &s
	})
}

// decide writes the intention, the effect and the result.
func (d *Desk) decide(ctx context.Context, kind journal.Kind, dec Decision, do func(*imports.Approvals, *imports.Approval, imports.Signature)) (act *journal.Act, unwritten, err error) {
	f, err := imports.ReadFeeding(ctx, d.Queue, 0)
	if err == nil {
		err = d.Standing(f, dec)
	}
	if err != nil {
		return nil, nil, err
	}
	about := dec.About
	about.Kind, about.Batch, about.Expected = kind, dec.Batch, map[string]int{"orders": dec.Seen.Count}
	details := map[string]string{"digest": dec.Seen.Digest, "up_to": dec.Seen.UpTo.String()}
	if dec.Act != nil {
		about.OrderNo, about.Batch, about.Expected = dec.Act.OrderNo, dec.Act.Batch, nil
		details = map[string]string{"digest": dec.Seen.Digest, "act": dec.Act.ID, "what": what(dec.Act.About), "asked_by": dec.Act.Actor.Name}
	}
	for _, c := range dec.Seen.Columns {
		details["sum."+c.Name] = c.Sum.String()
	}
	maps.Copy(details, about.Details)
	about.Details = details
	if act, err = d.Journal.Begin(ctx, journal.Intention{About: about}); err != nil {
		return nil, nil, err
	}
	if d.between != nil {
		d.between()
	}
	err = imports.ChangeApprovals(ctx, d.Queue, func(all *imports.Approvals) (bool, error) {
		if err := d.Standing(&imports.Feeding{Approvals: *all}, dec); err != nil {
			return false, err
		}
		do(all, dec.in(all), imports.Signature{ // Standing has found it
			Name: about.Actor.Name, How: string(about.Actor.Known), At: d.Now().UTC(),
			Note: order.Truncate(about.Note, noteStored), Act: act.ID()})
		return true, nil
	})
	return act, act.End(ctx, result(about.Expected, err)), err
}

// result says how an act ended that is done, or failed.
func result(counts map[string]int, err error) journal.Result {
	if err != nil {
		return journal.Result{End: journal.Failed, Error: err.Error()}
	}
	return journal.Result{End: journal.Done, Counts: counts}
}

// IsRefusal returns the refusal in an error; nil = it is another one.
func IsRefusal(err error) *Refusal {
	r, _ := errors.AsType[*Refusal](err)
	return r
}
