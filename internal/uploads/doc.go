// Package uploads keeps the files that people upload to the console and programs to the
// HTTP door, and checks and imports them as enqueue does.
//
//	store.go    the folder, its lock, what a start finds, retention
//	keep.go     one upload: bounded, to disk, complete or not at all
//	zip.go      the files in a zip archive
//	durable.go  what a power cut must not take
//	sink.go     what is written counts, and a full disk has a sentence
//	content.go  a kept file as the importer reads it
//	upload.go   what is remembered of an upload
//	look.go     an upload at one moment, with its job
//	refusal.go  errors that the person who uploads can act on
//	desk.go     one job at a time for each upload: check or import
//	check.go    the check, by the code of enqueue --dry-run
//	import.go   the import, by the code of enqueue
//	submit.go   a check and an import without a person between them
//	journal.go  imports in the fleet's journal
//	results.go  results and rejects as streams
//
// A kept file has the same batch and the same intents as the file that was uploaded
// has with enqueue: plain text is packed on disk and unpacked for the importer, and a
// workbook, or a file that came as gzip or zstd, stays as it is.
//
// Text is packed with zstd, not gzip: at the fastest level it packs a CSV file as
// small and unpacks it faster than the check reads.
package uploads
