package settle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"orderpost/internal/order"
)

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
	// Withdrawn: a person cancelled it. It has its outcome, and leaves the waiting room.
	Withdrawn
	// MovedBefore: the intents stream had the intent, by a feeder that was cut
	// off before it removed the intent from the waiting room. That is done now.
	MovedBefore
	// MoveBlocked: another intent of the order_no is pending, or its record
	// cannot be read by this version, or the time in its header has not come. The
	// intent waits until that is over.
	MoveBlocked
)

var moveNames = [...]string{"later", "moved", "withdrawn", "moved-before", "blocked"}

// String returns the word used in logs.
func (m Move) String() string { return moveNames[m] }

// Leaves reports whether the intent leaves the waiting room.
func (m Move) Leaves() bool { return m == Moved || m == Withdrawn || m == MovedBefore }

// waitingIntent is one intent on its way from the waiting room.
type waitingIntent struct {
	at      uint64 // its sequence in the waiting room
	from    string // its subject there
	orderNo string
	id      string
	hash    *string // of the body, once something asked for it
	// ahead is how far its own time is ahead. A producer may name a time in the header
	// alone.
	ahead time.Duration
	// storedAt is when the waiting room stored it.
	storedAt time.Time
	msg      *Message      // for the intents stream
	mark     *Cancellation // that covers it; nil = none does
	end      Move
}

// withdrawing is a waiting intent that a person cancelled, with the last word on its
// order_no.
type withdrawing struct {
	*waitingIntent
	last LastWord
}

// WaitingGroup is what a feeder has read of one subject of the waiting room, in its
// order.
type WaitingGroup struct {
	Messages []*Message
	// Birth is that of the waiting room, as the feeder knew it before it read.
	Birth int64
	// Whole says that all that is stored of the subject up to the last of the messages
	// is among them, but for what was moved. They may then leave in one purge (R13).
	Whole bool
}

// waitingGroup is a WaitingGroup on its way.
type waitingGroup struct {
	intents []*waitingIntent
	whole   bool
}

// Mover moves intents out of the waiting room, or withdraws them there (R13, R15).
type Mover struct {
	ledger *Ledger

	failed atomic.Pointer[time.Time] // when a move's publish failed last; nil = never
}

// Move moves waiting intents into the intents stream, in their order (R13). It
// returns what became of each, group after group. The error is the first reason why
// an intent could not be moved or removed; the ends are valid nevertheless.
//
// Each intent keeps its own ID, so a move that was cut off anywhere, or that two
// feeders make at once, stores it once. Move removes an intent from the waiting
// room only when the intents stream has it, or its record names it. It withdraws what a
// person cancelled instead (cancel.go). A worker judges the deadline. End ctx when another feeder may take over.
func (mv *Mover) Move(ctx context.Context, waiting ...WaitingGroup) (ends []Move, err error) {
	connection := mv.ledger.link()
	groups := make([]waitingGroup, len(waiting))
	for i, g := range waiting {
		groups[i].whole = g.Whole
		for _, m := range g.Messages {
			groups[i].intents = append(groups[i].intents, mv.leaveWaiting(m, g.Birth))
		}
	}
	if err = mv.sameRoom(ctx, waiting); err == nil {
		err = mv.move(ctx, groups, connection)
	}
	for _, g := range groups {
		for _, in := range g.intents {
			ends = append(ends, in.end)
		}
	}
	return ends, err
}

// errOtherRoom means that the sequences that were read mean other intents by now, or none.
var errOtherRoom = errors.New("the waiting room was made again; what waits is read anew")

// sameRoom returns errOtherRoom if groups were read before the waiting room was made again.
func (mv *Mover) sameRoom(ctx context.Context, groups []WaitingGroup) error {
	birth, err := mv.ledger.store.WaitingBirth(ctx)
	if err == nil && slices.ContainsFunc(groups, func(g WaitingGroup) bool { return g.Birth != birth }) {
		err = errOtherRoom
	}
	return err
}

// errOtherConnection means that the broker may be another run of itself, which
// forgot what it stored a moment ago.
var errOtherConnection = errors.New("the connection to the broker was lost during a move")

