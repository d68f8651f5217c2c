// Package settle is the settle protocol: the rules R1 to R10 and R13 to R15 of
// docs/protocol.md. They make sure that every stored intent ends with exactly one
// recorded outcome. The package knows neither NATS nor HTTP. It declares what it
// needs: [Store] (the streams), [Runtime] (clock, sleep, lock) and one function
// that submits an order.
//
// Read handler.go first: one [Handler] takes a delivery from its check to its
// acknowledgement. order.Decide decides the outcome.
//
// The files in the order in which a delivery meets them:
//
//	protocol.go   the Protocol, and what it must know about its installation
//	delivery.go   one intent that the broker handed to a worker
//	pull.go       what a pull records before it asks, and what it does with the
//	              messages that arrive
//	intent.go     reads a message as an order intent
//	highwater.go  the delivered high-water mark, which survives a broker that is
//	              killed and forgets its counts (R2, R3, R8)
//	lease.go      the claim on a message: extended while the order is handled, and
//	              ended as soon as another worker may hold one (R7)
//	check.go      reads the last word on the order_no before anything else (R2) and
//	              decides what the delivery needs (R6)
//	lastword.go   batched reads that are exact, even with replicas (R2)
//	handler.go    the steps for each kind of work
//	look.go       the fence: a last look at claim and record before each attempt (R7)
//	suspect.go    orders that may have crashed a worker (R8)
//	settle.go     result, then dead letter, then acknowledgement (R4)
//	refuse.go     intents that an earlier outcome settles: repetitions, conflicts,
//	              withheld ones (R6)
//	trim.go       settled intents leave the log in groups (R14)
//	note.go       notes about work that goes on, or that was not done
//	record.go     conditional writes, and what follows a refused or lost one (R1)
//	letter.go     dead letters
//
// What persons and producers do:
//
//	publish.go    stores one intent, and finds out what an answer means (R6)
//	replay.go, resolve.go, drop.go, person.go  settle dead letters (R5)
//	cancel.go     what people cancelled, by marks (R15)
//	pending.go    a stored intent as listings see it
//	filed.go      the token that an order's messages are filed under
//	patience.go   how a command waits for a broker that is out of reach
//
// What waits to be moved into the queue (R13):
//
//	waiting.go            which intents wait, and how they are stored
//	move.go, moved.go     the feeder's move, and what the broker's answer to it means
//	withdraw.go           the feeder withdraws what a person cancelled (R15)
//
// store.go and runtime.go declare what the package needs, limits.go the times that it
// shares with its store. The simulation breaks the
// rules with mutation.go.
package settle
