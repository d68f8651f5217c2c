package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/settle"
)

// askedAct is an act of a person that needs a second one, and where its approval stands.
type askedAct struct {
	ID      string
	Item    *journal.Item
	feeding *imports.Feeding
	entry   imports.Approval
	waits   bool // for people, or for the worker that does it
	seen    *imports.Assessment
	job     *jobs.Job // nil = it is about no dead letters
	Preview *actPreview
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
	a := &askedAct{ID: v.query("act")}
	if v.Method == http.MethodPost {
		a.ID = v.field("act")
	}
	ctx := v.brief()
	var err error
	if a.feeding, err = imports.ReadFeeding(ctx, v.s.queue, 0); err != nil {
		return nil, err
	}
	if entry := a.feeding.Approvals.Acts[a.ID]; entry != nil {
		a.entry, a.waits = *entry, true
	}
	if a.Item, a.seen, err = approval.Find(ctx, v.s.queue, a.ID); err != nil {
		return nil, err
	}
	if a.Item == nil {
		return nil, notFound(fmt.Sprintf("Nothing is known about an act %q.", shorten(plain(a.ID), 60)), "The page Approvals lists what waits for one.")
	}
	if a.waits && a.Item.Kind != journal.Limit && !approval.IsOne(a.Item.About) {
		err = previewAct(v, a)
	}
	return a, err
}

