// Package door is what every way in does with an order: store it, tell what became of
// it, follow outcomes, withdraw it. The Go package client and the gateway are made of it.
// It is a publisher and a reader like any other (docs/producers.md) and knows no rule of
// its own.
//
//	door.go     what all callers of a process share
//	order.go    one submission, and what can be wrong with it
//	errors.go   what a caller does about an error
//	files.go    what a door does with files of orders, if the program links package fileimport
//
// The way in:
//
//	submit.go   from an order, or many, to their receipts
//	publish.go  whether a submission was stored before; group commit, and answers that do not say "stored" (R6)
//	batcher.go  concurrent calls share one request
//
// What became of it:
//
//	outcome.go  of one submission: reads by order_no, of which many share one, and the wait for it
//	follow.go   one follower of the results for everybody who waits
//	feed.go     all outcomes, from a position on, and the present end
//	cancel.go   withdraw a submission
package door
