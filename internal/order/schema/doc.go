// Package schema checks orders against a JSON Schema of the user's own, which
// ORDERPOST_ORDER_SCHEMA names.
//
//	schema.go    a schema, and reading it again when its file changes
//	compile.go   limits of a file, and its mistakes in words
//	bounded.go   how much work one order can be
//	check.go     an order against the schema
//	words.go     what is wrong with an order, in words
//	draft.go     a first schema, made from orders
//
// An order is checked in its canonical form without timestamp, which the signer sets. Its
// numbers stay decimal texts and are compared exactly. Nothing is ever fetched: a schema
// refers to its own parts alone.
package schema
