package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// PutLetter stores the letter. It first stores the tail of a body that does not
// fit into one message, under the hash of its bytes. So the tail can be written
// twice and never be taken for another letter's.
func (s jetStore) PutLetter(ctx context.Context, token string, l, replaces *settle.Letter) error {
	q := s.q
	var expect uint64
	if replaces != nil {
		expect = replaces.Seq
	}
	head := l.Body
	if limit := max(0, q.Conn.nc.MaxPayload()-settle.LetterReserve); int64(len(head)) > limit {
		rest := head[limit:]
		head = head[:limit]
		l.Tail = tailHash(rest)
		tail := nats.NewMsg(q.Conn.n.tailSubject(token, l.Tail))
		tail.Data = rest
		if err := q.putTail(ctx, tail); err != nil {
			return writeError(err)
		}
	}
	particulars, err := letterHeader(l)
	if err != nil {
		return err
	}
	msg := nats.NewMsg(q.Conn.n.deadPre + token)
	msg.Data = head
	msg.Header.Set(headerLetter, particulars)
	msg.Header.Set(settle.HeaderOutcome, l.Outcome.String())
	if _, err = q.letters.put(ctx, msg, expect); err == nil && replaces != nil && replaces.Tail != "" && replaces.Tail != l.Tail {
		err = q.purgeTail(ctx, token, replaces)
	}
	return err
}

// putTail stores a tail.
func (q *Queue) putTail(ctx context.Context, tail *nats.Msg) error {
	ctx, cancel := q.Conn.link.bound(ctx)
	defer cancel()
	_, err := q.Conn.js.PublishMsg(ctx, tail)
	return err
}

// tailHash returns the hash that names a tail.
func tailHash(rest []byte) string {
	sum := sha256.Sum256(rest)
	return hex.EncodeToString(sum[:])
}

// letterHeader returns the letter as one header value. If it exceeds its
// reserve, letterHeader drops in this order: the ends of long texts, the
// earlier letters, the attempts, and the intent's headers.
func letterHeader(l *settle.Letter) (string, error) {
	fit := *l
	packLetter(&fit)
	for limit := 4096; ; {
		data, err := json.Marshal(&fit)
		if err != nil {
			return "", fmt.Errorf("dead letter of %s: %w", l.OrderNo, err)
		}
		switch {
		case len(data) <= settle.LetterReserve-4096:
			return string(data), nil
		case len(fit.Response) > limit || len(fit.Error) > limit || len(fit.Reason) > limit:
			fit.Response, fit.Error, fit.Reason = order.Truncate(fit.Response, limit), order.Truncate(fit.Error, limit), order.Truncate(fit.Reason, limit)
		case len(fit.Earlier) > 0:
			fit.Earlier = fit.Earlier[:len(fit.Earlier)-1]
		case len(fit.Trail) > 1:
			fit.Trail = fit.Trail[len(fit.Trail)/2:]
		case len(fit.Headers) > 0:
			fit.Headers, fit.RawHeaders = nil, nil
		case limit > 1:
			limit /= 2
			fit.OrderNo, fit.Subject, fit.RawSubject = order.Truncate(fit.OrderNo, limit), order.Truncate(fit.Subject, limit), nil
		default:
			return "", fmt.Errorf("dead letter of %s: its particulars have %d bytes", order.Truncate(l.OrderNo, 256), len(data))
		}
	}
}

// packLetter moves what is not UTF-8 to fields that JSON keeps byte for byte.
func packLetter(l *settle.Letter) {
	if !utf8.ValidString(l.Subject) {
		l.RawSubject = []byte(l.Subject)
	}
	l.Headers = maps.Clone(l.Headers)
	for k, vs := range l.Headers {
		if slices.ContainsFunc(append([]string{k}, vs...), func(s string) bool { return !utf8.ValidString(s) }) {
			for _, v := range vs {
				l.RawHeaders = append(l.RawHeaders, settle.RawHeader{Name: []byte(k), Value: []byte(v)})
			}
			delete(l.Headers, k)
		}
	}
}

