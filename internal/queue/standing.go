package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
)

// Standing is what the streams hold about one order_no.
type Standing struct {
	// Pending is the stored intent; nil where none waits or is worked on.
	Pending *Pending
	// Entry is the last word; its Record is nil where there is none.
	Entry
	// Unreadable: there is a last word that this program does not understand.
	Unreadable error
}

// Pending is a stored intent.
type Pending struct {
	OrderNo  string
	Seq      uint64
	StoredAt time.Time
	// ID and Batch are as in Intent.
	ID, Batch string
	// BodyHash is that of the canonical body; "" for a body that can never be
	// sent.
	BodyHash string
}

// lookupSize is how many order numbers go into one request.
const lookupSize = 256

// Records reads the last word on each order_no, in the order of orderNos. An
// unreadable one has its error in Unreadable, and no record.
func (q *Queue) Records(ctx context.Context, orderNos []string) ([]Standing, error) {
	out := make([]Standing, len(orderNos))
	if len(orderNos) == 1 {
		entry, err := q.Lookup(ctx, orderNos[0])
		if errors.Is(err, ErrUnreadable) {
			out[0].Unreadable, err = err, nil
		}
		out[0].Entry = entry
		return out, err
	}
	err := q.lookups(ctx, q.n.results, orderNos, func(no string) string { return q.n.resPre + fileToken(order.Token(no)) },
		func(i int, raw *rawMsg) error {
			entry, err := decodeRecord(raw)
			if errors.Is(err, ErrUnreadable) {
				out[i].Unreadable, err = err, nil
			}
			out[i].Entry = entry
			return err
		})
	return out, err
}

// Standings reads the pending intent and the last word on each order_no.
// Intents are read first: one that is gone by then had its result before.
func (q *Queue) Standings(ctx context.Context, orderNos []string) ([]Standing, error) {
	pending := make([]*Pending, len(orderNos))
	err := q.lookups(ctx, q.n.intents, orderNos, func(no string) string { return q.n.newPre + order.Token(no) },
		func(i int, raw *rawMsg) error {
			pending[i] = readPending(orderNos[i], raw)
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

func readPending(orderNo string, raw *rawMsg) *Pending {
	p := &Pending{OrderNo: orderNo, Seq: raw.Seq, StoredAt: raw.Time, Batch: cut(raw.Header.Get(HeaderBatch), maxLabel),
		ID: intentID(raw.Header.Get(HeaderIntentID), raw.Seq, raw.Time)}
	if parsed, err := order.Parse(raw.Data); err == nil {
		p.BodyHash = parsed.BodyHash()
	}
	return p
}

// lookups reads the last message of each order_no in one stream and passes
// those that there are to found.
func (q *Queue) lookups(ctx context.Context, stream string, orderNos []string, subject func(string) string, found func(i int, raw *rawMsg) error) error {
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
		err := q.lastOfEach(ctx, stream, subjects, func(raw *rawMsg) {
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
func (q *Queue) lastOfEach(ctx context.Context, stream string, subjects []string, take func(*rawMsg)) error {
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
