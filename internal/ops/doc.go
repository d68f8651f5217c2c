// Package ops is what operators see of a worker: its metrics, its health, and
// the server that shows them.
//
//	metrics.go   what is counted as it happens (instruments.go: how it is made)
//	snapshot.go  the worker at one moment, as it tells when asked
//	collect.go   the snapshot as gauges, read anew at every scrape
//	health.go    /livez and /readyz
//	server.go    the HTTP server
//
// It knows nothing of the queue or of submission: the worker hands it plain
// values. Counters are those of one process since its start; the books are the
// results stream.
package ops
