package oracle

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Moment is a time, counted from the beginning of the history. In JSON it is a number
// of seconds.
type Moment time.Duration

// String returns the seconds.
func (m Moment) String() string { return time.Duration(m).String() }

// MarshalJSON implements json.Marshaler.
func (m Moment) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(m).Seconds(), 'f', 9, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Moment) UnmarshalJSON(text []byte) error {
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("%q is no number of seconds", text)
	}
	*m = Moment(math.Round(seconds * 1e9))
	return nil
}

// Kind says what happened.
type Kind uint8

// Why a claim ended, or an intent left the queue, as far as the oracle must know.
const (
	ByTime = "its claim ended"
	ByKill = "the broker was killed"
	// ByLeader: the next leader of the workers' consumer knew of an earlier time than
	// its owner did.
	ByLeader = "the consumer has another leader"
	// ByClock: the clock of that leader was set ahead.
	ByClock = "the broker's clock was set"
	// ByItself: a program ended because it was done.
	ByItself = "it was done"
)

// The kinds of events.
const (
	None Kind = iota
	// Begin is the first event. It has the Settings.
	Begin
	// Published: a producer sent an intent. It may be stored.
	Published
	// Stored: the broker stored an intent, or confirmed that to its producer. Seq is
	// 0 if only the confirmation is known.
	Stored
	// Waited: the broker stored an intent in the waiting room. Seq is its place there.
	Waited
	// Left: the intent at a place left the waiting room.
	Left
	// Delivered: the broker handed an intent to a process. The event is not later
	// than the first thing that the process does about it. Without a Process nobody
	// got the delivery, but the broker believes in it.
	Delivered
	// Released: the claim of a delivery is over. Why says why, unless its own process
	// ended it.
	Released
	// HandedBack: a process gave back a delivery (NAK). Former is the claim that the
	// broker ended by that, and Paused says that the process was frozen after its
	// last look at its claim.
	HandedBack
	// Marked: a person's cancellation of an order_no was stored. Seq and Waited are the last
	// sequences that it covers, Count is its version. Heard: a process knows the
	// cancellations up to the version Count.
	Marked
	Heard
	// Acknowledged: an acknowledgement of a delivery reached the broker.
	Acknowledged
	// Extended: a process asked for more time for a claim. The request may be lost.
	Extended
	// Removed: an intent left the queue. Claim names the delivery that was
	// acknowledged; 0 = it was deleted, or nobody knows.
	Removed
	// Emptied: no intent is in the queue but those that are Stored after this.
	Emptied
	// Posted: a process sends an order. Gate is when it last passed the gate, Signed
	// when the process last looked at its claim.
	Posted
	// Arrived: a request reached the API, which Why answered.
	Arrived
	// Answered: the process knows the Verdict on an attempt.
	Answered
	// CalledBack: a refusal is not believed.
	CalledBack
	// TookDown: an order is about to end its process.
	TookDown
	// Recorded: the broker stored a Record.
	Recorded
	// Filed: the broker stored a dead letter.
	Filed
	// Unfiled: a dead letter was removed.
	Unfiled
	// Created: the API created an order.
	Created
	// Foreign: the API has an order of somebody else's under this order_no.
	Foreign
	// Started, Frozen (to Until), Reconnected and Ended are about a process.
	Started
	Frozen
	Reconnected
	Ended
	// ClockSet: a process's wall clock is ahead of the true time by Shift from now on.
	// Suspended (to Until): its machine stood still, and its monotonic clock with it.
	ClockSet
	Suspended
	// Refused: a process learned that the broker refuses a result of an order.
	// Unrefused: it learned something else about that order since, or got no answer.
	// Then it may have stored the result, or given the order up.
	Refused
	Unrefused
	// Looked: a person saw the dead letters of an order.
	Looked
	// Full and Room: the broker refuses results, and takes them again.
	Full
	Room
	// BrokerKilled and BrokerBack: the broker is gone, and runs again with what it
	// remembers: the deliveries that follow without a Process.
	BrokerKilled
	BrokerBack
	// End is the last event: nothing moves any more.
	End
)

