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
//	protocol.go   the Protocol with its parts
//	store.go, runtime.go  what the package needs: the streams with their errors, clock, sleep and lock
//	message.go    a message with its headers
//	ledger.go     the type, and what it must know of its installation
//	filed.go      the token that an order's messages are filed under
//	lastword.go   batched reads that are exact, even with replicas (R2)
//	record.go     conditional writes, and what follows a refused or lost one (R1)
//	letter.go     a dead letter, and what its record says of it
//	letters.go    letters are stored, read, named and removed (R4)
//	pending.go    whether a stored intent is settled, with its letter
//	streamseq.go  a sequence, and of which stream it is
//	cancel.go     what people cancelled, by marks (R15)
//	patience.go   how a command waits for a broker that is out of reach
//
// The Producer:
//
//	intent.go     an order intent, and the headers in which it travels
//	waiting.go    the subjects of the waiting room
//	publish.go    stores one intent, and finds out what an answer means (R6)
//
// The Worker, in the order in which a delivery meets its files:
//
//	worker.go     the type, and what a lost connection means
//	delivery.go   one intent that the broker handed to a worker
//	pull.go       what a pull records before it asks, and what it does with the
//	              messages that arrive
//	envelope.go   what a producer wrote, and why it can never be sent
//	highwater.go  the delivered high-water mark, which survives a broker that is
//	              killed and forgets its counts (R2, R3, R8)
//	lease.go      the claim on a message: extended while the order is handled, and
//	              ended as soon as another worker may hold one (R7)
//	check.go      reads the last word on the order_no before anything else (R2) and
//	              decides what the delivery needs (R6)
//	waits.go      how long an order waits for a time that another clock wrote (R9)
//	handler.go    the steps for each kind of work
//	look.go       the fence: a last look at claim and record before each attempt (R7)
//	suspect.go    orders that may have crashed a worker (R8)
//	settle.go     dead letter, then result, then acknowledgement (R4)
//	fileletter.go the letter of a failure or of a refusal
//	refuse.go     intents that an earlier outcome settles: repetitions, conflicts,
//	              withheld ones (R6)
//	note.go       notes about work that goes on, or that was not done
//	acknowledged.go  what this process acknowledged, for the Trimmer
//
// The Trimmer, the Mover and the Operator:
//
//	sweep.go      letters that no record names are removed (R4)
//	trim.go       settled intents leave the log in groups (R14)
//	overdue.go    deliveries that wait for a clock are asked for again (R9)
//	move.go, moved.go  the feeder's move, and what the broker's answer to it means (R13)
//	withdraw.go   the feeder withdraws what a person cancelled (R15)
//	person.go     what a person may say, and when
//	replay.go, resolve.go, drop.go  letters are settled (R5)
package settle
