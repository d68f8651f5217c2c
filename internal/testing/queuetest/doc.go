// Package queuetest is for tests alone: a broker of the test's own, a queue on it with
// orderpost's streams, and what a worker does to the orders there.
package queuetest
