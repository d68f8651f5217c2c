package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"orderpost/internal/order"
)

// Entry is a record as it lies in the results stream.
type Entry struct {
	// Record is nil where the order_no has none.
	Record *order.Record
	// Seq is the record's sequence in the results stream; 0 where there is none.
	Seq uint64

	over *order.Record // what a write of ours took the place of
}

// ErrUnreadable: what lies in the results stream is not a record that this
// program understands. Its order can be neither posted nor settled.
var ErrUnreadable = errors.New("the last word on this order cannot be read")

// writeRecord makes mine the last word on the order_no filed under token, by
// the rules of order.Merge, starting from what its writer read last. It returns
// what stands in the stream afterwards. It goes on through lost confirmations
// and a broker out of reach until ctx ends; ErrStorage is returned at once.
func (q *Queue) writeRecord(ctx context.Context, token string, base Entry, mine order.Record) (Entry, error) {
	mine.WriteID = nuid.Next()
	for {
		next := order.Merge(base.Record, &mine)
		if next == nil {
			return base, nil
		}
		msg, err := q.recordMsg(token, next)
		if err != nil {
			return base, err
		}
		seq, err := q.results.put(ctx, msg, base.Seq)
		switch {
		case err == nil:
			return Entry{Record: next, Seq: seq, over: base.Record}, nil
		case errors.Is(err, ErrStorage):
			return base, err
		case ctx.Err() != nil:
			return base, err
		}
		before := base.Record
		if base, err = q.rereadRecord(ctx, token); err != nil {
			return base, err
		}
		if base.Record != nil && base.Record.WriteID == mine.WriteID {
			base.over = before
			return base, nil // the confirmation was lost, the write was not
		}
	}
}

// rereadRecord reads at the leader until it answers or ctx ends.
func (q *Queue) rereadRecord(ctx context.Context, token string) (Entry, error) {
	for {
		stored, err := q.readRecord(ctx, token)
		if err == nil || errors.Is(err, ErrUnreadable) {
			return stored, err
		}
		select {
		case <-ctx.Done():
			return stored, fmt.Errorf("results out of reach: %w", errors.Join(ctx.Err(), err))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// recordReserve is what the headers of a record take of the broker's
// max_payload at most, in bytes.
const recordReserve = 4 << 10

func (q *Queue) recordMsg(token string, r *order.Record) (*nats.Msg, error) {
	data, err := r.AppendJSON(make([]byte, 0, 1024))
	for err == nil && int64(len(data)) > q.nc.MaxPayload()-recordReserve {
		r.Response, r.Error, r.Reason = cut(r.Response, len(r.Response)/2), cut(r.Error, len(r.Error)/2), cut(r.Reason, 200)
		data, err = r.AppendJSON(data[:0])
	}
	if err != nil {
		return nil, fmt.Errorf("record of %s: %w", r.OrderNo, err)
	}
	msg := nats.NewMsg(q.n.resPre + token)
	msg.Data = data
	msg.Header.Set(HeaderOutcome, r.Word)
	if o := r.Outcome(); o != order.OutcomeNone && o != order.OutcomeUnknown {
		msg.Header.Set(jetstream.MsgTTLHeader, q.cfg.ResultRetention.String())
	}
	return msg, nil
}

// readRecord reads the last word on one order_no at the stream's leader.
// Entry.Record is nil only where the leader says that there is none.
func (q *Queue) readRecord(ctx context.Context, token string) (Entry, error) {
	raw, err := q.lastMsg(ctx, q.n.results, q.n.resPre+token)
	if err != nil || raw == nil {
		return Entry{}, err
	}
	return decodeRecord(raw)
}

func decodeRecord(raw *rawMsg) (Entry, error) {
	var r order.Record
	if err := json.Unmarshal(raw.Data, &r); err != nil {
		return Entry{}, fmt.Errorf("%w: results stream, sequence %d: not a record: %w", ErrUnreadable, raw.Seq, err)
	}
	if r.Word != order.Retrying && r.Outcome() == order.OutcomeNone {
		return Entry{}, fmt.Errorf("%w: results stream, sequence %d: outcome %q is none that this version knows", ErrUnreadable, raw.Seq, r.Word)
	}
	return Entry{Record: &r, Seq: raw.Seq}, nil
}

// Lookup reads the last word on an order_no. Record is nil where there is none.
func (q *Queue) Lookup(ctx context.Context, orderNo string) (Entry, error) {
	return q.readRecord(ctx, fileToken(order.Token(orderNo)))
}

// IsPending says whether an intent for the order_no is in the queue, waiting
// or being worked on.
func (q *Queue) IsPending(ctx context.Context, orderNo string) (bool, error) {
	raw, err := q.lastMsg(ctx, q.n.intents, q.n.newPre+order.Token(orderNo))
	return raw != nil, err
}
