// Package settle is the settle protocol: the rules R1 to R10 of
// docs/protocol.md, which make sure that every stored intent ends with exactly
// one recorded outcome. It knows neither NATS nor HTTP. It declares what it
// needs: [Store] (the streams), [Runtime] (clock, sleep, lock) and one function
// that submits an order.
//
// Read handler.go first: one [Handler] takes a delivery from its check to its
// acknowledgement. The files, in the order in which a delivery meets them:
//
//	pull.go      what is noted before messages are asked for, and what happens to
//	             those that arrive
//	intent.go    a message read as an order intent
//	seen.go      the delivered high-water mark, which outlives a broker that is
//	             killed and forgets its counts (R2, R3, R8)
//	lease.go     the claim on a message: extended while it is worked on, and over
//	             as soon as another worker may hold it (R7)
//	check.go     the last word on the order_no is read before anything else (R2),
//	             and decides what kind of work the delivery is (R6)
//	words.go     batched reads, which are exact with replicas, too (R2)
//	handler.go   what each kind of work needs, in which order
//	settle.go    result, then dead letter, then acknowledgement (R4); notes
//	record.go    conditional writes, and what follows a refused or lost one (R1)
//	letter.go    dead letters
//
// What people and producers do:
//
//	publish.go   store one intent, and find out what an answer means (R6)
//	replay.go, resolve.go, drop.go, person.go  work off dead letters (R5)
//	cancel.go, pending.go  withdraw what no worker was given
//	filed.go     what the messages about an order are filed under
//	patience.go  how a command waits for a broker that is out of reach
//
// What becomes of an order is not decided here but in order.Decide.
package settle
