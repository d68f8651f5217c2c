package approval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Find returns the act with an id, as the journal has it, and what an approval of it is about:
// the entry that asks for it. item is nil if there is no such act.
func Find(ctx context.Context, q *queue.Queue, id string) (item *journal.Item, seen *imports.Assessment, err error) {
	name, err := journal.NameOf(ctx, q, id)
	if err != nil || name == "" {
		return nil, nil, err
	}
	item, digest, err := journal.Find(ctx, q, name)
	if err != nil || item == nil {
		return nil, nil, err
	}
	return item, &imports.Assessment{Bound: imports.Bound{UpTo: settle.StreamSeq{Seq: item.Seq}, Count: 1, Digest: digest}, Oldest: item.Stored, Newest: item.Stored}, nil
}

// Ended says how an act ended, in a few words.
func Ended(item *journal.Item) string {
	r := item.Result
	if r == nil {
		return "it has ended, or its worker is about to write how; the journal says so"
	}
	text := "it is " + string(r.End)
	if r.Error != "" {
		text += " (" + r.Error + ")"
	}
	return text
}

// Deed is an act on dead letters that was asked for, as package deadletter does it.
type Deed struct {
	deadletter.Deed
	deadletter.Group
	deadletter.Options
}

// DeedOf reads what an act on dead letters is to do. who is recorded with it.
func DeedOf(q *queue.Queue, about journal.About, who settle.Person) (d Deed, err error) {
	if err = who.Knew.UnmarshalText([]byte(about.Details[detailKnew])); err != nil {
		return d, fmt.Errorf("it is not bound to what was known: %w", err)
	}
	o := settle.ReplayOptions{ResubmitUnknown: about.Details[detailUnknown] != "", Person: who}
	switch text := about.Details[detailDeadline]; text {
	case "":
	case "none":
		o.Deadline = new(time.Time)
	default:
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return d, err
		}
		o.Deadline = &at
	}
	if about.Kind == journal.Resolve {
		as, err := resolvedAs(about)
		if err != nil {
			return d, err
		}
		d.Deed = deadletter.Resolve(q, as, who)
	} else {
		d.Deed = deadletter.Replay(q, o)
	}
	if text := about.Details[detailLimit]; text != "" {
		if d.Options.Limit, err = strconv.Atoi(text); err != nil {
			return d, err
		}
	}
	if text := about.Details[detailRate]; text != "" {
		perSecond, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return d, err
		}
		d.Pace = rate.NewLimiter(rate.Limit(perSecond), 1)
	}
	d.Group, err = groupOf(about)
	return d, err
}

func resolvedAs(about journal.About) (as order.Outcome, err error) {
	if err = as.UnmarshalText([]byte(about.Details[detailAs])); err == nil && as != order.OutcomeAccepted && as != order.OutcomeRejected {
		err = fmt.Errorf("an order is not resolved as %s", as)
	}
	return as, err
}

// groupOf reads which letters an act is about.
func groupOf(about journal.About) (g deadletter.Group, err error) {
	fields := maps.Clone(about.Filter)
	chosen := fields["letter"]
	delete(fields, "letter")
	if text := about.Details[detailLetter]; text != "" {
		chosen = []string{text}
	}
	if len(chosen)+len(fields) == 0 || about.LastSeq == 0 {
		return g, errors.New("it does not say which dead letters it is about")
	}
	for _, text := range chosen {
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return g, err
		}
		g.Seqs = append(g.Seqs, seq)
	}
	filter, err := deadletter.FilterOf(fields)
	if err != nil {
		return g, err
	}
	matcher, wrong := filter.Compile(time.Now())
	if len(wrong) > 0 {
		return g, wrong[0]
	}
	g.Selects, g.Last = matcher.Selects, about.LastSeq
	return g, nil
}

// IsOne reports whether an act is about one order by its number, whether it has a letter or not.
func IsOne(about journal.About) bool {
	return about.Kind == journal.Resolve && about.OrderNo != "" && len(about.Filter) == 0 && about.Details[detailLetter] == ""
}

const (
	// carryEvery is how often the carrier looks which acts were decided.
	carryEvery = time.Second
	// actLost is after how long an act is forgotten whose intention the journal does not have.
	actLost = time.Hour
)

// Carrier does the acts that were approved, and ends those that were refused, or lapsed. Each
// of its steps can be repeated, so an act is done once, whatever ends in between.
type Carrier struct {
	Queue   *queue.Queue
	Journal *journal.Journal
	Log     zerolog.Logger
	// Now is the clock.
	Now func() time.Time
	// Leads reports whether this worker is the one of its fleet that does it. Two may for a moment.
	Leads func() bool

	running sync.Map // ids: a replay at a low rate keeps no other act from being done
	// between is called between the effect and the result; a test stops there.
	between func()
}

// Run carries acts out until ctx ends.
func (c *Carrier) Run(ctx context.Context) {
	var acts sync.WaitGroup
	defer acts.Wait()
	for told := ""; ; {
		if settle.Sleep(ctx, carryEvery) != nil {
			return
		}
		if !c.Leads() {
			continue
		}
		f, err := imports.ReadFeeding(ctx, c.Queue, 0)
		if text := fmt.Sprint(err); err != nil && ctx.Err() == nil && text != told {
			told = text
			c.Log.Warn().Err(err).Msg("approvals cannot be looked at, so acts that need one wait; will retry")
		}
		if err != nil {
			continue
		}
		told = ""
		rule := f.Approvals.ReadRule()
		for id, a := range f.Approvals.Acts {
			if _, runs := c.running.LoadOrStore(id, true); !runs {
				acts.Go(func() {
					defer c.running.Delete(id)
					if err := c.carry(ctx, id, a, rule); err != nil && ctx.Err() == nil {
						c.Log.Warn().Err(err).Str("act", id).Str("what", a.Why).Msg("an act that was decided cannot be ended yet; will retry")
					}
				})
			}
		}
	}
}

