// Package worker is the pool: it pulls deliveries, has each order submitted and settled, and hands back what is left
// when it stops. It joins queue, settle and submit, which do not know each other, and knows no way in or out.
//
// The path of one order, and the file of each step:
//
//	intake.go      wait for an open gate, take free slots, pull
//	slots.go       how many orders may be in hand
//	handle.go      the settle protocol's Handler works off a delivery, with submit.Submit for the attempts
//	prefetch.go    how many orders are in hand beside those at the API
//	goroutines.go  what runs them
//	trace.go, log.go  what traces, logs and metrics learn about a delivery
//	pool.go        start, drain, stop
//
// Beside it:
//
//	storage.go     holds the gate while the broker does not store results
//	trim.go        settled intents leave the queue's stream in groups
package worker
