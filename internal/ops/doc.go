// Package ops serves metrics and health, of a worker and of the doors.
//
//	metrics.go   counters and histograms of events (built by instruments.go)
//	snapshot.go  the state of the worker
//	collect.go   gauges, from a new snapshot at every scrape
//	answers.go   failed orders by what the API's answers say
//	scaling.go   how many orders another worker could post
//	gateway.go, notify.go  metrics of an HTTP door and of a sender of webhooks
//	health.go    /livez and /readyz
//	server.go    the HTTP server
//	probe.go     asks another process for its health
//
// The package knows neither the queue nor the submitter. The worker passes plain
// values. Counters cover one process since its start. For exact counts over restarts,
// read the results stream.
package ops
