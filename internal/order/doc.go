// Package order defines the vocabulary of all other packages: the intent (an order
// that somebody wants created), its strict parser and canonical form, and the
// closed sets of verdicts, outcomes and records.
//
// [Decide] (decide.go) decides an order's outcome. [Merge] (merge.go) decides which
// of two records wins. [Admit] (admit.go) relates an intent to the last record of
// its order_no.
//
// What decides:
//
//	verdict.go   the closed sets: what one attempt did, how an intent ended
//	decide.go    what a submission told, an answer whose refusal was called back, and the
//	             outcome that follows
//	lookup.go    what the API said when it was asked about an order in doubt (R3)
//	record.go    the last word on an order_no: what people said, and which stored copy of an intent
//	             it is about; conflict.go: its conflicts and dead letters; encode.go: its bytes
//	merge.go     which of two records wins (R1)
//	admit.go     an intent and the last record of its order_no (R6): a submission, its next timestamp
//
// What an order is:
//
//	intent.go    its fields, the rules that a body breaks, and where; warning.go is what another
//	             reading would sign differently
//	parse.go     a body to its canonical form; assemble.go makes one of fields
//	number.go, text.go  numbers as JavaScript writes them, names, cut texts
//
// What orders share:
//
//	subject.go   subject tokens
//	lane.go      lanes, whose turn it is, from when on, and rates
//
// The package knows neither NATS nor HTTP, and reads no clock. Callers pass in what
// it needs.
package order
