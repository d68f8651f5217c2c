// Package sandbox is the order API as a local server: it verifies keys and
// signatures, creates orders in memory, injects faults on demand, and keeps a
// ledger of what it created that can be compared with what a client believes.
//
// It is an independent reading of the API's contract. It imports nothing else
// of this project, so that a mistake in the client's signer or parser cannot
// hide behind the same mistake here.
//
// What the contract leaves open (the answers to failures, duplicates of an
// order_no, the clock window, limits) is a setting; see [Settings]. Settings
// and key pairs can be changed while the server runs, in Go or over HTTP under
// /_sandbox/. The ledger marks an order as created before the answer leaves,
// so that no client can know of an order that the ledger lacks.
package sandbox
