// Package simulation plays the settle protocol in simulated time, from a seed:
// a broker, an API, workers, producers and persons, with crashes, frozen
// processes, delays, lost requests and lost answers at every step. Afterwards
// an observer who saw only messages, records, requests and the API's orders
// says whether the promise was kept.
//
// What is real: everything of internal/queue above its Store (check, marks,
// notes, settle, letters, leases, replay, resolve, drop, cancel, publish), and
// the decisions of internal/order (Decide, Merge). What is modelled, function by
// function: internal/worker's pool (worker.go) and internal/submit's visit
// (visit.go). What is invented: the broker (broker.go), its followers
// (followers.go) and the API (api.go).
//
// R1 to R12 in comments are the rules of docs/protocol.md.
//
// Everything happens in one goroutine at a time: a process's steps are a
// coroutine (engine.go), which gives its turn away wherever it waits.
package simulation
