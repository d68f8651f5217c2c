package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
)

// Details of an act that was asked for, in the journal. The others are those of the act.
const (
	detailAs       = "as"               // of a resolve
	detailUnknown  = "resubmit-unknown" // of a replay
	detailDeadline = "deadline"
	detailLimit    = "limit" // of a limit, or how many letters are replayed at most
	detailRate     = "rate"
	detailLetter   = "letter" // the act is about one letter, by its sequence
	detailSeen     = "seen"   // the write id of the record that the person looked into
	// detailKnew is the newest result (settle.StreamSeq), or the revision of the limit, when
	// it was asked for. An order or a limit that changed since is left alone.
	detailKnew = "as_of"
)

// Asked says that an act needs a second person. Nothing was done yet.
type Asked struct {
	// ID names the act in the journal.
	ID string
	// What was asked for, in a few words.
	What string
	// Alone: no login counts for it yet, so two must approve.
	Alone bool
}

// Error says where people approve it.
func (a *Asked) Error() string {
	who := "a second person"
	if a.Alone {
		who = "two people, since nobody has checked who asks,"
	}
	return fmt.Sprintf("nothing was done yet: %s must approve it (%s) in the console, on the page %s", who, a.What, a.Address())
}

// Address is the page of the console on which the act is approved or refused.
func (a *Asked) Address() string { return ActAddress(a.ID) }

// ActAddress is the page of the console about an act, by its id in the journal.
func ActAddress(id string) string { return "/approval?act=" + url.QueryEscape(id) }

// Begin begins an act of a person, as journal.Begin does. If the fleet's rule asks for a
// second person, it stores what is asked for instead, and its error is an *Asked. Once
// enough logins have approved that, a worker does it: see [Carrier].
//
// The intention in the journal is what was asked for. Nobody can change it there.
func Begin(ctx context.Context, q *queue.Queue, j *journal.Journal, in journal.Intention) (*journal.Act, error) {
	needs, err := Needs(ctx, q, in.About)
	switch {
	case err != nil && (in.Safer == nil || !in.Safer(ctx)):
		return nil, err
	case !needs:
		return j.Begin(ctx, in)
	}
	if in.About, err = bind(ctx, q, in.About); err != nil {
		return nil, err
	}
	in.Safer = nil // what is not in the journal cannot be approved
	act, err := j.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	asked := &Asked{ID: act.ID(), What: what(in.About), Alone: true}
	next := imports.Approval{At: time.Now().UTC(), Why: asked.What, Intention: act.Name()}
	if by := in.Actor; Counts(by.Known) {
		next.Asker, asked.Alone = &imports.Signature{Name: by.Name, How: string(by.Known), At: next.At}, false
	}
	err = imports.ChangeApprovals(ctx, q, func(all *imports.Approvals) (bool, error) {
		if !needsApproval(all.ReadRule(), in.About) {
			return false, errors.New("the rule for approvals was changed meanwhile; do it again")
		}
		all.Acts[act.ID()] = &next
		return true, nil
	})
	if err != nil {
		_ = act.End(ctx, result(nil, err)) // without it, an intention without a result, as after a crash
		return nil, err
	}
	return nil, asked
}

// Needs reports whether an act needs a second person.
func Needs(ctx context.Context, q *queue.Queue, about journal.About) (bool, error) {
	if !needsApproval(imports.ApprovalRule{ResubmitUnknown: true, Resolve: true, Limit: true}, about) {
		return false, nil
	}
	f, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil || !needsApproval(f.Approvals.ReadRule(), about) {
		return false, err
	}
	if about.Kind != journal.Limit {
		return true, nil
	}
	l, err := fleet.ReadLimit(about.Details[detailLimit])
	if err != nil {
		return false, err
	}
	now, err := fleet.New(q).Read(ctx)
	return err == nil && !now.Lowers(l), err
}

// needsApproval reports whether a rule names the act. A lower limit is an act like a higher one here.
func needsApproval(rule imports.ApprovalRule, about journal.About) bool {
	switch about.Kind {
	case journal.Replay:
		return rule.ResubmitUnknown && about.Details[detailUnknown] != ""
	case journal.Resolve:
		return rule.Resolve
	case journal.Limit:
		return rule.Limit
	default:
		return false
	}
}

// bind adds to an act what it was decided on, and refuses one that the journal cannot hold
// byte for byte.
func bind(ctx context.Context, q *queue.Queue, about journal.About) (journal.About, error) {
	details := make(map[string]string)
	maps.Copy(details, about.Details)
	if about.Kind == journal.Limit {
		now, err := fleet.New(q).Read(ctx)
		if err != nil {
			return about, err
		}
		details[detailKnew] = strconv.FormatUint(now.LimitRevision(), 10)
		details["limit_before"] = strconv.FormatFloat(now.LimitPerSecond(), 'g', -1, 64)
	} else {
		state, err := q.Results().State(ctx)
		if err != nil {
			return about, err
		}
		details[detailKnew] = state.End().String()
	}
	about.Details = details
	return about, holdable(about)
}

// holdable returns an error if the journal would store something else than what is asked for.
func holdable(about journal.About) error {
	data, err := json.Marshal(about)
	texts := []string{about.OrderNo, about.Batch}
	for _, values := range about.Filter {
		texts = append(texts, values...)
	}
	switch {
	case err != nil:
	case len(data) > mostAsked:
		err = fmt.Errorf("its filter is too long (%d bytes)", len(data))
	case slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) }):
		err = errors.New("an order number or a filter has bytes that are no text")
	}
	if err != nil {
		return fmt.Errorf("the journal cannot hold what you ask for, so nobody could approve it: %w; choose by another filter", err)
	}
	return nil
}

// mostAsked bounds what is asked for, in bytes. The journal shortens entries that are twice as long.
const mostAsked = 30 << 10

// what says in a few words what was asked for.
func what(about journal.About) string {
	which := "dead letters"
	switch filter := about.Filter; {
	case about.OrderNo != "":
		which = "order " + about.OrderNo
	case about.Batch != "":
		which = "dead letters of import " + about.Batch
	case len(filter["letter"]) > 0:
		which = fmt.Sprintf("%d dead letters", len(filter["letter"]))
	}
	switch about.Kind {
	case journal.Replay:
		return "replay " + which + ", in doubt too"
	case journal.Resolve:
		return "resolve " + which + " as " + about.Details[detailAs]
	default:
		return strings.TrimSuffix(fmt.Sprintf("limit %s, now %s/s", about.Details[detailLimit], about.Details["limit_before"]), ", now 0/s")
	}
}
