// Package order defines the vocabulary of all other packages: the intent (an order
// that somebody wants created), its strict parser and canonical form, and the
// closed sets of verdicts, outcomes and records.
//
// [Decide] (decide.go) decides an order's outcome. [Merge] (merge.go) decides which
// of two records wins. [Admit] (admit.go) relates an intent to the last record of
// its order_no.
//
// The package knows neither NATS nor HTTP, and reads no clock. Callers pass in what
// it needs.
package order