// carry does one act, or ends it, if it was decided. An error leaves it for the next look.
func (c *Carrier) carry(ctx context.Context, id string, a *imports.Approval, rule imports.ApprovalRule) error {
	item, digest, err := journal.Find(ctx, c.Queue, a.Intention)
	switch {
	case err != nil:
		return err
	case item == nil || item.ID != id:
		if time.Since(a.At) > actLost {
			return c.forget(ctx, id)
		}
		return nil
	case item.Result != nil: // a worker wrote it, and was killed
		return c.forget(ctx, id)
	}
	failed := func(format string, args ...any) journal.Result {
		return journal.Result{End: journal.Failed, Error: "nothing was done: " + fmt.Sprintf(format, args...)}
	}
	var r journal.Result
	switch now := c.Now(); {
	case a.Refused != nil:
		r = failed("%s refused it: %s", a.Refused.Name, a.Refused.Note)
	case !needsApproval(rule, item.About):
		r = failed("the rule that held it has changed; do it again")
	case !a.Whole() && now.Sub(item.Stored) > rule.Lapse:
		r = failed("nobody approved it within %s; ask again", rule.Lapse)
	case !a.Whole():
		return nil // people decide
	case a.Digest != digest:
		r = failed("what was approved is not what was asked for; ask again")
	case !now.Before(a.Until):
		r = failed("its approval lapsed before a worker could do it; ask again")
	default:
		if r, err = c.do(ctx, item, a); err != nil || r.End == journal.Stopped {
			return err
		}
	}
	r.ApprovedBy = approvers(a)
	if c.between != nil {
		c.between()
	}
	if err := c.Journal.Continue(item).End(ctx, r); err != nil {
		return err
	}
	c.Log.Info().Str("act", id).Str("what", a.Why).Str("asked_by", item.Actor.Name).Strs("approved_by", r.ApprovedBy).Str("end", string(r.End)).Str("error", r.Error).Msg("an act that needed an approval has ended")
	return c.forget(ctx, id)
}

// do carries an act out. err means that it may be tried again.
func (c *Carrier) do(ctx context.Context, item *journal.Item, a *imports.Approval) (r journal.Result, err error) {
	who := settle.Person{Name: item.Actor.Name + ", approved by " + strings.Join(approvers(a), " and "), Note: item.Note}
	if item.Kind != journal.Limit {
		if err = who.Knew.UnmarshalText([]byte(item.Details[detailKnew])); err == nil {
			err = c.Queue.Ledger.StillResults(ctx, who)
		}
	}
	switch {
	case err != nil:
	case item.Kind == journal.Limit:
		err = c.limit(ctx, item, who)
	case IsOne(item.About):
		err = c.resolve(ctx, item, who)
		r.Counts = map[string]int{"resolved": 1}
	default:
		d, err := DeedOf(c.Queue, item.About, who)
		if err != nil {
			return result(nil, err), nil
		}
		tally, err := deadletter.Run(ctx, c.Queue, d.Group, d.Deed, d.Options)
		if errors.Is(err, queue.ErrUnreachable) {
			return r, err
		}
		r = tally.Result(ctx, d.Deed, err)
		gone := tally.Fates[deadletter.Gone] + max(0, len(d.Seqs)-tally.Matching())
		switch {
		case r.Error != "":
		case gone > 0:
			r.Error = fmt.Sprintf("%d changed since it was asked for, or an earlier run did it and was cut off", gone)
		case tally.Matching() == 0:
			r.Error = "none of the dead letters that it is about is left, or an earlier run did it and was cut off"
		}
		return r, nil
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, queue.ErrUnreachable)) {
		return r, err
	}
	return result(r.Counts, err), nil
}

// approvers names those who approved.
func approvers(a *imports.Approval) (names []string) {
	for i := range a.Given {
		names = append(names, a.Given[i].Name)
	}
	return names
}

func (c *Carrier) limit(ctx context.Context, item *journal.Item, who settle.Person) error {
	l, err := fleet.ReadLimit(item.Details[detailLimit])
	if err != nil {
		return err
	}
	revision, err := strconv.ParseUint(item.Details[detailKnew], 10, 64)
	if err != nil {
		return err
	}
	if l != nil {
		l.By, l.At = who.Name, item.Stored
	}
	return fleet.New(c.Queue).SetLimitAfter(ctx, l, revision)
}

func (c *Carrier) resolve(ctx context.Context, item *journal.Item, who settle.Person) error {
	as, err := resolvedAs(item.About)
	if err != nil {
		return err
	}
	_, err = c.Queue.Operator.Resolve(ctx, item.OrderNo, item.Details[detailSeen], as, who)
	return err
}

// forget removes an act that has ended. The journal has all of it.
func (c *Carrier) forget(ctx context.Context, id string) error {
	return imports.ChangeApprovals(ctx, c.Queue, func(all *imports.Approvals) (bool, error) {
		_, there := all.Acts[id]
		delete(all.Acts, id)
		return there, nil
	})
}
