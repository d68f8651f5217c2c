// Package importer publishes the rows of files as intents and reports what became of
// each row.
//
// A file passes through these steps:
//
//	options.go      what people say about an import: one table, from which every way in takes its options
//	reading.go      how a file is read: as a part of its identity, as the record of its import has it, as flags
//	file.go         a file with its identity: a hash of content and mapping
//	content.go      gzip and zstd, and files that are not text, told by their first bytes
//	text.go         UTF-8, UTF-16 and older encodings; the delimiter, Excel's sep= line
//	table.go        rows, of CSV, NDJSON or a workbook
//	workbook.go     rows of a workbook's sheet, and what its cells are
//	head.go         the beginning, and a proposal for the mapping
//	remembered.go   the mapping of an earlier file with the same columns
//	top.go          the first rows, and which of them seems to name the columns
//	edit.go         cells that a person corrected, and rows that they leave out
//	mapping.go      what the user says about columns, in a file, as flags or parameters
//	columns.go      header and mapping to the layout of the JSON body
//	encode.go       cells to JSON
//	row.go          rows to orders, by the signing rules
//	problem.go      what is wrong with a row, and what to do about it
//	question.go     cells that a spreadsheet has probably spoiled
//	numbers.go      numbers as people write them: decimal commas, thousands, and as a spreadsheet rounds them
//	scan.go         the pipeline: reading, encoding and what follows overlap; order numbers
//	                that occur twice, in bounded memory
//	check.go        the first pass: can every row be sent?
//	summary.go      what became of the rows, counted
//	publish.go      the second pass: look up, decide, enqueue, save progress
//	canary.go       the first orders alone, and the rest once they are accepted
//	conflict.go     an order that exists under a row's number, and results without their mapping
//	lane.go         where orders wait for their turn, their time, or room in a full queue
//	wait.go         waits for the outcomes, and counts an import's orders by outcome
//	list.go         a list of order numbers that somebody else made
//	results.go      each row with its outcome; the rows that could not be enqueued, the orders that were accepted
//	grid.go         each row as a page shows it, and what became of its order
//	totals.go       control totals: what somebody expects of the file
//	trailer.go      the record that ends a file, and its control totals
//	spreadsheet.go  writes rows for spreadsheets: CSV, or a workbook, no cell of which it would run
//
// An import reads its file several times and holds only a few chunks of it in memory. It
// needs a file that nobody changes, so the commands and the console give it their own copy.
// The batch id is a hash of content and mapping. The intent of each row has the ID
// <batch>:<row>. Running the same command again therefore enqueues nothing twice.
package importer
