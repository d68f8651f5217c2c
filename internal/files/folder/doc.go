// Package folder is the protocol of a folder in which other systems drop files: which file is
// complete, how it is taken, and how it leaves again. It knows files, and neither orders nor
// a broker. Package cli/watch imports what this package takes.
//
//	folder.go        a folder, its lock, and what an earlier process left
//	look.go          which files are complete
//	closed_linux.go  whether a program has a file open for writing; closed_other.go cannot tell
//	job.go           a complete file becomes a job: a copy and a record of it, and what becomes of it
//	place.go         a file moves to done/ or refused/
//	disk.go          every change on the disk, step by step
//
// A folder belongs to the process that holds its lock. A file stays where it was dropped until
// its job is done, so a process may be killed between any two steps: the next one reads the
// records and takes the step again. The record of a job is the first thing that exists of
// it and the last that goes.
//
// The people who drop files may write into the folder, and need not be trusted with more: every
// path is opened below the folder (os.Root), and no link is followed.
package folder
