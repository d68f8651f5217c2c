package settle

import (
	"context"
	"time"

	"orderpost/internal/order"
)

// Store is the broker as the settle protocol sees it. Package queue implements
// it with JetStream, package simulation with a model in simulated time. Package
// storecontract has the tests that both pass.
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

	// Letter reads the dead letter under a token, nil if there is none. Error:
	// ErrNotALetter.
	Letter(ctx context.Context, token string) (*Letter, error)
	// PutLetter stores l if the stored letter is still replaces (nil = none),
	// and removes what l does not need of that one. Errors: those of PutRecord.
	PutLetter(ctx context.Context, token string, l, replaces *Letter) error
	// DeleteLetter removes the letter with sequence l.Seq and no other. It is
	// no error if that letter is gone. Error: ErrRefused.
	DeleteLetter(ctx context.Context, token string, l *Letter) error

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
	// IntentAfter reads the first stored intent from a sequence on, nil if there is
	// none.
	IntentAfter(ctx context.Context, seq uint64) (*Message, error)
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

	// StreamCreated returns when the broker created the intents stream.
	StreamCreated(ctx context.Context) (time.Time, error)
	// HighWaterMark and PutHighWaterMark read and write a delivered high-water
	// mark (highwater.go). expect is as in PutRecord.
	HighWaterMark(ctx context.Context, key string) (m HighWaterMark, seq uint64, err error)
	PutHighWaterMark(ctx context.Context, key string, m HighWaterMark, expect uint64) (uint64, error)

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

// Progress is how far the workers are, as far as the broker remembers.
type Progress struct {
	// Floor is the sequence up to which every intent was acknowledged or removed.
	Floor uint64
	// Delivered is the highest sequence that was delivered.
	Delivered uint64
	// NoneHeld says that no delivery waits for its acknowledgement: the broker delivers
	// nothing up to Delivered again.
	NoneHeld bool
	// Leader names who counts: with replicas, the consumer's leader, and since when. Another
	// one may have forgotten what was held.
	Leader string
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

// Published is the broker's answer to a publish.
type Published struct {
	Status PublishStatus
	// Seq is the sequence of the original for AlreadyKnown. For Stored it may be 0:
	// JetStream confirms a batch as a whole.
	Seq uint64
	// Err is set if the intent is not known to be stored.
	Err error
}

// Message is a stored message.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  Header
	Data    []byte
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
