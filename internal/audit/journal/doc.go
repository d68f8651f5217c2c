// Package journal records who did what. Each act of a person has two entries in
// a stream of its own: the intention before the effect, and the result after
// it. An id joins them. Nobody can change or delete an entry.
//
//	entry.go  what an entry says
//	actor.go  who acted, and how that is known
//	begin.go  writing: Begin, and End
//	read.go   reading: newest first, or the acts on one order or import
//	follow.go reading on: each act when it begins and when it ends
//
// An intention without a result says that the act still runs, or that its
// program ended or could not write the result. docs/decisions.md
// says what happens if the journal cannot be written.
package journal
