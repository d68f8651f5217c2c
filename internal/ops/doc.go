// Package ops serves a worker's metrics and health.
//
//	metrics.go   counters and histograms of events (built by instruments.go)
//	snapshot.go  the state of the worker
//	collect.go   gauges, from a new snapshot at every scrape
//	health.go    /livez and /readyz
//	server.go    the HTTP server
//
// The package knows neither the queue nor the submitter. The worker passes plain
// values. Counters cover one process since its start. For exact counts over restarts,
// read the results stream.
package ops
