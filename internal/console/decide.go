package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/platform/jobs"
)

// matter is what people approve or refuse: an import, or an act that somebody asked for.
type matter struct {
	feeding  *imports.Feeding
	entry    imports.Approval  // where its approval stands
	decision approval.Decision // of the person, but for the note
	words    wording

	// page is its address, field names it in a form, and mark is that of what its page shows.
	page  string
	field fact
	mark  string
	facts facts // of the confirmation

	// Read: all is read that the page shows.
	Read bool
	// Word, Tone and Says tell where the approval stands.
	Word, Tone, Says string
	// May: the person may approve and refuse it. WhyNot says why they may not.
	May    bool
	WhyNot string
	Given  []stander
}

// wording is what is said of imports and of acts in words of their own.
type wording struct {
	title, it, this             string
	unread, unlike              string // that it is not read yet, and that it is not what the page showed
	approving, approved         string
	refusing, refused, whoReads string
}

var importWording = wording{it: "the import", this: "this import",
	unread: "The import is still being read.", unlike: "What waits of this import is not what your page showed.",
	approving: "You stand for these orders with your name. Once enough logins have approved them, a worker compares what is stored with what you saw, and sends it.",
	approved:  "Its orders take their turns.",
	refusing:  "Its orders that wait are withdrawn: they end as cancelled. Nothing of them is sent.",
	refused:   "Its orders are being withdrawn.", whoReads: "Whoever imported the file reads it."}

var actWording = wording{title: "an act", it: "it", this: "this",
	unread: "What it would do is still being counted.", unlike: "What this act would do is not what your page showed.",
	approving: "You stand for it with your name. Once enough logins have approved it, a worker does it. It leaves alone what changed since it was asked for.",
	approved:  "A worker does it within seconds, if one runs.",
	refusing:  "Nothing is done. Whoever asked can ask again.",
	refused:   "Nothing of it is done.", whoReads: "Whoever asked for it reads it."}

// matterOf reads what the form is about.
func matterOf(v *visit) (*matter, error) {
	if v.given("act") != "" {
		a, err := askedActOf(v)
		return &a.matter, err
	}
	a, err := assessmentOf(v)
	return &a.matter, err
}

