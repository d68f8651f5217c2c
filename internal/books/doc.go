// Package books answers what commands ask of the streams as a whole: do the
// books balance, how do these orders stand, which dead letters are there, what
// was settled since. It reads the streams through package queue, and leaves every
// write that follows a rule to package settle.
//
//	advice.go    what a person can do about an order
//	status.go    what is stored about orders, many at once or one by its name
//	list.go      every record, every letter, the pending intents of an import
//	follow.go    records as they are written
//	letters.go   dead letters in pages, joined with the records that name them
//	dryrun.go    what a replay, a drop or a resolution would do
//	letterfilter.go, glob.go  which letters a filter selects
//	letterindex.go, letterfollow.go, letterselect.go  an index of letters that
//	             follows the stream, and selections from it
//	imports.go   what is remembered of an import, and how far it came
//	room.go      the waiting room, and pending.go the orders in it and in the queue
//	cancel.go    withdraw an import or an order
//	hold.go      keep the waiting intents of an import where they are
//	feeding.go   which worker feeds the queue with the others
//	shellword.go quotes a word for the commands that advice names
//
// What needs a second person:
//
//	approvalrule.go  the rule that says so
//	approval.go      what waits for whom, and who approved it
//	assessment.go    what of an import an approval is about
//
// The audit (R11, docs/protocol.md#r11):
//
//	audit.go         its result, and how often it looks
//	audit_look.go    one look at the books while they are being written
//	audit_say.go     its account, for people
//	audit_again.go   orders that changed meanwhile, and contradictions, are read again
package books
