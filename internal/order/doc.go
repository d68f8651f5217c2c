// Package order holds what every other package talks about: the intent (an
// order that somebody wants created), its strict parser and canonical form,
// and the closed vocabulary of verdicts, outcomes and records.
//
// The one function that decides what becomes of an order is [Decide], in
// decide.go. Everything else in this package is either its input (the verdict
// of the last attempt, the doubt that sticks to an order_no) or its output (an
// outcome, or a note that the order is still being worked on).
//
// The package has no idea of NATS, of HTTP or of time: whoever calls it passes
// those facts in.
package order
