package settle

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
)

// Store is the broker as the settle protocol sees it. Package queue implements
// it with JetStream, package simulation with a model in simulated time. Package
// internal/testing/storecontract has the tests that both pass.
//
// Unless a method says otherwise, an error means that the broker did not
// answer, and that a write may have happened. Reads go to the streams' leaders,
// except Records.
type Store interface {
	// Record reads the record under a token. Entry.Record is nil only if there
	// is none. Error: ErrUnreadable.
	Record(ctx context.Context, token string) (Entry, error)
	// Records reads up to a thousand records at once and passes each to found.
	// An unreadable one comes with its ErrUnreadable and its Seq. One replica
	// answers for all of them as of one moment, and it may lag behind the
	// leader. Records returns an error, which may be found's own, if the answer
	// was not complete.
	Records(ctx context.Context, tokens []string, found func(i int, e Entry, err error) error) error
	// Barrier asks the leader for the last record of the whole stream.
	Barrier(ctx context.Context) (Barrier, error)
	// PutRecord writes r if the last sequence under token is expect (0 =
	// absent). Errors: ErrStale, ErrStorage.
	PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error)

	// Letter reads the dead letter with a sequence, nil if there is none under the token.
	Letter(ctx context.Context, token string, seq uint64) (*Letter, error)
	// PutLetter stores l beside the letters that are stored under the token, and returns its sequence.
	// Error: ErrStorage.
	PutLetter(ctx context.Context, token string, l *Letter) (seq uint64, err error)
	// DeleteLetter removes the letter with a sequence, if it is one under the token, and no other. It is
	// no error if that letter is gone. Error: ErrRefused.
	DeleteLetter(ctx context.Context, token string, seq uint64) error
	// LettersFrom returns the first dead letters from a sequence on, at most a number of them. A replica that
	// lags may lack later ones.
	LettersFrom(ctx context.Context, seq uint64, most int) ([]LetterRef, error)
	// LastLetter returns the sequence of the letter that was stored last, or a later one.
	LastLetter(ctx context.Context) (uint64, error)

	// Intent and IntentAt read a stored intent by its order_no or its sequence,
	// nil if there is none.
	Intent(ctx context.Context, orderNo string) (*Message, error)
	IntentAt(ctx context.Context, seq uint64) (*Message, error)
	// Intents is Intent for at most a thousand order numbers.
	Intents(ctx context.Context, orderNos []string) ([]*Message, error)
	// PublishIntent stores an intent. It uses m's Subject, Header and Data. seq
	// is the intent's sequence, or for AlreadyKnown the sequence of the
	// original.
	PublishIntent(ctx context.Context, m *Message) (p PublishStatus, seq uint64, err error)
	// PublishIntents is PublishIntent for several intents, in their order. It
	// returns an answer for each. It calls may directly before it sends
	// anything; an error means that nothing more may be sent.
	PublishIntents(ctx context.Context, ms []*Message, may func() error) []Published
	// DeleteIntent removes an intent that is settled. It is no error
	// if the intent is gone.
	DeleteIntent(ctx context.Context, seq uint64) error
	// IntentsFrom reads the first stored intents from a sequence on, at most a number of them. No
	// other one is stored from there to the last of them. A replica that lags may lack later ones.
	IntentsFrom(ctx context.Context, seq uint64, most int) ([]*Message, error)
	// Progress returns how far the workers are, zero if there is no consumer.
	Progress(ctx context.Context) (Progress, error)
	// PurgeIntents removes the intents up to a sequence, and no others. What waits to
	// be delivered again may come only when its ack wait is over.
	PurgeIntents(ctx context.Context, upTo uint64) error

	// WaitingAt reads an intent in the waiting room by its sequence there, nil if
	// there is none.
	WaitingAt(ctx context.Context, seq uint64) (*Message, error)
	// DeleteWaiting removes an intent from the waiting room by its sequence
	// there. It is no error if the intent is gone.
	DeleteWaiting(ctx context.Context, seq uint64) error
	// PurgeWaiting removes the intents of one subject in the waiting room up to a
	// sequence there, and no others. The subject has no wildcard.
	PurgeWaiting(ctx context.Context, subject string, upTo uint64) error

	// WaitingBirth and ResultsBirth return the births of the waiting room and of the results.
	WaitingBirth(ctx context.Context) (int64, error)
	ResultsBirth(ctx context.Context) (int64, error)

	// Stream returns the birth of the intents stream (order.Position), and its last sequence.
	Stream(ctx context.Context) (birth int64, last uint64, err error)
	// HighWaterMark and PutHighWaterMark read and write a delivered high-water
	// mark (highwater.go). expect is as in PutRecord.
	HighWaterMark(ctx context.Context, key string) (m HighWaterMark, seq uint64, err error)
	PutHighWaterMark(ctx context.Context, key string, m HighWaterMark, expect uint64) (uint64, error)

	// ExtendIntent asks for more time for a delivery that anybody may hold, by the intent's sequence.
	// The broker does not answer. It counts the ack wait from then, also where a delay ran.
	ExtendIntent(seq uint64) error
	// Extend asks the broker for more time for a claim. The broker answers to
	// the subject answer, or not at all.
	Extend(reply, answer string) error
	// ServerID names the run of the broker that the connection leads to. A
	// broker that was killed and started again has another ID.
	ServerID() string
	// MaxPayload returns the largest message that the broker takes, in bytes.
	MaxPayload() int64
	// Replicated reports whether the streams have more than one replica or may
	// get more.
	Replicated() bool
}

