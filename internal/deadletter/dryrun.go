package deadletter

import (
	"context"
	"errors"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// standing is what is stored about the order of a letter.
type standing struct {
	intent *settle.Message // without its body
	settle.Entry
	unreadable error // why the record cannot be read
}

func (s *standing) pending() bool { return isPending(s.intent, s.Record) }

// isPending reports whether a stored intent, or nil, has no outcome yet.
func isPending(intent *settle.Message, r *order.Record) bool {
	return intent != nil && !intent.SettledBy(r)
}

// standings reads the intents and then the records of listed letters, 256 at most, from whichever replica
// answers.
func standings(ctx context.Context, q *queue.Queue, letters []*settle.Letter) ([]standing, error) {
	intents, err := q.Intents().Peek(ctx, intentTokens(letters))
	if err != nil {
		return nil, err
	}
	records, err := q.Results().Peek(ctx, fileTokens(letters))
	if err != nil {
		return nil, err
	}
	out := make([]standing, len(letters))
	for i := range letters {
		out[i].intent = intents[i]
		if records[i] != nil {
			out[i].Entry, out[i].unreadable = queue.DecodeRecord(records[i])
		}
	}
	return out, nil
}

// DryRunReplay says what settle.Operator.Replay would do with listed letters, 256
// at most, and changes nothing. It says ReplayNone of a letter whose record cannot
// be read. It reads many at once, from whichever replica answers.
func DryRunReplay(ctx context.Context, q *queue.Queue, letters []*settle.Letter, o settle.ReplayOptions) ([]settle.Replay, error) {
	stands, err := standings(ctx, q, letters)
	if err != nil {
		return nil, err
	}
	remade, err := areRemade(ctx, q, o.Person)
	if err != nil {
		return nil, err
	}
	ends := make([]settle.Replay, len(letters))
	for i, l := range letters {
		s := &stands[i]
		if s.unreadable != nil {
			continue
		}
		if s.intent != nil && settle.LetterReplayed(s.intent.IntentID()) == l.Seq { // its body decides
			if s.intent, err = q.Store().Intent(ctx, l.OrderNo); err != nil {
				return nil, err
			}
		}
		if ends[i] = q.Operator.JudgeReplay(l, s.intent, s.Entry, o); remade {
			ends[i] = settle.ReplayGone
		}
	}
	return ends, nil
}

// DryRunDrop says what settle.Operator.Drop would refuse of listed letters, 256 at most, and changes
// nothing: ErrPending, ErrReplaced for one that no record names, or ErrUnreadable; nil = it would drop the letter.
func DryRunDrop(ctx context.Context, q *queue.Queue, letters []*settle.Letter) ([]error, error) {
	stands, err := standings(ctx, q, letters)
	ends := make([]error, len(stands))
	for i := range stands {
		ends[i] = mayDrop(letters[i], &stands[i])
	}
	return ends, err
}

func mayDrop(l *settle.Letter, s *standing) error {
	switch {
	case s.unreadable != nil:
		return s.unreadable
	case s.Record == nil || !s.Record.Names(l.Seq):
		return settle.ErrReplaced
	case s.pending():
		return settle.ErrPending
	}
	return nil
}

// DryRunResolve says what settle.Operator.ResolveLetter would refuse of listed
// letters, 256 at most, and changes nothing: ErrPending, ErrNotInDoubt,
// ErrReplaced for one that no record names or that who cannot have known, or ErrUnreadable; nil = it would
// settle the order.
func DryRunResolve(ctx context.Context, q *queue.Queue, letters []*settle.Letter, who settle.Person) ([]error, error) {
	stands, err := standings(ctx, q, letters)
	if err != nil {
		return nil, err
	}
	remade, err := areRemade(ctx, q, who)
	if err != nil {
		return nil, err
	}
	ends := make([]error, len(letters))
	for i, l := range letters {
		if ends[i] = mayResolve(l, &stands[i], who); remade {
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

func mayResolve(l *settle.Letter, s *standing, who settle.Person) error {
	if l.Conflict && s.unreadable == nil && s.Record.Names(l.Seq) {
		return settle.ErrNotInDoubt
	}
	if err := mayDrop(l, s); err != nil {
		return err
	}
	switch r := s.Record; {
	case r.Outcome() != order.OutcomeUnknown && r.By == "":
		return settle.ErrNotInDoubt
	case !l.Shows(r), who.Knew.Birth != 0 && s.Seq > who.Knew.Seq:
		return settle.ErrReplaced
	}
	return nil
}