// readAhead returns the job that reads what a page shows, and its result so far: the last one
// with the key while it runs or holds, and otherwise a new one, for which it waits a moment.
func readAhead(v *visit, spec jobs.Spec, holds func(*jobs.Job) bool, run jobRun) (job *jobs.Job, result any, err error) {
	if job = v.s.jobs.Last(spec.Key); job == nil || job.State() != jobs.Running && !holds(job) {
		spec.By, spec.Unbounded = v.person().Name, true
		job, err = v.s.jobs.Start(spec, run)
		if other, busy := errors.AsType[*jobs.BusyError](err); busy && other.Job != nil {
			job, err = other.Job, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	_ = job.Wait(v.within(previewWait)) // the page shows either
	result, err = job.Result()
	return job, result, err
}

func (s *Server) approvals() *approval.Desk {
	return &approval.Desk{Queue: s.queue, Journal: s.journal(), Now: time.Now}
}

// mayDecide returns why the person cannot approve or refuse it; nil = they can.
func (m *matter) mayDecide(v *visit) error {
	if !v.person().Approve {
		return &problem{status: http.StatusForbidden, what: "Approving and refusing needs the right approve, and you do not have it. Nothing was done.",
			todo: "Ask whoever runs this console for it (" + Importer.String() + approveRight + ")."}
	}
	return undecided(v.s.approvals().Standing(m.feeding, m.decision))
}

// offer fills in whether the person may decide.
func (m *matter) offer(v *visit) {
	why := m.mayDecide(v)
	if m.May = why == nil; !m.May {
		m.WhyNot = "You cannot approve it. " + strings.TrimSuffix(why.Error(), " Nothing was done.")
	}
}

// undecided makes a page of a refusal.
func undecided(err error) error {
	if r := approval.IsRefusal(err); r != nil {
		return &problem{status: http.StatusConflict, what: sentence(r.Text) + " Nothing was done.", todo: "Look at it again."}
	}
	return unannounced(err)
}

// stander is a login that stands for something, or against it.
type stander struct {
	imports.Signature
	Did string
}

// standers lists who stands for it. asked is what its asker did.
func (m *matter) standers(asked string) (out []stander) {
	if m.entry.Asker != nil {
		out = append(out, stander{*m.entry.Asker, asked})
	}
	for _, s := range m.entry.Given {
		out = append(out, stander{s, "approved it"})
	}
	if m.entry.Refused != nil {
		out = append(out, stander{*m.entry.Refused, "refused it"})
	}
	return out
}

// changed says what somebody did since the page was opened.
func (m *matter) changed() string {
	e := &m.entry
	switch n := len(e.Given); {
	case e.Refused != nil:
		return e.Refused.Name + " refused " + m.words.this + " at " + stamp(e.Refused.At) + ": " + sentence(e.Refused.Note)
	case n > 0:
		return e.Given[n-1].Name + " approved " + m.words.this + " at " + stamp(e.Given[n-1].At) + "."
	default:
		return m.words.unlike
	}
}

// unconfirmed is visit.unconfirmed for a decision about it.
func (m *matter) unconfirmed(v *visit, c *confirmation) (ask bool, err error) {
	if !m.Read {
		return true, v.done(m.page, m.words.unread+" Nothing was done.")
	}
	c.Seen, c.Changed, c.Back, c.Facts, c.Fields = m.mark, m.changed(), m.page, m.facts, []fact{m.field}
	if v.Method == http.MethodPost { // what somebody else did comes before why this person cannot decide
		if err := v.asSeen(c.Seen, c.Changed); err != nil {
			return true, err
		}
	}
	if err := m.mayDecide(v); err != nil {
		return true, err
	}
	if ask, err = v.unconfirmed(c); !ask {
		m.decision.About.Note = c.Inputs[0].Value
	}
	return ask, err
}

// decided takes what a decision returned.
func decided(v *visit, act *journal.Act, unwritten, err error) error {
	if act != nil {
		v.unwritten = v.s.unwritten(act, unwritten)
	}
	if err == nil {
		v.s.watch.forget()
	}
	return undecided(err)
}

func approve(v *visit) error {
	m, err := matterOf(v)
	if err != nil {
		return err
	}
	c := &confirmation{Title: "Approve " + m.words.title, Button: "Approve " + m.words.it, Says: []string{m.words.approving}, Inputs: []input{noteInput(false)}}
	if ask, err := m.unconfirmed(v, c); ask {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), actTimeout)
	defer cancel()
	whole, act, unwritten, err := v.s.approvals().Approve(ctx, m.decision)
	if err := decided(v, act, unwritten, err); err != nil {
		return err
	}
	says := "Another login must approve it, too."
	if whole {
		says = m.words.approved
	}
	return v.done(m.page, "You approved it. "+says)
}

func refuse(v *visit) error {
	m, err := matterOf(v)
	if err != nil {
		return err
	}
	c := &confirmation{Title: "Refuse " + m.words.title, Button: "Refuse " + m.words.it, Danger: true, Says: []string{m.words.refusing},
		Inputs: []input{{Name: "note", Label: "Reason", Hint: m.words.whoReads + " Your name and the time are recorded, too.", Must: true, Many: true}}}
	if ask, err := m.unconfirmed(v, c); ask {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), actTimeout)
	defer cancel()
	act, unwritten, err := v.s.approvals().Refuse(ctx, m.decision)
	if err := decided(v, act, unwritten, err); err != nil {
		return err
	}
	if m.decision.Act == nil {
		err := startCancel(v, jobs.Spec{Title: "Cancel " + m.words.title}, journal.About{Batch: m.decision.Batch, Note: "refused: " + c.Inputs[0].Value})
		if _, begun := errors.AsType[*jobs.BusyError](err); err != nil && !begun {
			return err
		}
	}
	return v.done(m.page, "You refused it. "+m.words.refused)
}
