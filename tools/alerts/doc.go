// Package alerts holds the Prometheus alert rules against Prometheus's own code:
//
//	alerts_test.go     the unit tests of deployments/prometheus/alerts_test.yaml
//	live_test.go       every rule, through an outage of real workers that are really scraped
//	outages_test.go    what is broken for each alert, and how it is mended
//	dashboard_test.go  the dashboard's queries on such scrapes; prometheus.yml
//
// It lies in a module of its own, so that nobody who builds orderpost downloads
// Prometheus. promtool itself would need the client libraries of every cloud to
// be compiled; the unit tests are in its format, so that who has it can use it.
package alerts
