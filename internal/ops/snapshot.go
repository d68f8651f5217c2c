package ops

import (
	"time"

	"orderpost/internal/order"
)

// Snapshot is a worker at one moment. The zero value is one that is starting.
type Snapshot struct {
	// Started: the pool is at work; before it, the broker and the API are
	// being asked.
	Started bool
	// Connected: the broker is in reach.
	Connected bool
	// Draining: it stops, and takes nothing new.
	Draining bool
	// InFlight is the number of orders in hand, of Slots at most.
	InFlight, Slots int
	Gate            Gate
	// Notes are remarks about the API's answers that call for a person.
	Notes []string
	// LeaseLosses counts the claims that were over before their orders were
	// done with, since the start.
	LeaseLosses uint64
	// Failures are the writes to the streams that failed, Filed the dead
	// letters by outcome, since the start.
	Failures Failures
	Filed    map[order.Outcome]uint64
	// Clock is nil until the API's answers have told something.
	Clock *Clock
	// Sizes is nil while the broker does not say.
	Sizes *Sizes
	// Parts are the streams and what belongs to them, as the broker had them when
	// it was asked last. Missing says which of them are missing and what to do
	// about it; "" = none.
	Parts   []Part
	Missing string
	Store   Store
}

// Part is a stream, the fleet's bucket or the consumer.
type Part struct {
	Name    string
	Present bool
	// Replaced counts how often another one took its place since the start.
	// Precious: what it held is lost then.
	Replaced uint64
	Precious bool
}

// Store is the broker's storage, as far as the worker knows.
type Store struct {
	// Failing says why nothing is stored; "" where it is. Full says why producers
	// are refused; "" where they are not. Both are for people.
	Failing, Full string
	// Free is the bytes that are left for the embedded broker; nil in a worker
	// that does not run it.
	Free *int64
}

// Gate is the one place that every attempt passes, at one moment.
type Gate struct {
	Open   bool
	Blocks []Block
	// InFlight counts requests under way, of Limit at most (the ramp); Waiting
	// the orders in hand in front of the gate.
	InFlight, Limit, Waiting int
	// Rate is the limit in requests per second; 0 = none. RateBinds: it made
	// an order wait a moment ago.
	Rate      float64
	RateBinds bool
}

// Failures are writes of a worker that the broker did not confirm.
type Failures struct{ Results, Letters WriteFailures }

// WriteFailures are those to one stream: refused for lack of room, or left
// without an answer.
type WriteFailures struct{ Refused, Unconfirmed uint64 }

// Block is one reason for which the gate is not open.
type Block struct {
	// Name is one of Options.Blocks, Stage one of Options.Stages.
	Name  string `json:"block"`
	Stage string `json:"stage"`
	// Reason is for people.
	Reason string `json:"reason"`
	// Since is when it was put up, Until when it moves on by itself; zero: it
	// does not.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Clock is what is known of the API's clock.
type Clock struct {
	// Offset is the API's clock minus ours, give or take Error.
	Offset, Error time.Duration
}

// Sizes are those of the streams, which the whole fleet shares.
type Sizes struct {
	// Pending counts the intents without an outcome, delayed ones and those in
	// flight included.
	Pending uint64
	// Waiting counts those of them that no worker has been given yet, delayed
	// ones left out.
	Waiting uint64
	// OldestPending is when the oldest of them was stored; zero: there is none.
	OldestPending time.Time
	// Letters counts the dead letters.
	Letters uint64
}
