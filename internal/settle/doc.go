// Package settle is the settle protocol: the rules R1 to R10 and R13 to R15 of
// docs/protocol.md. They make sure that every stored intent ends with exactly one
// recorded outcome. The package knows neither NATS nor HTTP. It declares what it
// needs: [Store] (the streams), [Runtime] (clock, sleep, lock) and one function
// that submits an order.
//
// The base is [Ledger]: records and letters. Six parts use it, and need not know each
// other: [Producer], [Worker] with its [Claims], [Trimmer], [Sweeper], [Mover] and [Operator].
//
// Read handler.go first: one [Handler] takes a delivery from its check to its
// acknowledgement. order.Decide decides the outcome.
//
// The Ledger:
//
//	ledger.go     the type, what it must know of its installation, the [Protocol] with its
//	              parts, and the Runtime: clock, sleep and lock
//	store.go      what the package needs of the streams, with its errors
//	intent.go     an order intent, its headers, and the subjects and tokens it is stored under
//	record.go     batched reads that are exact, even with replicas (R2); conditional writes,
//	              and what follows a refused or lost one (R1)
//	letter.go     dead letters: stored, named by records, read, removed (R4)
//	pending.go    whether a stored intent is settled, with its letter
//	cancel.go     what people cancelled, by marks, and its withdrawal (R15)
//
// The Producer:
//
//	publish.go    stores one intent, and finds out what an answer means (R6)
//
// The Worker, in the order in which a delivery meets its files:
//
//	worker.go     the type, a delivery, and what a pull records before it asks
//	highwater.go  the delivered high-water mark, which survives a broker that is
//	              killed and forgets its counts (R2, R3, R8)
//	claim.go      the claim on a message: extended while the order is handled, ended as soon as
//	              another worker may hold one; a last look at claim and record before each attempt (R7)
//	check.go      reads the last word on the order_no before anything else (R2), decides what the
//	              delivery needs (R6), and finds orders that may have crashed a worker (R8)
//	waits.go      orders that wait for a time that another clock wrote (R9)
//	lookup.go     since when a process knows that the API has no such order (R3)
//	handler.go    the steps for each kind of work
//	settle.go     dead letter, then result, then acknowledgement (R4); intents that an earlier
//	              outcome settles: repetitions, conflicts, withheld ones (R6)
//	note.go       notes about work that goes on, or that was not done
//
// The Trimmer, the Sweeper, the Mover and the Operator:
//
//	trim.go       settled intents leave the log in groups (R14)
//	sweep.go      letters that no record names are removed (R4)
//	move.go       the feeder's move, and what the broker's answer to it means (R13)
//	person.go, replay.go  what a person may say, and when: resolutions, drops, replays (R5)
package settle
