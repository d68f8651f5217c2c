package queue

import (
	"context"

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
		msgs, err := q.lastOfEach(ctx, stream, subjects)
		if err != nil {
			return err
		}
		for i, s := range subjects {
			if raw := msgs[s]; raw != nil {
				if err := found(start+i, raw); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// lastOfEach reads in one batch where that is exact, else one by one at the
// leader (R2).
func (q *Queue) lastOfEach(ctx context.Context, stream string, subjects []string) (map[string]*settle.Message, error) {
	if q.replicas == 1 {
		return q.lastMsgs(ctx, stream, subjects)
	}
	msgs := make([]*settle.Message, len(subjects))
	var all errgroup.Group
	all.SetLimit(leaderReads)
	for i, s := range subjects {
		all.Go(func() (err error) {
			msgs[i], err = q.lastMsg(ctx, stream, s)
			return err
		})
	}
	err := all.Wait()
	out := make(map[string]*settle.Message, len(subjects))
	for i, raw := range msgs {
		if raw != nil {
			out[subjects[i]] = raw
		}
	}
	return out, err
}
