package deadletter

import (
	"context"
	"errors"

	"orderpost/internal/deadletter"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// errEnough stops a walk early.
var errEnough = errors.New("enough")

// selected calls visit with the letters that f selects, page by page.
func selected(ctx context.Context, q *queue.Queue, f *filter, visit func([]*settle.Letter) error) error {
	last, err := deadletter.LastLetter(ctx, q)
	if err != nil {
		return err
	}
	return selectedTo(ctx, q, f, last, visit)
}

// selectedTo is selected for the letters up to the sequence last.
func selectedTo(ctx context.Context, q *queue.Queue, f *filter, last uint64, visit func([]*settle.Letter) error) error {
	err := deadletter.LetterPagesFrom(ctx, q, 1, last, func(page []*settle.Letter) error {
		kept := page[:0]
		for _, l := range page {
			if f.selects(l) {
				kept = append(kept, l)
			}
		}
		return visit(kept)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}
