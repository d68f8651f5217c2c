package settle

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
)

// HeaderWaited marks an intent that came out of the waiting room. Its value is
// the sequence that the intent had there.
const HeaderWaited = "Order-Waited"

// Move says what became of one waiting intent that was to be moved (R13).
type Move uint8

// The ends of a move. The intent stays in the waiting room after MoveLater, and
// after MoveBlocked.
const (
	// MoveLater: it is not known whether the intents stream has the intent, or
	// it took nothing. Look again.
	MoveLater Move = iota
	// Moved: the intent is in the intents stream, and leaves the waiting room.
	Moved
	// MovedBefore: the intents stream had the intent, by a feeder that was cut
	// off before it removed the intent from the waiting room. That is done now.
	MovedBefore
	// MoveBlocked: another intent of the order_no is pending, or its record
	// cannot be read by this version, or the time in its header has not come. The
	// intent waits until that is over.
	MoveBlocked
)

var moveNames = [...]string{"later", "moved", "moved-before", "blocked"}

// String returns the word used in logs.
func (m Move) String() string { return moveNames[m] }

// waitingIntent is one intent on its way from the waiting room.
type waitingIntent struct {
	at uint64 // its sequence in the waiting room
	// answer acknowledges it there; nil = it was read, and is deleted by its sequence.
	answer    Answer
	delivered uint64
	orderNo   string
	id        string
	// ahead is how far its own time is ahead. A producer may name a time in the header
	// alone.
	ahead time.Duration
	// storedAt is when the waiting room stored it.
	storedAt time.Time
	msg      *Message // for the intents stream
	end      Move
}

// Move moves waiting intents into the intents stream, in their order (R13). It
// returns what became of each. The error is the first reason why an intent could
// not be moved or removed; the ends are valid nevertheless.
//
// Each intent keeps its own ID, so a move that was cut off anywhere, or that two
// feeders make at once, stores it once. Move removes an intent from the waiting
// room only when the intents stream has it, or its record names it. It acknowledges
// an intent that was pulled, and deletes one that was read (Answer nil) by its
// sequence. End ctx when another feeder may take over.
func (q *Protocol) Move(ctx context.Context, waiting []Arrival) ([]Move, error) {
	connection := q.link()
	intents := make([]*waitingIntent, len(waiting))
	tokens := make([]string, len(waiting))
	for i, m := range waiting {
		intents[i] = q.leaveWaiting(m.Message)
		intents[i].answer, intents[i].delivered = m.Answer, m.Delivered
		tokens[i] = FileToken(order.Token(intents[i].orderNo))
	}
	err := errors.Join(q.move(ctx, intents, tokens, connection), q.giveBackWaiting(intents))
	ends := make([]Move, len(intents))
	for i, in := range intents {
		ends[i] = in.end
	}
	return ends, err
}

// errOtherConnection means that the broker may be another run of itself, which
// forgot what it stored a moment ago.
var errOtherConnection = errors.New("the connection to the broker was lost during a move")

func (q *Protocol) move(ctx context.Context, intents []*waitingIntent, tokens []string, connection link) error {
	if q.mutated(RemoveBeforeMove) {
		if err := q.removeWaiting(ctx, intents); err != nil {
			return err
		}
	}
	words, err := q.readLastWords(ctx, tokens)
	if err != nil {
		return err
	}
	var open []*waitingIntent
	for i, in := range intents {
		switch {
		case in.ahead > 0: // in the intents stream it would take a worker's place until then (R9)
			in.end = MoveBlocked
		case q.mutated(NoMoveCheck):
			open = append(open, in)
		case words[i].Unreadable != nil:
			in.end = MoveBlocked
		case words[i].Record.Knows(in.id):
			in.end = MovedBefore
		default:
			open = append(open, in)
		}
	}
	err = q.publishWaiting(ctx, open, func() error {
		if q.link() != connection {
			return errOtherConnection
		}
		return ctx.Err()
	})
	var gone []*waitingIntent
	for _, in := range intents {
		if in.end == Moved || in.end == MovedBefore {
			gone = append(gone, in)
		}
	}
	return errors.Join(err, q.removeWaiting(ctx, gone))
}

// publishWaiting publishes intents and sets their ends. It asks may before it sends
// anything.
func (q *Protocol) publishWaiting(ctx context.Context, open []*waitingIntent, may func() error) error {
	if err := may(); err != nil || len(open) == 0 {
		return err
	}
	msgs := make([]*Message, len(open))
	for i, in := range open {
		msgs[i] = in.msg
	}
	var errs []error
	for i, p := range q.store.PublishIntents(ctx, msgs, may) {
		var err error
		if open[i].end, err = q.whereMoved(ctx, open[i], p); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errs[0] // the others usually say the same
	}
	return nil
}

// leaveWaiting returns the intent that a waiting message becomes.
func (q *Protocol) leaveWaiting(m *Message) *waitingIntent {
	in := &waitingIntent{at: m.Seq, storedAt: m.Time, orderNo: WaitingOrderNo(m), id: m.IntentID()}
	in.msg = &Message{Subject: q.cfg.IntentSubjects + order.Token(in.orderNo), Header: make(Header, len(m.Header)+1), Data: m.Data}
	for name, values := range m.Header { // a live Nats-* header, such as a batch's, would act again
		if !strings.HasPrefix(name, "Nats-") {
			in.msg.Header[name] = values
		}
	}
	now := q.time.Now()
	if at, err := order.ParseNotBefore(m.Header.Get(HeaderNotBefore), now); err == nil {
		in.ahead = at.Sub(now)
	} else if odd := q.oddTime(m, now); odd != "" { // the worker refuses it
		in.msg.Header.Set(HeaderNotBefore, "subject at."+odd)
	}
	in.msg.Header.Set(HeaderIntentID, in.id)
	in.msg.Header.Set(HeaderWaited, strconv.FormatUint(m.Seq, 10))
	return in
}

// WaitingOrderNo returns the order number of a waiting message. The subject does
// not name it. A body that can never be sent goes to the workers all the same,
// who settle it as invalid: under its order_no if that can be read, otherwise
// under its sequence.
func WaitingOrderNo(m *Message) string {
	if parsed, err := order.Parse(m.Data); err == nil {
		return parsed.OrderNo()
	}
	var named struct {
		OrderNo string `json:"order_no"`
	}
	if json.Unmarshal(m.Data, &named) == nil && named.OrderNo != "" && len(named.OrderNo) <= order.MaxOrderNo {
		return named.OrderNo
	}
	return "waiting-" + strconv.FormatUint(m.Seq, 10)
}
