package deadletter

import (
	"context"
	"errors"

	"orderpost/internal/books"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// errEnough stops a walk early.
var errEnough = errors.New("enough")

// selected calls visit with the letters that f selects, page by page. It prints each
// unreadable letter to stderr and returns their number.
func (s *surroundings) selected(ctx context.Context, q *queue.Queue, f *filter, visit func([]*settle.Letter) error) (unreadable int, err error) {
	last, err := books.LastLetter(ctx, q)
	if err != nil {
		return 0, err
	}
	return s.selectedTo(ctx, q, f, last, visit)
}

// selectedTo is selected for the letters up to the sequence last.
func (s *surroundings) selectedTo(ctx context.Context, q *queue.Queue, f *filter, last uint64, visit func([]*settle.Letter) error) (unreadable int, err error) {
	err = books.LetterPagesTo(ctx, q, last, func(page []*settle.Letter, bad []error) error {
		for _, err := range bad {
			s.skip(err)
		}
		unreadable += len(bad)
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
	return unreadable, err
}

// skip names a letter that this version cannot read.
func (s *surroundings) skip(err error) { say(s.stderr, "skipped: %v", err) }

// unreadableError returns the error of a command that skipped n unreadable letters.
func unreadableError(n int) error {
	if n == 0 {
		return nil
	}
	return partial("%d dead letters cannot be read by this version; a newer orderpost may have written them", n)
}