var kindNames = [...]string{"", "begin", "published", "stored", "waited", "left", "delivered", "released", "handed-back", "marked", "heard", "acknowledged", "extended", "removed", "emptied", "posted",
	"arrived", "answered", "called-back", "took-down", "recorded", "filed", "unfiled", "created", "foreign", "started", "frozen", "reconnected", "ended",
	"clock-set", "suspended", "refused", "unrefused", "looked", "full", "room", "broker-killed", "broker-back", "end"}

// String returns the word used in histories.
func (k Kind) String() string { return kindNames[k] }

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames[1:], string(text))
	if i < 0 {
		return fmt.Errorf("there is no event %q", text)
	}
	*k = Kind(i + 1)
	return nil
}

// Event is one event of a history.
type Event struct {
	// Line is the event's number in its file, from 1.
	Line int `json:"-"`
	// The event happened not before At and not after Until. Until 0 means At.
	At      Moment `json:"at"`
	Until   Moment `json:"until,omitzero"`
	Kind    Kind   `json:"kind"`
	Process string `json:"process,omitempty"`
	OrderNo string `json:"order_no,omitempty"`
	// Intent names the intent, and Seq is its sequence. For records and letters Seq is
	// their own sequence.
	Intent string `json:"intent_id,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`
	// Time is what the broker's clock showed when it stored the intent.
	Time time.Time `json:"time,omitzero"`
	// Waited is the place in the waiting room that a stored intent came from; 0 = none.
	Waited uint64 `json:"waited,omitempty"`
	// Claim names a delivery. In a history of real programs Reply does.
	Claim int    `json:"claim,omitempty"`
	Reply string `json:"delivery,omitempty"`
	// Count is the broker's delivery count.
	Count  uint64 `json:"delivered,omitempty"`
	Former int    `json:"former,omitempty"`
	Paused bool   `json:"paused,omitempty"`
	// Doubt says that a rule gave the refusal that was called back.
	Doubt bool `json:"doubt,omitempty"`
	// Attempt names a POST. In a history of real programs process, order_no and
	// timestamp do.
	Attempt int   `json:"attempt,omitempty"`
	Stamp   int64 `json:"timestamp,omitempty"`
	// Reading is what the clock showed by which an attempt was stamped; 0 = unknown.
	Reading int64  `json:"reading,omitempty"`
	Gate    Moment `json:"gate,omitzero"`
	// Signed is when an attempt was signed, or a message was given back, which arrived later; 0 = unknown.
	Signed Moment `json:"signed,omitzero"`
	// Verdict is the one on an attempt.
	Verdict order.Verdict `json:"verdict,omitzero"`
	Why     string        `json:"why,omitempty"`
	Shift   Moment        `json:"shift,omitzero"`
	// Replaces is the sequence that the writer of a record had read. Nil = unknown.
	Replaces *uint64       `json:"replaces,omitempty"`
	Record   *order.Record `json:"record,omitempty"`
	// Body is the hash of the body of an intent, a request, an order at the API or a letter;
	// "" = it can never be sent, or nobody saw it. Batch and Source are an intent's. Letter
	// is a letter without its body.
	Body     string         `json:"body_hash,omitempty"`
	Batch    string         `json:"batch,omitempty"`
	Source   string         `json:"source,omitempty"`
	Letter   *settle.Letter `json:"letter,omitempty"`
	Settings *Settings      `json:"settings,omitempty"`
}

// until returns the latest moment at which the event can have happened.
func (e *Event) until() Moment { return max(e.At, e.Until) }

// Settings says what a history is about.
type Settings struct {
	// Start is the beginning of the history by the clock.
	Start  time.Time    `json:"start"`
	Policy order.Policy `json:"on_unsure"`
	// Clocks says that the clocks of the broker's servers may be wrong.
	Clocks bool `json:"clocks,omitempty"`
	// Lookups says that the API is asked about orders in doubt.
	Lookups bool `json:"lookups,omitempty"`
	// AckWait is how long a claim lasts at the broker.
	AckWait time.Duration `json:"ack_wait_ns"`
	// Replicated says that the streams have replicas. Workers then look at the record
	// again before each attempt.
	Replicated bool `json:"replicated,omitempty"`
	// Outside says that the history was seen from outside, in real programs: some
	// intents may be stored unseen, records may be missing (their successors tell),
	// and messages may take any time.
	Outside bool `json:"outside,omitempty"`
	// Command says what made the history.
	Command string `json:"command,omitempty"`
}
