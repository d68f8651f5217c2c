// Package notify tells a receiver what became of orders: it posts each outcome to an
// address, as Standard Webhooks says (docs/notify.md).
//
//	config.go     the settings
//	secret.go     the secrets, and the signature of one attempt
//	event.go      what is sent, made from a record
//	filter.go     which events are wanted
//	client.go     one attempt, and what its answer says
//	verdict.go    what follows from an answer: delivered, again, aside, parked
//	receiver.go   what all attempts know of the receiver: pauses, and its return
//	kept.go       the position that the fleet's bucket keeps
//	window.go     which events are under way, and how far the position may go
//	reader.go     from the results to their turns
//	continuity.go whether the results are still those that the position is about
//	turns.go      the events of each order_no, one after the other
//	deliver.go    one turn: an attempt, and what follows
//	aside.go      events that are refused alone, and parked ones, in the bucket
//	beside.go     their way there, and their turns
//	fleet.go      fleet.held and fleet.resumed
//	imports.go    import.settled
//	alerts.go     fleet.blocked and person.needed
//	session.go    one process's time as the sender
//	sender.go     Sender: leads, or waits to take over
//	stats.go      numbers for metrics
//
// An outcome is sent at least once. Each order_no has one message in the results, which moves
// to the end when it changes, so reading in order and sending the events of an order_no one after the other
// makes its last outcome the last that the receiver hears. The position moves only over
// records whose events were delivered, or are kept aside in the bucket. It is a part of
// the sender's lease, so only the process that holds the lease can move it.
package notify
