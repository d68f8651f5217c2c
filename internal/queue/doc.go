// Package queue keeps the books: it knows where intents, results and dead
// letters are stored in JetStream, and in which order they may change.
//
// R1 to R12 in comments are the rules of the settle protocol: docs/protocol.md
// states each, and the schedule that it answers.
//
// A delivery's life, and the file that owns each step:
//
//	pull.go      a free slot first, then messages
//	check.go     the last word on each order_no is read before anything else (R2),
//	             and says what the delivery is: new work, work to go on with, or
//	             something already settled
//	seen.go      how far the stream had been delivered before, which the broker
//	             forgets when it is killed (R2, R3, R8)
//	lease.go     the claim on a message, extended while it is worked on, and over
//	             as soon as somebody else may hold it (R7)
//	settle.go    outcome to the results, then the dead letter, then the ack (R4)
//	record.go    conditional writes of results and notes, and what to do when one
//	             is refused or its confirmation lost (R1)
//	writer.go    those writes, gathered into atomic batches where many meet
//	letter.go    dead letters; letters.go lists them, replay.go, resolve.go and
//	             drop.go work them off (R5), person.go writes a person's word (R1)
//	publish.go   producers: one intent or many
//	control.go   the fleet's shared key-value bucket; fleet.go holds, limits and
//	             presence in it (R12), trouble.go who probes for all
//	audit.go     do the books balance? (R11)
//	standing.go  what is known of many orders at once
//	follow.go    results as they are written, the intents of one batch
//	imports.go   how far an import came
//	cancel.go    withdrawing what no worker was given
//
// What becomes of an order is not decided here but in order.Decide. NATS
// appears in this package and below it, and nowhere else.
package queue
