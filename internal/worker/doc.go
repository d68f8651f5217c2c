// Package worker is the worker: a pool that joins the queue, the signer and the
// submitter, which do not know each other, and what the pool needs around it.
//
// The path of one order, and the file of each step:
//
//	intake.go            wait for an open gate, take free slots, pull
//	slots.go             how many orders may be in hand
//	handle.go            the settle protocol's Handler works off a delivery, with
//	                     submit.Submit for the attempts
//	prefetch.go          how many orders are in hand beside those at the API
//	trace.go             what logs, metrics and traces learn about a delivery
//	pool.go              start, drain, stop
//
// Around the pool:
//
//	run.go               the worker program
//	broker.go            the embedded broker, or the address of another one
//	door.go              the HTTP door, if the settings name its address
//	topology_monitor.go  holds the gate while a stream, the bucket or the consumer is missing
//	storage_monitor.go   watches the broker's disk, and limits producers
//	storage.go           holds the gate while the broker does not store results
//	trim.go              settled intents leave the queue's stream in groups
//	observe.go, ops.go   metrics, health, and the server for both
//
// Its parts:
//
//	config.go, supervisor.go, notify.go  the settings; what systemd is told
//	pace.go, request_rate.go  how long the API takes, and how many requests it gets
//	memory.go, descriptors.go, goroutines.go  what an order in hand costs
//	log.go, repeat.go, atomic.go  lines about orders, things done again and again, a duration
package worker
