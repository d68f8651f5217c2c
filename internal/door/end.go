package door

import (
	"context"

	"orderpost/internal/books"
)

// End returns the position of the newest record: Outcomes after it yields only what is
// stored from now on. Errors: ErrUnavailable, ErrClosed, ctx's.
func (d *Door) End(ctx context.Context) (uint64, error) {
	last, err := books.LastResult(ctx, d.q)
	return last, d.unread(err)
}
