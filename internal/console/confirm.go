package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet/imports"
)

// confirmation is a page that says what an act will do before it does it. A GET
// shows it. Its form posts to the same path, and the act happens then.
//
//	c := &confirmation{…}
//	if ask, err := v.unconfirmed(c); ask {
//		return err
//	}
//	// the person has confirmed: act
type confirmation struct {
	// Title is the page's, such as "Hold the fleet".
	Title string
	// Says are sentences about what will happen.
	Says []string
	// Facts are what the act is about, such as the filter and the last sequence.
	Facts []fact
	// Warning is a sentence about what cannot be undone.
	Warning string
	// Seen is the mark of what the page shows. Changed says what somebody did meanwhile,
	// for whoever decided on a page with another mark.
	Seen, Changed string
	// Asks is an act that may need a second person. unconfirmed says so before.
	Asks *journal.About
	// Fields go with the form, hidden.
	Fields []fact
	// Inputs are what the person still fills in.
	Inputs []input
	// Count must be typed as it is; 0 = no count. CountOf says what is counted.
	Count   int
	CountOf string
	// Button is the button's text.
	Button string
	Danger bool
	// Back is the page to go to without having done anything.
	Back string
	// Wrong says what is wrong with what was filled in.
	Wrong string
}

// input is one field of a confirmation.
type input struct {
	Name, Label, Hint string
	Value             string
	// Options make a list to choose from: value and text.
	Options []fact
	// Must says that it cannot stay empty.
	Must bool
	// Many makes room for several lines.
	Many bool
}

// noteInput is the field for a note. must says that it is required.
func noteInput(must bool) input {
	return input{Name: "note", Label: "Note", Hint: "Why, for the record. Your name and the time are recorded, too.", Must: must}
}

// maxNote bounds a note or a reason, in bytes.
const maxNote = 1000

// unconfirmed shows the confirmation if the person has not confirmed it yet, or not
// completely. It returns an error if they decided on something that has changed since. ask
// is false if the act may happen.
func (v *visit) unconfirmed(c *confirmation) (ask bool, err error) {
	if c.Asks != nil {
		needs, err := approval.Needs(v.brief(), v.s.queue, *c.Asks)
		if err != nil {
			return true, err
		}
		if needs {
			c.Says = append(c.Says, "Here this needs a second person. Nothing is done before another login approves it.")
		}
	}
	if v.Method != "POST" {
		for i := range c.Inputs {
			if given := v.query(c.Inputs[i].Name); given != "" {
				c.Inputs[i].Value = given
			}
		}
		return true, v.confirm(c)
	}
	if err := v.asSeen(c.Seen, c.Changed); err != nil {
		return true, err
	}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		in.Value = v.field(in.Name)
		switch {
		case in.Must && in.Value == "":
			c.Wrong = fmt.Sprintf("Nothing was done. Fill in the field %q first.", in.Label)
		case len(in.Value) > maxNote:
			c.Wrong = fmt.Sprintf("Nothing was done. The field %q takes %s bytes at most.", in.Label, count(maxNote))
		}
	}
	if typed := v.field("count"); c.Wrong == "" && c.Count > 0 && strings.ReplaceAll(typed, ",", "") != fmt.Sprint(c.Count) {
		c.Wrong = fmt.Sprintf("Nothing was done. You typed %q as the count, and it is %s.", shorten(typed, 20), count(c.Count))
	}
	if c.Wrong == "" {
		return false, nil
	}
	v.status = 422
	return true, v.confirm(c)
}

// confirm shows the confirmation.
func (v *visit) confirm(c *confirmation) error { return v.render("confirm", c.Title, c) }

// Every form carries what its page showed, in the hidden field "seen": the mark of an
// upload, of a letter and its record, of a preview, of an import, or of the fleet. The act
// compares it with what is there now, and a person who decided on something else gets a
// page that says what changed, with a link to look again. Routes whose forms show nothing
// that can change say so in route.free.

