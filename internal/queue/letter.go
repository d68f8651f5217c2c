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
	"time"
	"unicode/utf8"

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
	// RawSubject and RawHeaders carry what is not UTF-8 in the stored form only.
	RawSubject []byte      `json:"raw_subject,omitempty"`
	RawHeaders []rawHeader `json:"raw_headers,omitempty"`

	// Conflict: the order_no was accepted before with another body. The result
	// stays accepted; this letter is about the later intent.
	Conflict bool `json:"conflict,omitempty"`
	// Replays counts how often the letter's order was replayed.
	Replays int `json:"replays,omitempty"`
	// Earlier lists what this letter took the place of, newest first, at most 10.
	Earlier []Earlier `json:"earlier,omitempty"`
	// Tail: the body's last bytes lie apart, under this hash of them.
	Tail string `json:"tail,omitempty"`

	// Body is the intent's body as it came, even where it is not JSON.
	Body []byte `json:"-"`
	// Seq is the letter's place in the dead-letter stream.
	Seq uint64 `json:"-"`

	// FiledUnder is the subject token that it is filed under, where it was listed.
	FiledUnder string `json:"-"`
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
	l := &Letter{
		OrderNo: r.OrderNo, Outcome: r.Outcome(), Reason: r.Reason, Error: r.Error,
		Verdict: r.Verdict, Status: r.Status, Response: r.Response,
		History: r.History, Trail: trail,
		IntentID: r.IntentID, BodyHash: r.BodyHash, Batch: r.Batch, Source: r.Source, Worker: r.Worker,
		EnqueuedAt: r.EnqueuedAt, FiledAt: r.SettledAt,
		Subject: d.msg.Subject, Headers: boundedHeaders(d.msg.Header),
		Body: d.Intent.Body,
	}
	l.carryOn(d.msg.Header)
	return l
}

// boundedHeaders keeps the intent's headers as data, as many as fit.
func boundedHeaders(h nats.Header) map[string][]string {
	out := make(map[string][]string, len(h))
	size := 0
	for _, k := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[k] {
			size += len(k) + len(v)
		}
		if size > maxHeaderBytes {
			break
		}
		out[k] = h[k]
	}
	return out
}

// rawHeader is a header that JSON cannot carry as text.
type rawHeader struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

// pack moves what is not UTF-8 to where JSON keeps it byte for byte.
func (l *Letter) pack() {
	if !utf8.ValidString(l.Subject) {
		l.RawSubject = []byte(l.Subject)
	}
	l.Headers = maps.Clone(l.Headers)
	for k, vs := range l.Headers {
		if slices.ContainsFunc(append([]string{k}, vs...), func(s string) bool { return !utf8.ValidString(s) }) {
			for _, v := range vs {
				l.RawHeaders = append(l.RawHeaders, rawHeader{[]byte(k), []byte(v)})
			}
			delete(l.Headers, k)
		}
	}
}

