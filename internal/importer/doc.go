// Package importer publishes the rows of files as intents and reports what became of
// each row.
//
// A file passes through these steps:
//
//	content.go     gzip and zstd, told by their first bytes
//	foreign.go     files that are not text, told by theirs
//	text.go        UTF-8, UTF-16 and Windows-1252, by mark, by option or guessed
//	dialect.go     the delimiter, Excel's sep= line
//	table.go       rows, of CSV or NDJSON
//	head.go        the beginning, and a proposal for the mapping
//	mapping.go     what the user says about columns
//	columns.go     header and mapping to the layout of the JSON body
//	encode.go      cells to JSON
//	row.go         rows to orders, by the signing rules
//	formula.go     cells that a spreadsheet would run
//	scan.go        the pipeline: reading, encoding and what follows overlap
//	duplicates.go  order numbers that occur twice, in bounded memory
//	check.go       the first pass: can every row be sent?
//	publish.go     the second pass: look up, decide, enqueue, save progress
//	wait.go        waits for the outcomes
//	results.go     each row with its outcome
//	rejects.go     the rows that could not be enqueued
//
// An import reads its file several times and holds only a few chunks of it in memory.
// The batch id is a hash of content and mapping. The intent of each row has the ID
// <batch>:<row>. Running the same command again therefore enqueues nothing twice.
package importer
