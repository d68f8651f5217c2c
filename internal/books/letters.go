package books

import (
	"context"
	"fmt"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// LetterPages passes the dead letters that are stored now to visit, oldest first,
// up to 256 at a time, in constant memory. It does not visit letters that are
// filed while it runs, for instance by orders that were replayed meanwhile.
// Letters that cannot be read are passed as errors that name their sequences. The
// second part of a body that is stored in two is not read.
func LetterPages(ctx context.Context, q *queue.Queue, visit func(page []*settle.Letter, unreadable []error) error) error {
	last, err := LastLetter(ctx, q)
	if err != nil {
		return err
	}
	return LetterPagesTo(ctx, q, last, visit)
}

// LastLetter returns the sequence of the letter that was filed last, or a
// later one.
func LastLetter(ctx context.Context, q *queue.Queue) (uint64, error) {
	state, err := q.Letters().State(ctx)
	if err != nil {
		return 0, fmt.Errorf("dead letters could not be read: %w", err)
	}
	return state.LastSeq, nil
}

// LetterPagesTo is LetterPages for the letters up to the sequence last.
func LetterPagesTo(ctx context.Context, q *queue.Queue, last uint64, visit func(page []*settle.Letter, unreadable []error) error) error {
	return LetterPagesFrom(ctx, q, 1, last, visit)
}

// LetterPagesFrom is LetterPages for the letters with the sequences first to last.
func LetterPagesFrom(ctx context.Context, q *queue.Queue, first, last uint64, visit func(page []*settle.Letter, unreadable []error) error) error {
	letters := q.Letters()
	return letters.Walk(ctx, first, last, func(messages []*settle.Message) error {
		var page []*settle.Letter
		var unreadable []error
		for _, m := range messages {
			l, err := queue.DecodeLetter(m)
			if err != nil {
				unreadable = append(unreadable, err)
				continue
			}
			l.FiledUnder = letters.Token(m)
			page = append(page, l)
		}
		return visit(page, unreadable)
	})
}

// WouldDrop returns those of the listed letters that settle.Operator.Drop would
// forget now: those for whose order_no no intent is in the queue.
func WouldDrop(ctx context.Context, q *queue.Queue, letters []*settle.Letter) ([]*settle.Letter, error) {
	pending := make([]bool, len(letters))
	err := q.Intents().Last(ctx, intentTokens(letters), func(i int, _ *settle.Message) { pending[i] = true })
	var out []*settle.Letter
	for i, l := range letters {
		if !pending[i] {
			out = append(out, l)
		}
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
