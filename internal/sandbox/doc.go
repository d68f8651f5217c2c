// Package sandbox implements the order API as a local server. It verifies keys and
// signatures, creates orders in memory and injects faults on demand. Its ledger of
// created orders can be compared with what a client believes.
//
// The package is an independent reading of the API's contract and imports no other
// package of this project. Otherwise, a mistake in the client's signer or parser
// could be repeated here and stay hidden.
//
// [Settings] cover what the contract leaves open: the answers to failures, repeated
// order numbers, the clock window, limits. Settings and key pairs can be changed
// while the server runs, in Go or over HTTP under /_sandbox/. The ledger records an
// order before the server sends the answer. No client can know of an order that the
// ledger lacks.
package sandbox
