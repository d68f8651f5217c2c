package deadletter

import (
	"context"
	"errors"

	"orderpost/internal/audit/journal"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Fate says what became, or would become, of one letter. The words are those of the
// commands' summaries.
type Fate string

// Fates besides those of settle.Replay.
const (
	// Dropped, Resolved and Asked are the deeds' own success.
	Dropped  Fate = "dropped"
	Resolved Fate = "resolved"
	Asked    Fate = "asked"
	// Gone: the letter was removed or replaced since it was listed.
	Gone Fate = "gone"
	// Pending: an intent for the order_no is in the queue.
	Pending Fate = "pending"
	// Certain: the order's outcome is not in doubt, so there is nothing to resolve.
	Certain Fate = "certain"
	// Unsettled: the broker did not confirm, or the letter's record cannot be read.
	Unsettled Fate = "failed"
)

// Deed is what is done with each letter of a group.
type Deed struct {
	Kind journal.Kind
	// Does is the fate of a letter with which the deed was done.
	Does Fate
	// do does it with one letter. look says what do would do with a page.
	do   func(context.Context, *settle.Letter) (Fate, error)
	look func(context.Context, []*settle.Letter) ([]Fate, error)
	// settledByLook are the fates of letters that stay, for which look is enough: do asks the
	// leader, several times for each letter. A look may be late by a moment, and then
	// leaves a letter that could go since.
	settledByLook []Fate
}

// Stays reports whether a letter of this fate is still there.
func (d Deed) Stays(f Fate) bool {
	return f != d.Does && f != Gone && f != Fate(settle.ReplayedBefore.String())
}

// Replay puts letters back into the queue: to be sent, or with LookupUntil to be looked up alone.
func Replay(q *queue.Queue, o settle.ReplayOptions) Deed {
	kind, does := journal.Replay, Fate(settle.Replayed.String())
	if !o.LookupUntil.IsZero() {
		kind, does = journal.Lookup, Asked
	}
	fate := func(end settle.Replay) Fate {
		switch end {
		case settle.Replayed:
			return does
		case settle.ReplayNone:
			return Unsettled
		default:
			return Fate(end.String())
		}
	}
	return Deed{Kind: kind, Does: does,
		settledByLook: []Fate{Fate(settle.ReplayInDoubt.String()), Fate(settle.ReplayOtherInDoubt.String()), Fate(settle.ReplayAccepted.String()), Fate(settle.ReplayLate.String()), Fate(settle.ReplayCertain.String()), Fate(settle.ReplayForeign.String())},
		do: func(ctx context.Context, l *settle.Letter) (Fate, error) {
			end, err := q.Operator.Replay(ctx, l, o)
			return fate(end), err
		},
		look: func(ctx context.Context, page []*settle.Letter) ([]Fate, error) {
			ends, err := DryRunReplay(ctx, q, page, o)
			fates := make([]Fate, len(ends))
			for i, end := range ends {
				fates[i] = fate(end)
			}
			return fates, err
		}}
}

// Drop forgets letters.
func Drop(q *queue.Queue, who settle.Person) Deed {
	return Deed{Kind: journal.Drop, Does: Dropped,
		do: func(ctx context.Context, l *settle.Letter) (Fate, error) {
			gone, err := q.Operator.Drop(ctx, l, who)
			return refusal(gone, err, Dropped)
		},
		look: func(ctx context.Context, page []*settle.Letter) ([]Fate, error) {
			ends, err := DryRunDrop(ctx, q, page)
			return foretold(ends, Dropped), err
		}}
}

// Resolve settles orders in doubt with what a person found out.
func Resolve(q *queue.Queue, as order.Outcome, who settle.Person) Deed {
	return Deed{Kind: journal.Resolve, Does: Resolved,
		do: func(ctx context.Context, l *settle.Letter) (Fate, error) {
			gone, err := q.Operator.ResolveLetter(ctx, l, as, who)
			return refusal(gone, err, Resolved)
		},
		look: func(ctx context.Context, page []*settle.Letter) ([]Fate, error) {
			ends, err := DryRunResolve(ctx, q, page, who)
			return foretold(ends, Resolved), err
		}}
}

// foretold turns what a dry run says into fates.
func foretold(ends []error, done Fate) []Fate {
	fates := make([]Fate, len(ends))
	for i := range ends {
		if fates[i], _ = refusal(false, ends[i], done); fates[i] == "" {
			fates[i] = Unsettled
		}
	}
	return fates
}

// refusal turns what settle refuses into a fate.
func refusal(gone bool, err error, done Fate) (Fate, error) {
	switch {
	case errors.Is(err, settle.ErrPending):
		return Pending, nil
	case errors.Is(err, settle.ErrNotInDoubt):
		return Certain, nil
	case errors.Is(err, settle.ErrReplaced), errors.Is(err, settle.ErrNoResult): // no record names the letter
		return Gone, nil
	case err != nil:
		return "", err
	case gone:
		return Gone, nil
	default:
		return done, nil
	}
}
