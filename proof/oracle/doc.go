// Package oracle judges a history of the settle protocol: which intents were stored
// and delivered, what was posted, what the API created, which records and dead letters
// were written, what was acknowledged, when, and by which process. It knows nothing
// about how the history came about. The simulation feeds it events as they happen, and
// chaos a history of real programs (file.go, complete.go). Both are held to the same
// invariants, which are written down here alone.
//
//	event.go     one event of a history
//	oracle.go    what the oracle keeps in mind
//	invariant.go the invariants, their rules, and findings
//	facts.go     an intent as it was stored, and what it says about itself
//	letters.go   what must be true of a dead letter
//	moves.go, cancel.go, clocks.go  the waiting room, cancellations, jumps of a clock
//	posts.go     what must be true of a POST
//	records.go   what must be true of a record, and of an acknowledgement
//	end.go       what must be true in the end
//	file.go, complete.go  a history in a file, and what follows from it that nobody saw
//
// R1 to R15 in comments are the rules of docs/protocol.md.
package oracle
