package queue

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// leaderReads bounds how many single reads are under way at once.
const leaderReads = 32

// lookupSize is how many order numbers go into one request.
const lookupSize = 256

// Standings reads the pending intent and the last word on each order_no.
// Intents are read first: one that is gone by then had its result before.
func (q *Queue) Standings(ctx context.Context, orderNos []string) ([]settle.Standing, error) {
	pending := make([]*settle.Pending, len(orderNos))
	err := q.lookups(ctx, q.n.intents, orderNos, func(no string) string { return q.n.newPre + order.Token(no) },
		func(i int, raw *settle.Message) error {
			pending[i] = settle.ReadPending(orderNos[i], raw)
			return nil
		})
	if err != nil {
		return nil, err
	}
	out, err := q.Records(ctx, orderNos)
	for i := range out {
		out[i].Pending = pending[i]
	}
	return out, err
}

// lookups reads the last message of each order_no in one stream and passes
// those that there are to found.
func (q *Queue) lookups(ctx context.Context, stream string, orderNos []string, subject func(string) string, found func(i int, raw *settle.Message) error) error {
	for start := 0; start < len(orderNos); start += lookupSize {
		subjects := make([]string, 0, lookupSize)
		for _, no := range orderNos[start:min(start+lookupSize, len(orderNos))] {
			subjects = append(subjects, subject(no))
		}
		index := make(map[string]int, len(subjects))
		for i, s := range subjects {
			index[s] = start + i
		}
		var bad error
		err := q.lastOfEach(ctx, stream, subjects, func(raw *settle.Message) {
			if i, asked := index[raw.Subject]; asked && bad == nil {
				bad = found(i, raw)
			}
		})
		if err = errors.Join(err, bad); err != nil {
			return err
		}
	}
	return nil
}

// lastOfEach reads in one batch where that is exact, else one by one at the
// leader (R2). It passes what there is to take, one message at a time.
func (q *Queue) lastOfEach(ctx context.Context, stream string, subjects []string, take func(*settle.Message)) error {
	if q.replicas == 1 {
		return q.lastEach(ctx, stream, subjects, take)
	}
	var all errgroup.Group
	var mu sync.Mutex
	all.SetLimit(leaderReads)
	for _, s := range subjects {
		all.Go(func() error {
			raw, err := q.lastMsg(ctx, stream, s)
			if raw != nil {
				mu.Lock()
				defer mu.Unlock()
				take(raw)
			}
			return err
		})
	}
	return all.Wait()
}
