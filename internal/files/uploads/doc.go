// Package uploads keeps the files that people upload to the console and programs to the
// HTTP door, and checks and imports them as enqueue does.
//
//	store.go    the folder, its lock, what a start finds, retention
//	keep.go     one upload, or the files in a zip archive: bounded, to disk, complete or not at all,
//	            whatever a power cut or a full disk does
//	content.go  a kept file as the importer reads it
//	upload.go   what is remembered of an upload, and how it looks at one moment, with its job
//	refusal.go  errors that the person who uploads can act on
//	desk.go     one job at a time for each upload: check, import, or both without a person between them
//	import.go   the check, by the code of enqueue --dry-run, and the import, by the code of enqueue;
//	            imports in the fleet's journal
//	grid.go     the rows of a checked file, any of which a page can show at once
//	results.go  results and rejects as streams
//
// A kept file has the same batch and the same intents as the file that was uploaded
// has with enqueue: plain text is packed on disk and unpacked for the importer, and a
// workbook, or a file that came as gzip or zstd, stays as it is.
//
// Text is packed with zstd, not gzip: at the fastest level it packs a CSV file as
// small and unpacks it faster than the check reads.
package uploads