// Entry is a record with its place in the results stream.
type Entry struct {
	// Record is nil if the order_no has none.
	Record *order.Record
	// Seq is the record's sequence in the results stream; 0 if there is none.
	Seq uint64
}

// LetterRef names a dead letter.
type LetterRef struct {
	// Token is the token that the letter is filed under.
	Token string
	Seq   uint64
}

// Barrier names the last record of the results stream as the stream's leader
// had it. A replica that has this record has everything that was confirmed
// before.
type Barrier struct {
	// Token is the token that the record is filed under.
	Token string
	// Seq is the record's sequence; 0 if the leader named no record.
	Seq uint64
}

// HighWaterMark is the highest sequence that was delivered in the stream that
// was born at Stream (order.Position.Birth).
type HighWaterMark struct {
	Stream int64  `json:"stream"`
	Seq    uint64 `json:"seq"`
	// Waited is the last intent of the waiting room that may have been moved and delivered since a backup was
	// made from which the streams were restored; zero = none.
	Waited StreamSeq `json:"waited,omitzero"`
}

// Progress is how far the workers are, as far as the broker remembers.
type Progress struct {
	// Floor is the sequence up to which every intent was acknowledged or removed.
	Floor uint64
	// Delivered is the highest sequence that was delivered.
	Delivered uint64
	// NoneHeld says that no delivery waits for its acknowledgement: the broker delivers
	// nothing up to Delivered again.
	NoneHeld bool
	// NoneAgain says that no intent waits to be delivered again.
	NoneAgain bool
}

// Past returns the sequence up to which the broker delivers nothing again.
func (p Progress) Past() uint64 {
	if p.NoneHeld {
		return max(p.Floor, p.Delivered)
	}
	return p.Floor
}

// PublishStatus says what became of one intent that was published.
type PublishStatus uint8

// The statuses of a published intent. PublishNone is the zero value.
const (
	PublishNone PublishStatus = iota
	// Stored: the intent is in the stream. Orderpost is responsible for it from
	// now on.
	Stored
	// AlreadyPending: another intent for this order_no is waiting or being
	// handled. This one was not stored.
	AlreadyPending
	// AlreadyKnown: an intent with this ID was stored within the broker's
	// duplicate window, and is waiting or settled. This one was not stored
	// again.
	AlreadyKnown
)

var publishNames = [...]string{"", "stored", "already-pending", "already-known"}

// String returns the word used in summaries.
func (p PublishStatus) String() string { return publishNames[p] }

// Published is the broker's answer to a publish.
type Published struct {
	Status PublishStatus
	// Seq is the sequence of the original for AlreadyKnown. For Stored it may be 0:
	// JetStream confirms a batch as a whole.
	Seq uint64
	// Err is set if the intent is not known to be stored.
	Err error
}

// ErrUnreadable means that a message of the results stream is not a record that
// this program understands. Its order can be neither posted nor settled.
var ErrUnreadable = errors.New("the last word on this order cannot be read")

// ErrNotLoaded means that the broker has a message and could not read it: its disk fails, or it
// closes the stream.
var ErrNotLoaded = errors.New("the broker has a message but could not read it")

// ErrStorage is returned if the broker refuses a result, a note or a letter
// because it has no room or its storage fails. It closes the gate (R10).
var ErrStorage = errors.New("the broker cannot store results")

// ErrStale is returned for a conditional write whose condition no longer holds:
// another write came after the writer's last read (R1).
var ErrStale = errors.New("somebody else wrote since this was read")

// ErrRefused is returned if the broker answered that it will not do what was
// asked. Asking again does not help.
var ErrRefused = errors.New("the broker refused")

// ErrFull is returned when a stream takes no more because of its
// limits or the disk. Nothing was stored. Try again later.
var ErrFull = errors.New("no room left")

// RequestTimeout bounds the wait for one answer of the broker. A request that
// takes longer has not failed. It is unconfirmed and must be looked up before
// it is repeated.
const RequestTimeout = 5 * time.Second

// Message is a stored message.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  Header
	Data    []byte
}

// position names the message as a copy of an intent. birth is that of the intents stream.
func (m *Message) position(birth int64) order.Position {
	return order.Position{EnqueuedAt: m.Time.UTC(), Seq: m.Seq, Birth: birth}
}

// Header holds a message's headers. Names are case-sensitive, as in NATS.
type Header map[string][]string

// Get returns the first value of a header, or "".
func (h Header) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Set replaces the values of a header by one value.
func (h Header) Set(name, value string) { h[name] = []string{value} }
