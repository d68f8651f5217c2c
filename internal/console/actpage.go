package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/settle"
)

// askedAct is an act of a person that needs a second one, as its page shows it.
type askedAct struct {
	matter
	ID      string
	Item    *journal.Item
	Preview *actPreview // nil = it is about no dead letters, or they are being counted

	waits bool // for people, or for the worker that does it

	What   actLine
	Now    string // what it would do now, counted
	Letter string // the address of the one letter that it is about
}

// actPreview is what the act would do now.
type actPreview struct {
	deadletter.Tally
	First []*settle.Letter
}

// shownLetters is how many dead letters the page of an act shows.
const shownLetters = 20

// askedActOf reads the act that the request names.
func askedActOf(v *visit) (*askedAct, error) {
	a := &askedAct{ID: v.given("act")}
	ctx := v.brief()
	var err error
	if a.feeding, err = imports.ReadFeeding(ctx, v.s.queue, 0); err != nil {
		return a, err
	}
	if entry := a.feeding.Approvals.Acts[a.ID]; entry != nil {
		a.entry, a.waits = *entry, true
	}
	var seen *imports.Assessment
	if a.Item, seen, err = approval.Find(ctx, v.s.queue, a.ID); err != nil {
		return a, err
	}
	if a.Item == nil {
		return a, notFound(fmt.Sprintf("Nothing is known about an act %q.", shorten(plain(a.ID), 60)), "The page Approvals lists what waits for one.")
	}
	if a.Read = true; a.waits && a.Item.Kind != journal.Limit && !approval.IsOne(a.Item.About) {
		if err := a.preview(v); err != nil {
			return a, err
		}
	}
	a.words, a.page, a.field = actWording, approval.ActAddress(a.ID), fact{"act", a.ID}
	if !a.waits {
		a.words.unlike = sentence("this waits for no approval any more: " + approval.Ended(a.Item))
	}
	a.facts = facts{{"What", a.entry.Why}, {"Asked by", a.Item.Actor.Name + " (" + a.Item.Actor.Known.Meaning() + ")"}}
	a.facts.say("Their note", a.Item.Note)
	counts := map[string]int{}
	if a.Preview != nil {
		counts = a.Preview.Counts()
		a.Now = counted(counts)
		a.facts = append(a.facts, fact{"What it would do now", a.Now})
	}
	a.mark = mark(a.ID, seen.Digest, a.entry.Given, a.entry.Asker, a.entry.Refused, a.waits, counts)
	a.decision = approval.Decision{Act: a.Item, Seen: seen, About: v.journaled(journal.About{})}
	return a, nil
}

// preview counts what the act would do now.
func (a *askedAct) preview(v *visit) error {
	d, err := approval.DeedOf(v.s.queue, a.Item.About, settle.Person{})
	if err != nil {
		return err
	}
	fresh := func(job *jobs.Job) bool { return time.Since(job.Ended()) <= assessLasts }
	spec := jobs.Spec{Kind: previewKind, Key: "act " + a.ID, Title: "Preview: " + a.entry.Why, Subject: a.ID}
	_, result, err := readAhead(v, spec, fresh, func(ctx context.Context, job *jobs.Job) (any, error) {
		p := &actPreview{}
		var mu sync.Mutex
		selects := d.Selects
		d.Selects = func(l *settle.Letter) bool {
			if selects != nil && !selects(l) {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			if len(p.First) < shownLetters {
				p.First = append(p.First, l)
			}
			return true
		}
		tally, err := deadletter.Preview(ctx, v.s.queue, d.Group, d.Deed, deadletter.Options{Limit: d.Options.Limit, Tell: func(t deadletter.Tally) {
			job.Tell(jobs.Progress{Step: counted(t.Counts()), Done: int64(t.Seen)}) //nolint:gosec // a count
		}})
		p.Tally = tally
		return p, err
	})
	a.Preview, a.Read = result.(*actPreview)
	return err
}

func showAct(v *visit) error {
	a, err := askedActOf(v)
	if err != nil {
		return err
	}
	a.What, a.Given = describeAct(*a.Item), a.standers("asked for it")
	a.stand()
	if seq := a.Item.Details["letter"]; seq != "" {
		a.Letter = "/letters/" + seq
	}
	v.live = a.waits
	if a.waits && a.Read {
		a.offer(v)
	}
	return v.render("act", "Approve an act", a)
}

// stand says where the approval stands.
func (a *askedAct) stand() {
	switch e := &a.entry; {
	case !a.waits:
		a.Word, a.Tone, a.Says = "ended", "info", sentence(approval.Ended(a.Item))
		if r := a.Item.Result; r != nil {
			a.Word, a.Tone = a.What.Ended, a.What.Tone
		}
	case e.Refused != nil:
		a.Word, a.Tone, a.Says = "refused", "bad", e.Refused.Name+" refused it at "+stamp(e.Refused.At)+": "+sentence(e.Refused.Note)
	case e.Whole():
		a.Word, a.Tone, a.Says = "approved", "good", a.words.approved
	default:
		a.Word, a.Tone, a.Says = "needs approval", "warn", sentence(e.Why)+" It waits for "+whom(e)+"."
	}
}
