// Package importer turns files into intents and says what became of each row.
//
// A file's way, and the file of this package that owns each step:
//
//	content.go     gzip and zstd, told by their first bytes
//	text.go        UTF-8, UTF-16 and Windows-1252, marked, given or guessed
//	dialect.go     the delimiter, Excel's sep= line
//	table.go       rows, of CSV or NDJSON
//	mapping.go     what the user says about columns
//	columns.go     header and mapping to the layout of the JSON body
//	encode.go      cells to JSON
//	row.go         rows to orders, by the signing rules
//	scan.go        the pipeline: reading, encoding and what follows overlap
//	duplicates.go  order numbers that occur twice, in bounded memory
//	check.go       the first pass: can every row be sent?
//	publish.go     the second pass: look up, decide, enqueue, write progress down
//	wait.go        following the outcomes
//	results.go     each row with its outcome
//	rejects.go     the rows that could not be enqueued
//
// An import reads its file several times, and holds only a few chunks of it in
// memory. The batch id is a hash of content and mapping, and each row's
// submission is named <batch>:<row>, so that the same command run again
// enqueues nothing twice.
package importer
