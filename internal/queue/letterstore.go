package queue

import (
	"context"
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

// PutLetter implements settle.Store. An intent that another program published may leave less room in its message than
// a letter's header takes, or none. Then the header is cut: the body alone must be kept.
func (s jetStore) PutLetter(ctx context.Context, token string, l *settle.Letter) (uint64, error) {
	msg := nats.NewMsg(s.q.Conn.n.deadPre + token)
	msg.Data = l.Body
	room := s.q.Conn.nc.MaxPayload() - int64(len(l.Body)) - headersLine
	particulars := letterHeader(l, int(min(room, settle.LetterReserve-headersLine)))
	if particulars == "" { // the writer's own headers may have no room either
		ctx, cancel := s.q.Conn.link.bound(ctx)
		defer cancel()
		ack, err := s.q.Conn.js.PublishMsg(ctx, msg)
		if err != nil {
			return 0, writeError(err)
		}
		return ack.Sequence, nil
	}
	msg.Header.Set(headerLetter, particulars)
	msg.Header.Set(settle.HeaderOutcome, l.Outcome.String())
	return s.q.letters.add(ctx, msg)
}

// headersLine is more than what a letter's header section takes besides the particulars, in bytes.
const headersLine = 256

// letterHeader returns the letter as one header value of at most so many bytes. If it exceeds them,
// letterHeader drops in this order: the ends of long texts, the attempts, and the intent's headers. It returns ""
// if there is no room at all: the record then says what the letter is about.
func letterHeader(l *settle.Letter, most int) string {
	fit := *l
	packLetter(&fit)
	for limit := 4096; ; {
		data, err := json.Marshal(&fit)
		switch {
		case err != nil: // a time beyond the year 9999
			return ""
		case len(data) <= most:
			return string(data)
		case len(fit.Response) > limit || len(fit.Error) > limit || len(fit.Reason) > limit:
			fit.Response, fit.Error, fit.Reason = order.Truncate(fit.Response, limit), order.Truncate(fit.Error, limit), order.Truncate(fit.Reason, limit)
		case len(fit.Trail) > 1:
			fit.Trail = fit.Trail[len(fit.Trail)/2:]
		case len(fit.Headers)+len(fit.RawHeaders) > 0:
			fit.Headers, fit.RawHeaders = nil, nil
		case limit > 1:
			limit /= 2
			fit.OrderNo, fit.Subject, fit.RawSubject = order.Truncate(fit.OrderNo, limit), order.Truncate(fit.Subject, limit), nil
		default:
			return ""
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

// Letter implements settle.Store. "No message found" may be wrong (R2): then the letter is stored once more.
func (s jetStore) Letter(ctx context.Context, token string, seq uint64) (*settle.Letter, error) {
	raw, err := s.q.reader.msgAt(ctx, s.q.Conn.n.dead, seq)
	if err != nil || raw == nil || raw.Subject != s.q.Conn.n.deadPre+token {
		return nil, err
	}
	return s.q.Letters().Letter(raw), nil
}

// Letter reads a message of the dead-letter stream. Of a header that was cut, or that another program wrote, it
// takes nothing: the record says what the letter is about.
func (s Stream) Letter(raw *settle.Message) *settle.Letter {
	var l settle.Letter
	if json.Unmarshal([]byte(raw.Header.Get(headerLetter)), &l) != nil {
		l = settle.Letter{}
	}
	unpackLetter(&l)
	l.Body, l.Seq, l.FiledUnder = raw.Data, raw.Seq, s.Token(raw)
	return &l
}

func (s jetStore) DeleteLetter(ctx context.Context, token string, seq uint64) error {
	l, err := s.Letter(ctx, token, seq)
	if err != nil || l == nil {
		return err
	}
	if err = s.q.reader.deleteMsg(ctx, s.q.Conn.n.dead, seq); err != nil {
		// JetStream gives the same error for a message that is gone, which is fine, and for one that it cannot remove.
		if now, readErr := s.Letter(ctx, token, seq); readErr != nil || now != nil {
			var refused *jetstream.APIError
			if readErr == nil && errors.As(err, &refused) {
				err = fmt.Errorf("%w: %w", settle.ErrRefused, err)
			}
			return fmt.Errorf("dead letter %d of %s cannot be removed: %w", seq, l.OrderNo, err)
		}
	}
	s.q.Conn.log.Debug().Str("order_no", l.OrderNo).Uint64("sequence", seq).Msg("dead letter removed")
	return nil
}

func (s jetStore) LettersFrom(ctx context.Context, seq uint64, most int) ([]settle.LetterRef, error) {
	page, _, _, err := s.q.reader.page(ctx, s.q.Conn.n.dead, s.q.Conn.n.deadPre+"*", max(seq, 1), most)
	refs := make([]settle.LetterRef, len(page))
	for i, m := range page {
		refs[i] = settle.LetterRef{Token: s.q.Letters().Token(m), Seq: m.Seq}
	}
	return refs, err
}

func (s jetStore) LastLetter(ctx context.Context) (uint64, error) {
	state, err := s.q.Letters().State(ctx)
	return state.LastSeq, err
}

// headerLetter is the header with the letter's fields. The payload of the
// message is the intent's body, byte for byte.
const headerLetter = "Order-Letter"
