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
//	verdict.go, outcome.go  the closed sets: what one attempt did, how an intent ended
//	report.go    what a submission told, with recalled.go: an answer whose refusal was
//	             called back
//	decide.go    from a report to an outcome
//	record.go    the last word on an order_no, with encode.go, moved.go, person.go,
//	             conflict.go and letter.go: what it keeps of moves, of people, of conflicts and
//	             of dead letters; position.go: which stored copy of an intent it is about
//	merge.go     which of two records wins (R1)
//	admit.go     an intent and the last record of its order_no (R6)
//	submission.go  one order in a worker's hands
//	timestamp.go the next timestamp of an order
//
// What an order is:
//
//	intent.go    its fields; refusal.go and fault.go are the rules that a body breaks,
//	             and where; warning.go is what another reading would sign differently
//	parse.go, parser.go  a body to its canonical form; assemble.go makes one of fields
//	number.go, name.go, text.go  numbers as JavaScript writes them, names, cut texts
//
// What orders share:
//
//	subject.go   subject tokens
//	lane.go, turns.go, notbefore.go  lanes, whose turn it is, and from when on
//	rate.go      rates
//
// The package knows neither NATS nor HTTP, and reads no clock. Callers pass in what
// it needs.
package order
