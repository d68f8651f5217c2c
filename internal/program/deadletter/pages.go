package deadletter

import (
	"context"
	"errors"

	"orderpost/internal/books"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// errEnough ends a walk before its end.
var errEnough = errors.New("enough")

// selected passes the letters that f selects to visit, page by page, and
// returns how many could not be read; each of those is named on stderr once.
func (s *surroundings) selected(ctx context.Context, q *queue.Queue, f *filter, visit func([]*settle.Letter) error) (unreadable int, err error) {
	err = books.LetterPages(ctx, q, func(page []*settle.Letter, bad []error) error {
		for _, err := range bad {
			say(s.stderr, "skipped: %v", err)
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

// unreadableError ends a command that passed over letters it could not read.
func unreadableError(n int) error {
	if n == 0 {
		return nil
	}
	return partial("%d dead letters cannot be read by this version; a newer orderpost may have written them", n)
}
