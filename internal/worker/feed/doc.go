// Package feed feeds the intents stream from the waiting room. One worker of the
// fleet feeds, and another one takes over when it is gone.
//
//	feeder.go   one round after another, and what the log and the lease say of it
//	listing.go  what is ready
//	holds.go    which imports are held
//	approvals.go  which imports may go, where a rule asks for approvals
//	pace.go     how much the intents stream should get
//	feed.go     turns, and the move
//	source.go   the intents of one lane and import, in their order
//	unlisted.go what is ready, but not on the list
//	cancel.go   what people cancelled, withdrawn import by import
//
// Rule R13 (docs/protocol.md#r13) makes a move safe, even where two feeders make it
// at once. The lease only keeps them from doing the same work twice, and lets a
// person's pause end a feeder's moves for certain.
package feed
