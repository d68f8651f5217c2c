package ops

import (
	"time"

	"orderpost/internal/order"
)

// Snapshot is the state of a worker at one moment. The zero value is a starting worker.
type Snapshot struct {
	// Started says that the pool is running. Before that, the worker checks the broker
	// and the API.
	Started bool
	// Connected says that the broker is reachable.
	Connected bool
	// Broker is the server that the worker is connected to; nil = none.
	Broker *Broker
	// Draining says that the worker is stopping and takes no new orders.
	Draining bool
	// InFlight is the number of orders in hand, at most Slots.
	InFlight, Slots int
	Gate            Gate
	// Held says that a person holds the fleet.
	Held bool
	// Notes are remarks about the API's answers and about clocks, for a person.
	Notes []string
	// LeaseLosses counts the claims that expired before the worker finished their
	// orders, since the start.
	LeaseLosses uint64
	// Failures counts failed writes to the streams, Filed the dead letters by outcome,
	// both since the start.
	Failures Failures
	Filed    map[order.Outcome]uint64
	// Clock is nil until an answer of the API had a usable time.
	Clock *Clock
	// Sizes is nil while they are unknown.
	Sizes *Sizes
	// Parts lists the streams, the bucket and the consumer as of the last check.
	// Missing says which of them are missing, or why the broker is refused, and what to
	// do; "" = none, and it is not.
	Parts   []Part
	Missing string
	// Stranded says that an intent is stored without an outcome, and that the broker delivers
	// it to nobody (R14).
	Stranded bool
	Store    Store
}

// Broker is a NATS server. Verdict is ok, weak or refused (queue.BrokerVerdict).
type Broker struct{ Version, Verdict string }

// Part is a stream, the fleet's bucket or the consumer.
type Part struct {
	Name    string
	Present bool
	// Replaced counts how often a new part took its place since the start. Precious
	// says that its content is lost in that case.
	Replaced uint64
	Precious bool
}

// Store is the state of the broker's storage as far as the worker knows it.
type Store struct {
	// Failing says why the broker stores nothing. Full says why it refuses producers.
	// Both are for people and empty if there is no problem.
	Failing, Full string
	// Free is the number of bytes left for the embedded broker. It is nil in a worker
	// that does not run one.
	Free *int64
}

// Gate is the state of the gate.
type Gate struct {
	Open   bool
	Blocks []Block
	// InFlight counts requests in flight, at most Limit (the ramp). Waiting counts
	// orders in hand that wait for the gate.
	InFlight, Limit, Waiting int
	// Rate is the limit in requests per second; 0 = none. RateBinds says that it made
	// an order wait within the last seconds.
	Rate      float64
	RateBinds bool
}

// Failures counts the writes of a worker that the broker did not confirm.
type Failures struct{ Results, Letters WriteFailures }

// WriteFailures counts the failed writes to one stream. The broker refused them or did
// not answer.
type WriteFailures struct{ Refused, Unconfirmed uint64 }

// Block is one reason why the gate is not open.
type Block struct {
	// Name is one of Options.Blocks, Stage one of Options.Stages.
	Name  string `json:"block"`
	Stage string `json:"stage"`
	// Reason is for people.
	Reason string `json:"reason"`
	// Since is when the block was put up. Until is when it enters its next stage by
	// itself; zero = never.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Clock is an estimate of the API's clock.
type Clock struct {
	// Offset is the API's clock minus ours, give or take Error.
	Offset, Error time.Duration
}

// Lane is what may be sent now of a lane of the waiting room.
type Lane struct {
	Name   string
	Ready  int
	Oldest time.Time // zero = nothing is ready
}

// Sizes are the sizes of the streams, which the whole fleet shares.
type Sizes struct {
	// Pending counts the intents without an outcome, delayed ones and those in
	// flight included.
	Pending uint64
	// Waiting counts the pending intents that no worker has in hand, without delayed
	// ones.
	Waiting uint64
	// Lanes are the lanes of the waiting room, as the worker that feeds the queue sees
	// them.
	Lanes []Lane
	// InRoom counts the intents in the waiting room, those included that wait for their
	// time or are paused.
	InRoom uint64
	// Paused counts the imports that people paused.
	Paused int
	// Fed says that a worker moves waiting intents into the queue.
	Fed bool
	// OldestDue is since when the oldest pending intent may be sent; zero = none may.
	OldestDue time.Time
	// Letters counts the dead letters.
	Letters uint64
}
