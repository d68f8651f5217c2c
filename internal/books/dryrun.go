package books

import (
	"context"
	"errors"
	"fmt"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// DryRunReplay says what settle.Operator.Replay would do with listed letters, 256
// at most, and changes nothing. It says ReplayNone of a letter whose record cannot
// be read. It reads many at once, from whichever replica answers.
func DryRunReplay(ctx context.Context, q *queue.Queue, letters []*settle.Letter, o settle.ReplayOptions) ([]settle.Replay, error) {
	pending, err := q.Intents().Peek(ctx, intentTokens(letters))
	if err != nil {
		return nil, err
	}
	tokens := make([]string, len(letters))
	for i, l := range letters {
		tokens[i] = l.Token()
	}
	records, err := q.Results().Peek(ctx, tokens)
	if err != nil {
		return nil, err
	}
	remade, err := areRemade(ctx, q, o.Person)
	if err != nil {
		return nil, err
	}
	ends := make([]settle.Replay, len(letters))
	for i, l := range letters {
		var entry settle.Entry
		if records[i] != nil {
			if entry, err = queue.DecodeRecord(records[i]); err != nil {
				continue
			}
		}
		if m := pending[i]; m != nil && settle.LetterReplayed(m.IntentID()) == l.Seq { // its body decides
			if pending[i], err = q.Store().Intent(ctx, l.OrderNo); err != nil {
				return nil, err
			}
		}
		if ends[i] = q.Operator.JudgeReplay(l, pending[i], entry, o); remade {
			ends[i] = settle.ReplayGone
		}
	}
	return ends, nil
}

// DryRunResolve says what settle.Operator.ResolveLetter would refuse of listed
// letters, 256 at most, and changes nothing: ErrPending, ErrNoResult, ErrNotInDoubt,
// ErrReplaced for one that who cannot have known, or ErrUnreadable for one that cannot be
// read; nil = it would settle the order.
func DryRunResolve(ctx context.Context, q *queue.Queue, letters []*settle.Letter, who settle.Person) ([]error, error) {
	pending, err := q.Intents().Peek(ctx, intentTokens(letters))
	if err != nil {
		return nil, err
	}
	tokens := make([]string, len(letters))
	for i, l := range letters {
		tokens[i] = l.Token()
	}
	records, err := q.Results().Peek(ctx, tokens)
	if err != nil {
		return nil, err
	}
	remade, err := areRemade(ctx, q, who)
	if err != nil {
		return nil, err
	}
	ends := make([]error, len(letters))
	for i, l := range letters {
		if ends[i] = mayResolve(l, pending[i], records[i], who); remade {
			ends[i] = settle.ErrReplaced
		}
	}
	return ends, nil
}

// areRemade reports whether the results that a person decided on are no more.
func areRemade(ctx context.Context, q *queue.Queue, who settle.Person) (bool, error) {
	err := q.Ledger.StillResults(ctx, who)
	if errors.Is(err, settle.ErrRemade) {
		return true, nil
	}
	return false, err
}

func mayResolve(l *settle.Letter, intent, record *settle.Message, who settle.Person) error {
	switch {
	case intent != nil:
		return settle.ErrPending
	case l.Conflict:
		return settle.ErrNotInDoubt
	case record == nil:
		return settle.ErrNoResult
	}
	entry, err := queue.DecodeRecord(record)
	if err != nil {
		return fmt.Errorf("%w: %w", settle.ErrUnreadable, err)
	}
	if r := entry.Record; r.Outcome() != order.OutcomeUnknown && r.By == "" {
		return settle.ErrNotInDoubt
	}
	if who.Knew.Birth != 0 && record.Seq > who.Knew.Seq {
		return settle.ErrReplaced
	}
	return nil
}
