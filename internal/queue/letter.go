package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
)

// letterReserve is what a letter's header may take of the broker's max_payload
// beside the original bytes, in bytes. Bodies that leave less are refused at
// intake; of foreign ones the tail is stored apart.
const letterReserve = 64 << 10

// Bounds of what a letter keeps beside the body.
const (
	maxTrail       = 50
	maxEarlier     = 10
	maxHeaderBytes = 16 << 10
)

// headerLetter carries the letter's particulars; the message's payload is the
// intent's body, byte for byte.
const headerLetter = "Order-Letter"

// Letter is a dead letter: an order that needs a person, with everything that
// is known about it.
type Letter struct {
	OrderNo  string        `json:"order_no"`
	Outcome  order.Outcome `json:"outcome"`
	Reason   string        `json:"reason,omitempty"`
	Error    string        `json:"error,omitempty"`
	Verdict  order.Verdict `json:"verdict,omitzero"`
	Status   int           `json:"status,omitempty"`
	Response string        `json:"response,omitempty"`
	order.History
	// Trail lists the attempts of the last visit, oldest first, at most 50.
	Trail []order.Attempt `json:"trail,omitempty"`

	IntentID   string    `json:"intent_id"`
	BodyHash   string    `json:"body_hash,omitempty"`
	Batch      string    `json:"batch,omitempty"`
	Source     string    `json:"source,omitempty"`
	Worker     string    `json:"worker,omitempty"`
	EnqueuedAt time.Time `json:"enqueued_at,omitzero"`
	FiledAt    time.Time `json:"filed_at"`

	// Subject and Headers are the intent's own, as data: a live Nats-Msg-Id
	// would swallow a second letter.
	Subject string              `json:"subject"`
	Headers map[string][]string `json:"headers,omitempty"`

	// Conflict: the order_no was accepted before with another body. The result
	// stays accepted; this letter is about the later intent.
	Conflict bool `json:"conflict,omitempty"`
	// Replays counts how often the letter's order was replayed.
	Replays int `json:"replays,omitempty"`
	// Earlier lists what this letter took the place of, newest first, at most 10.
	Earlier []Earlier `json:"earlier,omitempty"`
	// Tail: the body's last bytes lie at <subject>.tail.
	Tail bool `json:"tail,omitempty"`

	// Body is the intent's body as it came, even where it is not JSON.
	Body []byte `json:"-"`
	// Seq is the letter's place in the dead-letter stream.
	Seq uint64 `json:"-"`
}

// Earlier is a letter that was replaced, or an intent that was withheld
// because the order's outcome was unknown.
type Earlier struct {
	IntentID string        `json:"intent_id"`
	Outcome  order.Outcome `json:"outcome"`
	Reason   string        `json:"reason,omitempty"`
	At       time.Time     `json:"at"`
	Attempts int           `json:"attempts"`
	BodyHash string        `json:"body_hash,omitempty"`
}

// newLetter makes the letter of a delivery whose record is given.
func newLetter(d *Delivery, r *order.Record, trail []order.Attempt) *Letter {
	if len(trail) > maxTrail {
		trail = trail[len(trail)-maxTrail:]
	}
	return &Letter{
		OrderNo: r.OrderNo, Outcome: r.Outcome(), Reason: r.Reason, Error: r.Error,
		Verdict: r.Verdict, Status: r.Status, Response: r.Response,
		History: r.History, Trail: trail,
		IntentID: r.IntentID, BodyHash: r.BodyHash, Batch: r.Batch, Source: r.Source, Worker: r.Worker,
		EnqueuedAt: r.EnqueuedAt, FiledAt: r.SettledAt,
		Subject: d.msg.Subject(), Headers: boundedHeaders(d.msg.Headers()),
		Body: d.Intent.Body,
	}
}

// boundedHeaders keeps the intent's headers as data, as many as fit.
func boundedHeaders(h nats.Header) map[string][]string {
	out := make(map[string][]string, len(h))
	size := 0
	for k, vs := range h {
		for _, v := range vs {
			size += len(k) + len(v)
		}
		if size > maxHeaderBytes {
			break
		}
		out[k] = vs
	}
	return out
}

// fileLetter stores the letter unless one about the same intent lies there
// already. A letter that it replaces is carried on in its history.
func (q *Queue) fileLetter(ctx context.Context, token string, l *Letter) error {
	var have *Letter
	for {
		var expect uint64
		if have != nil {
			if have.IntentID == l.IntentID {
				return nil
			}
			expect = have.Seq
			l.inheritFrom(have)
		}
		err := q.putLetter(ctx, token, l, expect)
		if err == nil || errors.Is(err, ErrStorage) || ctx.Err() != nil {
			return err
		}
		if have, err = q.rereadLetter(ctx, token); err != nil {
			return err
		}
	}
}

