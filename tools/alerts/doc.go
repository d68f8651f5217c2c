// Package alerts evaluates the unit tests of the Prometheus alert rules with
// Prometheus's own engine. It lies in a module of its own, so that nobody who
// builds orderpost downloads Prometheus. promtool itself would need the client
// libraries of every cloud to be compiled; the test file is in its format, so
// that who has it can use it.
package alerts
