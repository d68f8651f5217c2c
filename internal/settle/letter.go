package settle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"orderpost/internal/order"
)

// LetterReserve is what a letter's header may take of the broker's max_payload
// beside the original bytes, in bytes. Bodies that leave less are refused at
// intake; of foreign ones the tail is stored apart.
const LetterReserve = 64 << 10

// Bounds of what a letter keeps beside the body.
const (
	maxTrail       = 50
	maxEarlier     = 10
	maxHeaderBytes = 16 << 10
)

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
	// Trail lists the attempts of the last submission, oldest first, at most 50.
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
	RawHeaders []RawHeader `json:"raw_headers,omitempty"`

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
func boundedHeaders(h Header) map[string][]string {
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

// RawHeader is a header that JSON cannot carry as text.
type RawHeader struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

// errLapsed: the claim is over, and the letter its new owner's to file.
var errLapsed = errors.New("the claim on the order is over")

// fileLetter stores the letter of a delivery unless one about the same intent
// lies there already that says no less. A letter that it replaces is carried on
// in its history.
//
// It returns errLapsed, and stores nothing, once the claim is over: meanwhile
// the order may have been found to be accepted, its letter removed and its
// intent acknowledged, and nobody would remove one that comes after that.
func (q *Protocol) fileLetter(ctx context.Context, d *Delivery, l *Letter) error {
	own, token := l.Earlier, d.token
	var have *Letter
	for {
		if !d.lease.Valid() {
			return errLapsed
		}
		if have != nil {
			if have.IntentID == l.IntentID && !l.raises(have) {
				return nil
			}
			l.Earlier = own // what an earlier round inherited may have gone
			l.inheritFrom(have)
		}
		err := q.store.PutLetter(ctx, token, l, have)
		if err == nil {
			q.filed[l.Outcome].Add(1)
		}
		switch {
		case err == nil || errors.Is(err, ErrStorage) || ctx.Err() != nil:
			return err
		}
		if have, err = q.rereadLetter(ctx, token); err != nil {
			return err
		}
	}
}

// raises: the letter of the same intent says that the order was not created, and
// since then the result was raised to unknown (R1).
func (l *Letter) raises(have *Letter) bool {
	return l.Outcome == order.OutcomeUnknown && have.Outcome != order.OutcomeUnknown && !have.Conflict
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

// ErrNotALetter: what lies in the dead-letter stream cannot be read.
var ErrNotALetter = errors.New("not a dead letter of orderpost")

// Letter reads the dead letter of an order_no; nil where there is none.
func (q *Protocol) Letter(ctx context.Context, orderNo string) (*Letter, error) {
	return q.store.Letter(ctx, FileToken(order.Token(orderNo)))
}

func (q *Protocol) rereadLetter(ctx context.Context, token string) (*Letter, error) {
	for {
		l, err := q.store.Letter(ctx, token)
		if err == nil || errors.Is(err, ErrNotALetter) || errors.Is(err, ErrUnreachable) {
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
func (q *Protocol) removeLetter(ctx context.Context, token string) error {
	for {
		l, err := q.rereadLetter(ctx, token)
		if err != nil || l == nil || l.Conflict {
			return err
		}
		err = q.store.DeleteLetter(ctx, token, l)
		if err == nil || errors.Is(err, ErrRefused) || errors.Is(err, ErrUnreachable) || q.time.Sleep(ctx, rereadPause) != nil {
			return err
		}
	}
}

// Token is what the letter is filed under.
func (l *Letter) Token() string {
	if l.FiledUnder != "" {
		return l.FiledUnder
	}
	return FileToken(order.Token(l.OrderNo))
}

// letterAgain reads a listed letter at the leader, its tail included; nil where
// it is gone, or another one has taken its place.
func (q *Protocol) letterAgain(ctx context.Context, listed *Letter) (*Letter, error) {
	l, err := q.store.Letter(ctx, listed.Token())
	if err != nil || l == nil || l.Seq != listed.Seq {
		return nil, err
	}
	l.FiledUnder = listed.Token()
	return l, nil
}

// WholeBody is the letter's body with the tail that was stored apart.
func (q *Protocol) WholeBody(ctx context.Context, l *Letter) ([]byte, error) {
	if l.Tail == "" {
		return l.Body, nil
	}
	whole, err := q.letterAgain(ctx, l)
	if err != nil {
		return nil, err
	}
	if whole == nil {
		return nil, fmt.Errorf("dead letter of %s: gone meanwhile", l.OrderNo)
	}
	return whole.Body, nil
}