// previewAct counts what the act would do now.
func previewAct(v *visit, a *askedAct) error {
	d, err := approval.DeedOf(v.s.queue, a.Item.About, settle.Person{})
	if err != nil {
		return err
	}
	key := "act " + a.ID
	if a.job = v.s.jobs.Last(key); a.job == nil || a.job.State() != jobs.Running && time.Since(a.job.Ended()) > assessLasts {
		a.job, err = v.s.jobs.Start(jobs.Spec{Kind: previewKind, Key: key, Title: "Preview: " + a.entry.Why, By: v.person().Name, Unbounded: true, Subject: a.ID},
			func(ctx context.Context, job *jobs.Job) (any, error) {
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
		if other, busy := errors.AsType[*jobs.BusyError](err); busy && other.Job != nil {
			a.job, err = other.Job, nil
		}
		if err != nil {
			return err
		}
	}
	wait, enough := context.WithTimeout(v.Context(), previewWait)
	defer enough()
	if a.job.Wait(wait) != nil {
		return nil
	}
	result, err := a.job.Result()
	a.Preview, _ = result.(*actPreview)
	return err
}

// Read reports whether the page has all that it shows.
func (a *askedAct) Read() bool { return a.job == nil || a.Preview != nil }

// mark names what the page shows.
func (a *askedAct) mark() string {
	counts := map[string]int{}
	if a.Preview != nil {
		counts = a.Preview.Counts()
	}
	return mark(a.ID, a.seen.Digest, a.entry.Given, a.entry.Asker, a.entry.Refused, a.waits, counts)
}

// changed says what somebody did since the page was opened.
func (a *askedAct) changed() string {
	switch n := len(a.entry.Given); {
	case !a.waits:
		return sentence("this waits for no approval any more: " + approval.Ended(a.Item))
	case a.entry.Refused != nil:
		return a.entry.Refused.Name + " refused this at " + stamp(a.entry.Refused.At) + ": " + sentence(a.entry.Refused.Note)
	case n > 0:
		return a.entry.Given[n-1].Name + " approved this at " + stamp(a.entry.Given[n-1].At) + "."
	default:
		return "What this act would do is not what your page showed."
	}
}

func actDecision(v *visit, a *askedAct, note string) approval.Decision {
	return approval.Decision{Act: a.Item, Seen: a.seen, About: v.journaled(journal.About{Note: note})}
}

// mayDecideAct returns why the person cannot approve or refuse the act; nil = they can.
func mayDecideAct(v *visit, a *askedAct) error {
	if err := hasApprove(v); err != nil {
		return err
	}
	return undecided(v.s.approvals().Standing(a.feeding, actDecision(v, a, "")))
}

type actPage struct {
	*askedAct
	Word, Tone, Says string
	WhyNot           string
	May              bool
	What             actLine
	Given            []stander
	Now              string // what it would do now, counted
	Letter           string // the address of the one letter that it is about
}

func showAct(v *visit) error {
	a, err := askedActOf(v)
	if err != nil {
		return err
	}
	p := actPage{askedAct: a, What: describeAct(*a.Item), Given: standers(&a.entry, "asked for it")}
	p.stand()
	if seq := a.Item.Details["letter"]; seq != "" {
		p.Letter = "/letters/" + seq
	}
	if a.Preview != nil {
		p.Now = counted(a.Preview.Counts())
	}
	v.live = a.waits
	if a.waits && a.Read() {
		why := mayDecideAct(v, a)
		if p.May = why == nil; !p.May {
			p.WhyNot = "You cannot approve it. " + strings.TrimSuffix(why.Error(), " Nothing was done.")
		}
	}
	return v.render("act", "Approve an act", p)
}

// stand says where the approval stands.
func (p *actPage) stand() {
	switch e := &p.entry; {
	case !p.waits:
		p.Word, p.Tone, p.Says = "ended", "info", sentence(approval.Ended(p.Item))
		if r := p.Item.Result; r != nil {
			p.Word, p.Tone = p.What.Ended, p.What.Tone
		}
	case e.Refused != nil:
		p.Word, p.Tone, p.Says = "refused", "bad", e.Refused.Name+" refused it at "+stamp(e.Refused.At)+": "+sentence(e.Refused.Note)
	case e.Whole():
		p.Word, p.Tone, p.Says = "approved", "good", "A worker does it within seconds, if one runs."
	default:
		p.Word, p.Tone, p.Says = "needs approval", "warn", sentence(e.Why)+" It waits for "+whom(e)+"."
	}
}

// decideAct is decideImport for an act.
func decideAct(v *visit, c *confirmation) (a *askedAct, ask bool, err error) {
	if a, err = askedActOf(v); err != nil {
		return nil, true, err
	}
	if !a.Read() {
		return nil, true, v.done(approval.ActAddress(a.ID), "What it would do is still being counted. Nothing was done.")
	}
	c.Seen, c.Changed, c.Back = a.mark(), a.changed(), approval.ActAddress(a.ID)
	if v.Method == http.MethodPost {
		if err := v.asSeen(c.Seen, c.Changed); err != nil {
			return nil, true, err
		}
	}
	if err := mayDecideAct(v, a); err != nil {
		return nil, true, err
	}
	c.Facts, c.Fields = []fact{{"What", a.entry.Why}, {"Asked by", a.Item.Actor.Name + " (" + a.Item.Actor.Known.Meaning() + ")"}}, []fact{{"act", a.ID}}
	if a.Item.Note != "" {
		c.Facts = append(c.Facts, fact{"Their note", a.Item.Note})
	}
	if a.Preview != nil {
		c.Facts = append(c.Facts, fact{"What it would do now", counted(a.Preview.Counts())})
	}
	ask, err = v.unconfirmed(c)
	return a, ask, err
}

func approveAct(v *visit) error {
	c := &confirmation{Title: "Approve an act", Button: "Approve it", Inputs: []input{noteInput(false)},
		Says: []string{"You stand for it with your name. Once enough logins have approved it, a worker does it. It leaves alone what changed since it was asked for."}}
	a, ask, err := decideAct(v, c)
	if ask || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), actTimeout)
	defer cancel()
	whole, act, unwritten, err := v.s.approvals().Approve(ctx, actDecision(v, a, c.Inputs[0].Value))
	if err := afterDecision(v, act, unwritten, err); err != nil {
		return err
	}
	says := "You approved it. Another login must approve it, too."
	if whole {
		says = "You approved it. A worker does it within seconds, if one runs."
	}
	return v.done(approval.ActAddress(a.ID), says)
}

func refuseAct(v *visit) error {
	c := &confirmation{Title: "Refuse an act", Button: "Refuse it", Danger: true, Says: []string{"Nothing is done. Whoever asked can ask again."},
		Inputs: []input{{Name: "note", Label: "Reason", Hint: "Whoever asked for it reads it. Your name and the time are recorded, too.", Must: true, Many: true}}}
	a, ask, err := decideAct(v, c)
	if ask || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), actTimeout)
	defer cancel()
	act, unwritten, err := v.s.approvals().Refuse(ctx, actDecision(v, a, c.Inputs[0].Value))
	if err := afterDecision(v, act, unwritten, err); err != nil {
		return err
	}
	return v.done(approval.ActAddress(a.ID), "You refused it. Nothing of it is done.")
}

// aboutToAsk tells the person before an act that it needs a second one.
func aboutToAsk(v *visit, c *confirmation, about journal.About) error {
	ctx := v.brief()
	needs, err := approval.Needs(ctx, v.s.queue, about)
	if needs {
		c.Says = append(c.Says, "Here this needs a second person. Nothing is done before another login approves it.")
	}
	return err
}