func (mv *Mover) move(ctx context.Context, groups []waitingGroup, connection link) error {
	var intents []*waitingIntent
	var tokens []string
	for _, g := range groups {
		for _, in := range g.intents {
			intents, tokens = append(intents, in), append(tokens, FileToken(order.Token(in.orderNo)))
		}
	}
	words, err := mv.ledger.readLastWords(ctx, tokens)
	if err != nil {
		return err
	}
	var open []*waitingIntent
	var cancelled []*withdrawing
	for i, in := range intents {
		if words[i].Unreadable == nil {
			in.ownID(words[i].Record)
		}
		switch {
		case in.mark != nil:
			cancelled = append(cancelled, &withdrawing{in, words[i]})
		case in.ahead > 0: // in the intents stream it would take a worker's place until then (R9)
			in.end = MoveBlocked
		case words[i].Unreadable != nil:
			in.end = MoveBlocked
		case words[i].Record != nil && words[i].Record.Knows(in.id, in.bodyHash()):
			in.end = MovedBefore
		default:
			open = append(open, in)
		}
	}
	may := func() error {
		if mv.ledger.link() != connection {
			return errOtherConnection
		}
		return ctx.Err()
	}
	err = mv.withdraw(ctx, cancelled, may)
	if failed := mv.publishWaiting(ctx, open, may); failed != nil {
		if !errors.Is(failed, ErrFull) { // that the stream is full, it says itself
			now := mv.ledger.time.Now()
			mv.failed.Store(&now)
		}
		err = errors.Join(err, failed)
	}
	return errors.Join(err, mv.removeMoved(ctx, groups))
}

// moveEnds is how long the publish of a move that failed may be on its way.
const moveEnds = RequestTimeout

// MoveUnderWay reports whether a publish of this process may be on its way to the intents
// stream, because a move failed a moment ago.
func (mv *Mover) MoveUnderWay() bool {
	at := mv.failed.Load()
	return at != nil && mv.ledger.time.Now().Sub(*at) < moveEnds
}

// publishWaiting publishes intents and sets their ends. It asks may before it sends
// anything.
func (mv *Mover) publishWaiting(ctx context.Context, open []*waitingIntent, may func() error) error {
	if err := may(); err != nil || len(open) == 0 {
		return err
	}
	msgs := make([]*Message, len(open))
	for i, in := range open {
		msgs[i] = in.msg
	}
	var errs []error
	for i, p := range mv.ledger.store.PublishIntents(ctx, msgs, may) {
		var err error
		if open[i].end, err = mv.whereMoved(ctx, open[i], p); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errs[0] // the others usually say the same
	}
	return nil
}

// leaveWaiting returns the intent that a message of the waiting room of this birth becomes.
func (mv *Mover) leaveWaiting(m *Message, birth int64) *waitingIntent {
	place := StreamSeq{m.Seq, birth}
	in := &waitingIntent{at: m.Seq, from: m.Subject, storedAt: m.Time, orderNo: WaitingOrderNo(m), id: m.IntentID()}
	in.msg = &Message{Subject: mv.ledger.cfg.IntentSubjects + order.Token(in.orderNo), Header: make(Header, len(m.Header)+1), Data: m.Data}
	for name, values := range m.Header { // a live Nats-* header, such as a batch's, would act again
		if !strings.HasPrefix(name, "Nats-") {
			in.msg.Header[name] = values
		}
	}
	now := mv.ledger.time.Now()
	if at, ok := namedTime(m, now); ok {
		in.ahead = at.Sub(now)
	} else if odd := mv.oddTime(m, now); odd != "" { // the worker refuses it
		in.msg.Header.Set(HeaderNotBefore, "subject at."+odd)
	}
	_, token, _ := SplitWaiting(strings.TrimPrefix(m.Subject, mv.ledger.cfg.WaitingSubjects))
	in.mark = mv.ledger.cancelled.load().find(token, in.orderNo, StreamSeq{}, place)
	in.msg.Header.Set(HeaderIntentID, in.id)
	in.msg.Header.Set(HeaderWaited, place.String())
	return in
}

// ownID gives the intent another ID if the record tells that the one with its ID had another body: a
// producer used the ID of somebody else's intent, and came first. The worker judges both (R6). The
// new ID is the same for each feeder.
func (in *waitingIntent) ownID(r *order.Record) {
	if r == nil {
		return
	}
	if r.Knows(in.other(), in.bodyHash()) || r.OtherBody(in.id, in.bodyHash()) {
		in.id = in.other()
		in.msg.Header.Set(HeaderIntentID, in.id)
	}
}

// bodyHash returns the hash of the body; "" = it can never be sent.
func (in *waitingIntent) bodyHash() string {
	if in.hash == nil {
		in.hash = new(bodyHashOf(in.msg.Data))
	}
	return *in.hash
}

// other returns the ID under which the intent is moved if its own is another body's.
func (in *waitingIntent) other() string {
	return IntentID(order.BodyID(in.id, in.bodyHash()), 0, time.Time{})
}