// mark names a state by its parts. Two states have the same mark only if all parts are equal.
func mark(parts ...any) string {
	text, _ := json.Marshal(parts) // numbers, strings, times, and maps of them
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// seen returns the mark that the form carries.
func (v *visit) seen() string { return v.field("seen") }

// asSeen returns an error unless the form carries the mark of what is there now. changed
// says what somebody did meanwhile.
func (v *visit) asSeen(now, changed string) error {
	if v.seen() == now {
		return nil
	}
	return stale(changed)
}

// stale shows a problem: what the person decided on is not so any more.
func stale(what string) error {
	return &problem{status: http.StatusConflict, what: what + " Nothing was done.", todo: "Look at it again, and decide anew."}
}

// unseen refuses a form that carries nothing, such as one of an older version of
// the console that was open over an update.
func unseen(*visit) error {
	return &problem{status: http.StatusConflict, what: "This form does not say what its page showed, so nothing was done.",
		todo: "Open the page again. If you sent the form with a program, send the field \"seen\" of the page, too."}
}

// pageOf returns the address of the page that a form belongs to.
func (v *visit) pageOf() string {
	if batch := v.field("batch"); strings.HasPrefix(v.URL.Path, "/import/") {
		return imports.Address(batch)
	}
	if strings.HasPrefix(v.URL.Path, "/approval/") {
		if act := v.field("act"); act != "" {
			return approval.ActAddress(act)
		}
		return approval.Address(v.field("batch"))
	}
	if dir := path.Dir(v.URL.Path); dir != "/" {
		return dir
	}
	return v.URL.Path
}

// actTimeout bounds an act that one request carries out. It goes on if the person
// closes the page.
const actTimeout = 10 * time.Second

// actor is the person as the journal names them.
func (p Person) actor() journal.Actor {
	return journal.Actor{Name: p.Name, Known: journal.Known(p.How)}
}

// journaled completes what the journal keeps of an act.
func (v *visit) journaled(about journal.About) journal.About {
	about.Actor = v.person().actor()
	details := map[string]string{"from": v.s.client(v.Request)}
	for name, value := range about.Details {
		details[name] = value
	}
	about.Details = details
	return about
}

// journal is the journal of the console's acts.
func (s *Server) journal() *journal.Journal {
	return journal.New(s.queue, "orderpost console", s.version)
}

// act carries out what a person has confirmed. The journal has the intention before
// and the result after it. An act that needs a second person is an error that [Server.handler]
// turns into the page on which people approve it. safer is as in journal.Intention. Nothing was done if the
// error is a problem with status 409.
func (v *visit) act(about journal.About, safer func(context.Context) bool, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), actTimeout)
	defer cancel()
	act, err := approval.Begin(ctx, v.s.queue, v.s.journal(), journal.Intention{About: v.journaled(about), Safer: safer})
	if err != nil {
		return unannounced(err)
	}
	r := journal.Result{End: journal.Done}
	if err = do(ctx); err != nil {
		r.End, r.Error = journal.Failed, err.Error()
	}
	v.unwritten = v.s.unwritten(act, act.End(ctx, r))
	if err != nil && away(err) {
		return &problem{status: 503, what: "The broker did not confirm in time. It may have happened nevertheless.",
			todo: "Look at the page again before you repeat it.", cause: err}
	}
	return err
}

// unannounced is the problem of an act that the journal did not take.
func unannounced(err error) error {
	if errors.Is(err, journal.ErrNotJournaled) {
		return &problem{status: 503, what: "Nothing was done, because the journal cannot be written. Only a hold and a lower limit go on without it.",
			todo: "See whether the broker has the stream of the journal, and room for it. A worker creates the stream.", cause: err}
	}
	return err
}

// unwritten logs what the journal lacks of an act, and returns it as sentences for the
// person; "" = the journal has all of it. end is the error of the act's End.
func (s *Server) unwritten(act *journal.Act, end error) (says string) {
	missing := act.Unannounced()
	switch {
	case missing == nil && end == nil:
		return ""
	case end == nil:
		says = "The journal could not be written before the act. It has the result, without the intention."
	case missing == nil:
		says = "The journal has the intention, but the result could not be written."
	default:
		says = "THE JOURNAL HAS NOTHING OF THIS, because it could not be written. Note yourself who did it, when and why."
	}
	s.log.Error().AnErr("intention", missing).AnErr("result", end).Str("id", act.ID()).Msg("the journal lacks a part of an act")
	return says
}
