// Package simulation runs the settle protocol in simulated time. A seed determines a
// schedule of a broker, an API, workers, feeders, producers and persons, with crashes,
// frozen processes, delays, lost requests and lost answers at every step. An oracle sees
// only messages, records, requests and the API's orders. It reports every broken
// invariant.
//
// The simulation runs the shipped code of internal/settle, its Handler included, and
// of internal/order. It models internal/cli/service's pool (worker.go) and
// internal/submit's attempt loop (submission.go) function by function. The broker
// (broker.go), its followers (followers.go), a change of leadership (leader.go), the
// clocks (clock.go) and the API (api.go) are simplified models.
//
// A seed and edits make a schedule (schedule.go, streams.go). A search plays one
// seed after the other, notes which faults struck where (search.go, coverage.go, step.go),
// and makes a schedule that breaks short (shrink.go).
//
// R1 to R15 in comments are the rules of docs/protocol.md.
//
// Only one goroutine runs at a time. The steps of a process are a coroutine
// (engine.go, coroutine.go), which yields wherever it waits.
//
// The other files:
//
//	plan.go         what a seed draws; corrections.go turns it towards corrections
//	world.go        a schedule's parts together
//	host.go         a process: worker, producer or command
//	people.go, page.go, cancel.go  what producers and people do
//	store.go        a process's access to the broker (settle.Store)
//	consumer.go, trim.go, waiting.go  the workers' consumer, the log, the waiting room
//	brokerclock.go  the clocks of the broker's servers
//	lookup.go              how the API is asked about orders in doubt
//	stamps.go, misread.go  timestamps that jump, answers that a wrong rule misreads
//	witness.go      what the oracle is told
//	mutation.go     one rule dropped, to prove that the oracle notices
//	trace.go        a schedule's events, line by line
package simulation
