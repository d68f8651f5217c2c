package deadletter

import (
	"context"
	"fmt"
	"slices"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// LetterPages passes the dead letters that are stored now, and that the record of their order_no names, to
// visit, oldest first, up to 256 at a time, in constant memory. It does not visit letters that are
// filed while it runs, for instance by orders that were replayed meanwhile.
func LetterPages(ctx context.Context, q *queue.Queue, visit func(page []*settle.Letter) error) error {
	last, err := LastLetter(ctx, q)
	if err != nil {
		return err
	}
	return LetterPagesFrom(ctx, q, 1, last, visit)
}

// LastLetter returns the sequence of the letter that was filed last, or a
// later one.
func LastLetter(ctx context.Context, q *queue.Queue) (uint64, error) {
	last, err := q.Store().LastLetter(ctx)
	if err != nil {
		return 0, fmt.Errorf("dead letters could not be read: %w", err)
	}
	return last, nil
}

// LetterPagesFrom is LetterPages for the letters with the sequences first to last.
func LetterPagesFrom(ctx context.Context, q *queue.Queue, first, last uint64, visit func(page []*settle.Letter) error) error {
	return q.Letters().Walk(ctx, first, last, func(messages []*settle.Message) error {
		_, now, err := joined(ctx, q, messages)
		if err != nil {
			return err
		}
		return visit(slices.DeleteFunc(now, func(l *settle.Letter) bool { return l == nil }))
	})
}

// joined reads letters from their messages, without those that are nil, and what their records say of them (about).
func joined(ctx context.Context, q *queue.Queue, messages []*settle.Message) (letters, now []*settle.Letter, err error) {
	for _, m := range messages {
		if m == nil {
			continue
		}
		l := q.Letters().Letter(m)
		if l.FiledAt.IsZero() { // its header was cut
			l.FiledAt = m.Time
		}
		letters = append(letters, l)
	}
	now, _, err = about(ctx, q, letters)
	return letters, now, err
}

// about returns letters with what the records of their orders say by now, nil for one that no record names, or
// whose record cannot be read. It returns the records, too.
func about(ctx context.Context, q *queue.Queue, letters []*settle.Letter) ([]*settle.Letter, []*order.Record, error) {
	now, records := make([]*settle.Letter, len(letters)), make([]*order.Record, len(letters))
	return now, records, q.Results().Last(ctx, fileTokens(letters), func(i int, m *settle.Message) {
		if entry, err := queue.DecodeRecord(m); err == nil {
			now[i], records[i] = letters[i].About(entry.Record), entry.Record
		}
	})
}

// LetterAt reads the letter with a sequence, nil if it is gone or no record names it.
func LetterAt(ctx context.Context, q *queue.Queue, seq uint64) (l *settle.Letter, err error) {
	found, err := q.Letters().Get(ctx, []uint64{seq})
	if err != nil {
		return nil, err
	}
	_, now, err := joined(ctx, q, found)
	if err == nil && len(now) > 0 {
		l = now[0]
	}
	return l, err
}

// Underway reports for each order_no whether an intent of it is in the queue that has no outcome yet: of a
// letter's order it is a replay or a correction. A follower that lags may answer.
func Underway(ctx context.Context, q *queue.Queue, letters []*settle.Letter) ([]bool, error) {
	stands, err := standings(ctx, q, letters)
	out := make([]bool, len(stands))
	for i := range stands {
		out[i] = stands[i].pending()
	}
	return out, err
}

// intentTokens are the tokens under which intents for the letters' orders are
// stored. An order_no that is filed under a hash has none.
func intentTokens(letters []*settle.Letter) []string {
	tokens := make([]string, len(letters))
	for i, l := range letters {
		tokens[i] = settle.FileToken(order.Token(l.OrderNo))
	}
	return tokens
}

// fileTokens are the tokens under which the letters and their records are stored.
func fileTokens(letters []*settle.Letter) []string {
	tokens := make([]string, len(letters))
	for i, l := range letters {
		tokens[i] = l.Token()
	}
	return tokens
}

// EachLetter is LetterPages for one letter at a time.
func EachLetter(ctx context.Context, q *queue.Queue, visit func(*settle.Letter) error) error {
	return LetterPages(ctx, q, func(page []*settle.Letter) error {
		for _, l := range page {
			if err := visit(l); err != nil {
				return err
			}
		}
		return nil
	})
}
