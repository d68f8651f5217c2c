// Package e2e holds the tests that run the real programs against each other:
// worker, enqueue and sandbox by their Run functions, on an embedded JetStream
// and real sockets, with faults on.
package e2e