// unpackLetter reverses packLetter.
func unpackLetter(l *settle.Letter) {
	if l.RawSubject != nil {
		l.Subject = string(l.RawSubject)
	}
	if l.Headers == nil {
		l.Headers = make(map[string][]string)
	}
	for _, h := range l.RawHeaders {
		l.Headers[string(h.Name)] = append(l.Headers[string(h.Name)], string(h.Value))
	}
	l.RawSubject, l.RawHeaders = nil, nil
}

func (s jetStore) Letter(ctx context.Context, token string) (*settle.Letter, error) {
	q := s.q
	raw, err := q.reader.lastMsg(ctx, q.Conn.n.dead, q.Conn.n.deadPre+token)
	if err != nil || raw == nil {
		return nil, err
	}
	l, err := DecodeLetter(raw)
	if err != nil || l.Tail == "" {
		return l, err
	}
	tail, err := q.reader.lastMsg(ctx, q.Conn.n.dead, q.Conn.n.tailSubject(token, l.Tail))
	if err != nil {
		return nil, err
	}
	if tail == nil || tailHash(tail.Data) != l.Tail {
		return nil, fmt.Errorf("%w: dead-letter stream, sequence %d: the tail of its body is missing", settle.ErrNotALetter, raw.Seq)
	}
	l.Body = append(l.Body, tail.Data...)
	return l, nil
}

// DecodeLetter reads a message of the dead-letter stream, without the tail of a
// body that is stored in two messages. Error: settle.ErrNotALetter.
func DecodeLetter(raw *settle.Message) (*settle.Letter, error) {
	var l settle.Letter
	if err := json.Unmarshal([]byte(raw.Header.Get(headerLetter)), &l); err != nil {
		return nil, fmt.Errorf("%w: dead-letter stream, sequence %d: %w", settle.ErrNotALetter, raw.Seq, err)
	}
	unpackLetter(&l)
	l.Body, l.Seq = raw.Data, raw.Seq
	return &l, nil
}

func (s jetStore) DeleteLetter(ctx context.Context, token string, l *settle.Letter) error {
	q := s.q
	if err := q.reader.deleteMsg(ctx, q.Conn.n.dead, l.Seq); err != nil {
		// JetStream gives the same error for a message that is gone, which is fine, and
		// for one that it cannot read. lastMsg tells the two apart.
		last, readErr := q.reader.lastMsg(ctx, q.Conn.n.dead, q.Conn.n.deadPre+token)
		if readErr != nil || last != nil && last.Seq == l.Seq {
			var refused *jetstream.APIError
			if readErr == nil && errors.As(err, &refused) {
				err = fmt.Errorf("%w: %w", settle.ErrRefused, err)
			}
			return fmt.Errorf("dead letter of %s cannot be removed: %w", l.OrderNo, err)
		}
	}
	q.Conn.log.Debug().Str("order_no", l.OrderNo).Uint64("sequence", l.Seq).Msg("dead letter removed")
	if l.Tail != "" {
		return q.purgeTail(ctx, token, l)
	}
	return nil
}

// purgeTail removes a letter's tail, which was stored before the letter. A tail that
// was stored after it belongs to a later letter: one whose body ends with the same
// bytes has its tail under the same subject. Nothing ever reads a tail that a crash
// leaves behind.
func (q *Queue) purgeTail(ctx context.Context, token string, l *settle.Letter) error {
	if err := q.reader.purge(ctx, q.Conn.n.dead, q.Conn.n.tailSubject(token, l.Tail), l.Seq); err != nil {
		return fmt.Errorf("dead letter of %s: the tail of its body cannot be removed: %w", l.OrderNo, err)
	}
	return nil
}

// headerLetter is the header with the letter's fields. The payload of the
// message is the intent's body, byte for byte.
const headerLetter = "Order-Letter"