// isStoredAs reports whether a stored intent (nil = none) is this one.
func (in *waitingIntent) isStoredAs(m *Message) bool {
	return m != nil && (m.IntentID() == in.id || m.IntentID() == in.other()) && bodyHashOf(m.Data) == in.bodyHash()
}

// namedTime returns the time in the header of a waiting message; most have none.
func namedTime(m *Message, now time.Time) (at time.Time, ok bool) {
	text := m.Header.Get(HeaderNotBefore)
	if text == "" {
		return at, false
	}
	at, err := order.ParseNotBefore(text, now)
	return at, err == nil
}

// oddTime returns the time in a waiting subject that WaitingTime cannot read; "" = none.
func (mv *Mover) oddTime(m *Message, now time.Time) string {
	_, _, text := SplitWaiting(strings.TrimPrefix(m.Subject, mv.ledger.cfg.WaitingSubjects))
	if _, ok := WaitingTime(text, now); ok {
		return ""
	}
	return text
}

// whereMoved judges the broker's answer to the publish of a waiting intent. An
// answer that says "not stored" proves nothing by itself (R6).
func (mv *Mover) whereMoved(ctx context.Context, in *waitingIntent, p Published) (Move, error) {
	switch {
	case p.Err != nil:
		return MoveLater, p.Err
	case p.Status == Stored:
		return Moved, nil
	case p.Status == AlreadyKnown:
		return mv.knownBefore(ctx, in, p.Seq)
	}
	pending, err := mv.ledger.store.Intent(ctx, in.orderNo)
	switch {
	case err != nil || pending == nil: // it went away in between
		return MoveLater, err
	case in.isStoredAs(pending):
		return MovedBefore, nil
	default:
		return MoveBlocked, nil
	}
}

// knownBefore judges an intent that the broker calls a duplicate of the one at
// seq. If that one is gone and the record does not name it, somebody used the ID
// for another order or removed the intent. The broker takes the intent when its
// duplicate window is over.
func (mv *Mover) knownBefore(ctx context.Context, in *waitingIntent, seq uint64) (Move, error) {
	original, err := mv.ledger.store.IntentAt(ctx, seq)
	if err != nil {
		return MoveLater, err
	}
	if original != nil {
		if original.Subject == in.msg.Subject && in.isStoredAs(original) {
			return MovedBefore, nil
		}
		return MoveBlocked, nil
	}
	entry, err := mv.ledger.store.Record(ctx, FileToken(order.Token(in.orderNo)))
	switch {
	case errors.Is(err, ErrUnreadable):
		return MoveBlocked, nil
	case err != nil:
		return MoveLater, err
	case entry.Record.Knows(in.id, in.bodyHash()):
		return MovedBefore, nil
	default:
		return MoveBlocked, nil
	}
}

// moved returns the intents that may leave the waiting room, and how many of them one
// purge of their subject takes: those before the first that stays. A subject that is
// not plain means others, too, as a filter: a producer may publish under
// "orders.waiting.bulk.*".
func (g *waitingGroup) moved() (gone []*waitingIntent, purged int) {
	together := g.whole && PlainSubject(g.intents[0].from)
	for _, in := range g.intents {
		if !in.end.Leaves() || in.from != g.intents[0].from {
			together = false
		}
		if in.end.Leaves() {
			gone = append(gone, in)
		}
		if together {
			purged = len(gone)
		}
	}
	return gone, purged
}

// removeMoved removes moved intents from the waiting room: those before the first that
// stays in one purge, which costs the broker one fsync and not one for each. What stays
// there because the removal failed is recognised by the next move. A removal that is
// late, from a feeder whose term is over, is true all the same: it takes what was moved.
func (mv *Mover) removeMoved(ctx context.Context, groups []waitingGroup) error {
	var singly []*waitingIntent
	var errs []error
	for _, g := range groups {
		gone, purged := g.moved()
		if purged > 1 {
			errs = append(errs, mv.ledger.store.PurgeWaiting(ctx, gone[0].from, gone[purged-1].at))
			gone = gone[purged:]
		}
		singly = append(singly, gone...)
	}
	return errors.Join(append(errs, mv.removeSingly(ctx, singly))...)
}

// removeSingly removes intents from the waiting room by their sequences.
func (mv *Mover) removeSingly(ctx context.Context, gone []*waitingIntent) error {
	return mv.ledger.eachRemoval(len(gone), func(i int) error { return mv.ledger.store.DeleteWaiting(ctx, gone[i].at) })
}
