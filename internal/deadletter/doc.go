// Package deadletter lists dead letters, alone and in groups, and does with a group what a person asked for in one
// step: replay, resolve, drop, export. The commands and the console share it, so both preview and act alike.
//
// Which letters there are:
//
//	letters.go   letters in pages, joined with the records that name them
//	letterfilter.go, glob.go  which letters a filter selects
//	letterindex.go, letterfollow.go, letterselect.go  an index of letters that follows the stream, and
//	             selections from it
//
// What is done with them:
//
//	group.go     which letters: those that match, up to a last sequence
//	deed.go      what is done with each: replay, resolve, drop
//	dryrun.go    what that would do
//	run.go       Preview counts what would happen, Run does it; Tally counts by fate
//	export.go    the orders of a group as a file: what it would hold, and the file
//	traces.go    which acts on groups one order was in
//
// Each letter is judged when its turn comes, by the rules of package settle. So a
// preview that has become old, a run that was stopped and repeated, or two people who
// run the same group at once lose nothing and do nothing twice.
package deadletter
