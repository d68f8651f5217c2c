package journal

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// followEvery is how often Follow looks for new entries.
const followEvery = time.Second

// Last returns the sequence of the newest entry; 0 if there is none.
func Last(ctx context.Context, q *queue.Queue) (last uint64, err error) {
	err = q.Conn.UnlessRefused(ctx, func(ctx context.Context) error {
		state, err := q.Journal().State(ctx)
		last = state.LastSeq
		return err
	})
	if errors.Is(err, queue.ErrNoStream) {
		return 0, nil
	}
	return last, err
}

// Follow passes the acts after an entry to visit, oldest first, until ctx ends:
// each when it begins, and once more when it ends.
func Follow(ctx context.Context, q *queue.Queue, query Query, after uint64, visit func(Item)) error {
	r := reader{s: q.Journal(), query: query, page: &Page{}, ended: make(map[string]*Entry), announced: make(map[string]bool)}
	for {
		last, err := Last(ctx, q)
		if err == nil && last > after {
			err = r.s.Walk(ctx, after+1, last, func(page []*settle.Message) error {
				for _, m := range page {
					if e, err := decode(m, r.s.Token(m)); err == nil && r.selects(e) {
						visit(e.item())
					}
				}
				return nil
			})
			after = last
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err := settle.Sleep(ctx, followEvery); err != nil {
			return err
		}
	}
}