// inheritFrom carries on the history of the letter that l replaces.
func (l *Letter) inheritFrom(have *Letter) {
	e := Earlier{IntentID: have.IntentID, Outcome: have.Outcome, Reason: have.Reason, At: have.FiledAt,
		Attempts: have.Attempts, BodyHash: have.BodyHash}
	l.Earlier = append([]Earlier{e}, have.Earlier...)
	if len(l.Earlier) > maxEarlier {
		l.Earlier = l.Earlier[:maxEarlier]
	}
	l.Replays = max(l.Replays, have.Replays)
}

func (q *Queue) putLetter(ctx context.Context, token string, l *Letter, expect uint64) error {
	head := l.Body
	if limit := q.nc.MaxPayload() - letterReserve; int64(len(head)) > limit {
		l.Tail = true
		tail := nats.NewMsg(q.n.deadPre + token + ".tail")
		tail.Data, head = head[limit:], head[:limit]
		if _, err := q.js.PublishMsg(ctx, tail); err != nil {
			return writeError(err)
		}
	}
	particulars, err := letterHeader(l)
	if err != nil {
		return err
	}
	msg := nats.NewMsg(q.n.deadPre + token)
	msg.Data = head
	msg.Header.Set(headerLetter, particulars)
	msg.Header.Set(HeaderOutcome, l.Outcome.String())
	_, err = q.letters.put(ctx, msg, expect)
	return err
}

// letterHeader is the letter as one header value. What is large in it gives
// way before it exceeds its reserve: the earlier letters, then the headers.
func letterHeader(l *Letter) (string, error) {
	for {
		data, err := json.Marshal(l)
		if err != nil {
			return "", fmt.Errorf("dead letter of %s: %w", l.OrderNo, err)
		}
		switch {
		case len(data) <= letterReserve-4096:
			return string(data), nil
		case len(l.Earlier) > 0:
			l.Earlier = l.Earlier[:len(l.Earlier)-1]
		case len(l.Headers) > 0:
			l.Headers = nil
		case len(l.Trail) > 1:
			l.Trail = l.Trail[len(l.Trail)/2:]
		default:
			l.Response, l.Error, l.Reason = cut(l.Response, 4096), cut(l.Error, 4096), cut(l.Reason, 1024)
			l.Subject, l.Batch, l.Source = cut(l.Subject, 4096), cut(l.Batch, 1024), cut(l.Source, 1024)
			l.IntentID, l.Trail = cut(l.IntentID, 4096), nil
		}
	}
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// Letter reads the dead letter of an order_no; nil where there is none.
func (q *Queue) Letter(ctx context.Context, orderNo string) (*Letter, error) {
	return q.readLetter(ctx, fileToken(order.Token(orderNo)))
}

func (q *Queue) readLetter(ctx context.Context, token string) (*Letter, error) {
	raw, err := q.lastMsg(ctx, q.n.dead, q.n.deadPre+token)
	if err != nil || raw == nil {
		return nil, err
	}
	l, err := decodeLetter(raw)
	if err != nil || !l.Tail {
		return l, err
	}
	tail, err := q.lastMsg(ctx, q.n.dead, q.n.deadPre+token+".tail")
	if err != nil {
		return nil, err
	}
	if tail != nil {
		l.Body = append(l.Body, tail.Data...)
	}
	return l, nil
}

func decodeLetter(raw *rawMsg) (*Letter, error) {
	var l Letter
	if err := json.Unmarshal([]byte(raw.Header.Get(headerLetter)), &l); err != nil {
		return nil, fmt.Errorf("dead-letter stream, sequence %d: not a letter: %w", raw.Seq, err)
	}
	l.Body, l.Seq = raw.Data, raw.Seq
	return &l, nil
}

func (q *Queue) rereadLetter(ctx context.Context, token string) (*Letter, error) {
	for {
		l, err := q.readLetter(ctx, token)
		if err == nil {
			return l, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("dead letters out of reach: %w", errors.Join(ctx.Err(), err))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// removeLetter deletes the letter of an order that turned out to be accepted,
// by its sequence, so that a newer one is not hit. A conflict's letter stays.
func (q *Queue) removeLetter(ctx context.Context, token string) error {
	l, err := q.rereadLetter(ctx, token)
	if err != nil || l == nil || l.Conflict {
		return err
	}
	return q.deleteLetter(ctx, token, l)
}

func (q *Queue) deleteLetter(ctx context.Context, token string, l *Letter) error {
	stream, err := q.js.Stream(ctx, q.n.dead)
	if err != nil {
		return fmt.Errorf("dead letters out of reach: %w", err)
	}
	if err := stream.DeleteMsg(ctx, l.Seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("dead letter of %s cannot be removed: %w", l.OrderNo, err)
	}
	if l.Tail {
		return stream.Purge(ctx, jetstream.WithPurgeSubject(q.n.deadPre+token+".tail"))
	}
	return nil
}