func (l *Letter) unpack() {
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

// errLapsed: the claim is over, and the letter its new owner's to file.
var errLapsed = errors.New("the claim on the order is over")

// fileLetter stores the letter of a delivery unless one about the same intent
// lies there already. A letter that it replaces is carried on in its history.
//
// It returns errLapsed, and stores nothing, once the claim is over: meanwhile
// the order may have been found to be accepted, its letter removed and its
// intent acknowledged, and nobody would remove one that comes after that.
func (q *Queue) fileLetter(ctx context.Context, d *Delivery, l *Letter) error {
	own, token := l.Earlier, d.token
	var have *Letter
	for {
		if !d.lease.Valid() {
			return errLapsed
		}
		var expect uint64
		if have != nil {
			if have.IntentID == l.IntentID {
				return nil
			}
			expect = have.Seq
			l.Earlier = own // what an earlier round inherited may have gone
			l.inheritFrom(have)
		}
		err := q.store.PutLetter(ctx, token, l, expect)
		if err == nil {
			q.filed[l.Outcome].Add(1)
		}
		switch {
		case err == nil && have != nil && have.Tail != "" && have.Tail != l.Tail:
			return q.purgeTail(ctx, token, have)
		case err == nil || errors.Is(err, ErrStorage) || ctx.Err() != nil:
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

// PutLetter stores the letter, and before it what does not fit into one
// message: under the hash of its bytes, so that it can be written twice, and
// cannot be taken for another letter's.
func (s jetStore) PutLetter(ctx context.Context, token string, l *Letter, expect uint64) error {
	q := s.q
	head := l.Body
	if limit := max(0, q.nc.MaxPayload()-letterReserve); int64(len(head)) > limit {
		rest := head[limit:]
		head = head[:limit]
		l.Tail = tailHash(rest)
		tail := nats.NewMsg(q.tailSubject(token, l.Tail))
		tail.Data = rest
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

func (q *Queue) tailSubject(token, hash string) string { return q.n.deadPre + token + ".tail." + hash }

func tailHash(rest []byte) string {
	sum := sha256.Sum256(rest)
	return hex.EncodeToString(sum[:])
}

// letterHeader is the letter as one header value. What is large in it gives
// way before it exceeds its reserve: long texts, the earlier letters, the
// attempts, and at last the headers.
func letterHeader(l *Letter) (string, error) {
	fit := *l
	fit.pack()
	for limit := 4096; ; {
		data, err := json.Marshal(&fit)
		if err != nil {
			return "", fmt.Errorf("dead letter of %s: %w", l.OrderNo, err)
		}
		switch {
		case len(data) <= letterReserve-4096:
			return string(data), nil
		case len(fit.Response) > limit || len(fit.Error) > limit || len(fit.Reason) > limit:
			fit.Response, fit.Error, fit.Reason = cut(fit.Response, limit), cut(fit.Error, limit), cut(fit.Reason, limit)
		case len(fit.Earlier) > 0:
			fit.Earlier = fit.Earlier[:len(fit.Earlier)-1]
		case len(fit.Trail) > 1:
			fit.Trail = fit.Trail[len(fit.Trail)/2:]
		case len(fit.Headers) > 0:
			fit.Headers, fit.RawHeaders = nil, nil
		case limit > 1:
			limit /= 2
			fit.OrderNo, fit.Subject, fit.RawSubject = cut(fit.OrderNo, limit), cut(fit.Subject, limit), nil
		default:
			return "", fmt.Errorf("dead letter of %s: its particulars have %d bytes", cut(l.OrderNo, 256), len(data))
		}
	}
}

// cut shortens a text to n bytes at most, and not within a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Letter reads the dead letter of an order_no; nil where there is none.
func (q *Queue) Letter(ctx context.Context, orderNo string) (*Letter, error) {
	return q.store.Letter(ctx, fileToken(order.Token(orderNo)))
}

func (s jetStore) Letter(ctx context.Context, token string) (*Letter, error) {
	q := s.q
	raw, err := q.lastMsg(ctx, q.n.dead, q.n.deadPre+token)
	if err != nil || raw == nil {
		return nil, err
	}
	l, err := decodeLetter(raw)
	if err != nil || l.Tail == "" {
		return l, err
	}
	tail, err := q.lastMsg(ctx, q.n.dead, q.tailSubject(token, l.Tail))
	if err != nil {
		return nil, err
	}
	if tail == nil || tailHash(tail.Data) != l.Tail {
		return nil, fmt.Errorf("%w: dead-letter stream, sequence %d: the rest of its body is missing", errLetter, raw.Seq)
	}
	l.Body = append(l.Body, tail.Data...)
	return l, nil
}

// errLetter: what lies in the dead-letter stream cannot be read.
var errLetter = errors.New("not a dead letter of orderpost")

func decodeLetter(raw *rawMsg) (*Letter, error) {
	var l Letter
	if err := json.Unmarshal([]byte(raw.Header.Get(headerLetter)), &l); err != nil {
		return nil, fmt.Errorf("%w: dead-letter stream, sequence %d: %w", errLetter, raw.Seq, err)
	}
	l.unpack()
	l.Body, l.Seq = raw.Data, raw.Seq
	return &l, nil
}

func (q *Queue) rereadLetter(ctx context.Context, token string) (*Letter, error) {
	for {
		l, err := q.store.Letter(ctx, token)
		if err == nil || errors.Is(err, errLetter) || errors.Is(err, ErrUnreachable) {
			return l, err
		}
		if q.time.Sleep(ctx, rereadPause) != nil {
			return nil, fmt.Errorf("dead letters out of reach: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// removeLetter deletes the letter of an order that turned out to be accepted,
// by its sequence, so that a newer one is not hit. A conflict's letter stays. It
// goes on through a broker out of reach until ctx ends: the message may be gone,
// so that nobody would come back to the letter.
func (q *Queue) removeLetter(ctx context.Context, token string) error {
	for {
		l, err := q.rereadLetter(ctx, token)
		if err != nil || l == nil || l.Conflict {
			return err
		}
		err = q.store.DeleteLetter(ctx, token, l)
		var refused *jetstream.APIError
		if err == nil || errors.As(err, &refused) || errors.Is(err, ErrUnreachable) || q.time.Sleep(ctx, rereadPause) != nil {
			return err
		}
	}
}

func (s jetStore) DeleteLetter(ctx context.Context, token string, l *Letter) error {
	q := s.q
	if err := q.deleteMsg(ctx, q.n.dead, l.Seq); err != nil {
		// The same error says that it is gone already, which is as good.
		if still, readErr := q.msgAt(ctx, q.n.dead, l.Seq); readErr != nil || still != nil {
			return fmt.Errorf("dead letter of %s cannot be removed: %w", l.OrderNo, err)
		}
	}
	if l.Tail != "" {
		return q.purgeTail(ctx, token, l)
	}
	return nil
}

// purgeTail removes the second part of a letter's body. What a crash leaves of
// it is never read.
func (q *Queue) purgeTail(ctx context.Context, token string, l *Letter) error {
	err := q.purge(ctx, q.n.dead, q.tailSubject(token, l.Tail))
	if err != nil {
		return fmt.Errorf("dead letter of %s: the rest of its body cannot be removed: %w", l.OrderNo, err)
	}
	return nil
}
