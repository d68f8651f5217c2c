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
	return q.writeUnless(ctx, token, base, mine, func() *order.Record { return nil })
}

// writeUnless asks before each repetition whether something else is to be
// written instead: nil, or what.
func (q *Queue) writeUnless(ctx context.Context, token string, base Entry, mine order.Record, instead func() *order.Record) (Entry, error) {
	mine.WriteID = nuid.Next()
	w := q.wait()
	defer w.over()
	for {
		next := order.Merge(base.Record, &mine)
		if next == nil {
			return base, nil
		}
		seq, err := q.store.PutRecord(ctx, token, next, base.Seq)
		switch {
		case err == nil:
			return Entry{Record: next, Seq: seq, over: base.Record}, nil
		case errors.Is(err, ErrStorage):
			return base, err
		case ctx.Err() != nil:
			return base, err
		case !errors.Is(err, errStale):
			if err := w.again(ctx, err); err != nil {
				return base, err
			}
		}
		before := base.Record
		if base, err = q.rereadRecord(ctx, token); err != nil {
			return base, err
		}
		if base.Record != nil && base.Record.WriteID == mine.WriteID {
			base.over = before
			return base, nil // the confirmation was lost, the write was not
		}
		if other := instead(); other != nil {
			other.WriteID = mine.WriteID
			mine = *other
		}
	}
}

// rereadPause is the pace at which a broker out of reach is asked again.
const rereadPause = 100 * time.Millisecond

// rereadRecord reads at the leader until it answers or ctx ends.
func (q *Queue) rereadRecord(ctx context.Context, token string) (Entry, error) {
	for {
		stored, err := q.store.Record(ctx, token)
		if err == nil || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrUnreachable) {
			return stored, err
		}
		if q.time.Sleep(ctx, rereadPause) != nil {
			return stored, fmt.Errorf("results out of reach: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// recordReserve is what the headers of a record take of the broker's
// max_payload at most, in bytes.
const recordReserve = 4 << 10

// recordMsg is a record as it is published, its JSON appended to buf.
func (q *Queue) recordMsg(token string, r *order.Record, buf []byte) (*nats.Msg, error) {
	data, err := r.AppendJSON(buf)
	for err == nil && int64(len(data)) > q.nc.MaxPayload()-recordReserve {
		r.Response, r.Error, r.Reason = cut(r.Response, len(r.Response)/2), cut(r.Error, len(r.Error)/2), cut(r.Reason, 200)
		data, err = r.AppendJSON(data[:0])
	}
	if err != nil {
		return nil, fmt.Errorf("record of %s: %w", r.OrderNo, err)
	}
	msg := &nats.Msg{Subject: q.n.resPre + token, Data: data, Header: nats.Header{HeaderOutcome: {r.Word}}}
	if expires(r) {
		msg.Header[jetstream.MsgTTLHeader] = []string{q.cfg.ResultRetention.String()}
	}
	return msg, nil
}

// expires: an outcome is kept for the retention. A doubt is kept until it is
// settled, and a failure for as long as its dead letter: a replay must see what
// it repeats, and an audit what the letter is about.
func expires(r *order.Record) bool {
	o := r.Outcome()
	return o != order.OutcomeNone && o != order.OutcomeUnknown && !r.NeedsLetter()
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
	return q.store.Record(ctx, fileToken(order.Token(orderNo)))
}

// IsPending says whether an intent for the order_no is in the queue, waiting
// or being worked on.
func (q *Queue) IsPending(ctx context.Context, orderNo string) (bool, error) {
	raw, err := q.store.Intent(ctx, orderNo)
	return raw != nil, err
}
