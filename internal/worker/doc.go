// Package worker is the pool: it joins the queue, the signer and the
// submitter, which do not know each other.
//
// The path of one order, and the file that owns each step:
//
//	intake.go   a slot first, and only while the gate is open; then a pull
//	handle.go   what a checked delivery needs: submission, completion, refusal
//	visit.go    lease, fence and write-ahead around submit.Submit; the report
//	            goes to order.Decide, and its word to queue.Settle
//	pool.go     start, drain, stop
//	broker.go   the embedded broker, or somebody's NATS
//	observe.go  what happens, counted for operators and passed on
//	ops.go      what operators see: metrics, health, and the server for both
//	run.go      all of it as a program
package worker
