package console

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/journal"
)

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
