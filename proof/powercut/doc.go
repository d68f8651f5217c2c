// Package powercut builds the disk states that a power cut may leave of a running
// worker with its embedded broker, and starts the real programs on each.
//
//	record.go   runs the worker under strace while orders flow; load.go is what flows, producer.go
//	            publishes it from outside, api.go is the API
//	recording.go  the traces of all its sessions, read
//	strace.go   the lines of strace, joined to system calls
//	replay.go   system calls to operations on files (names.go: on folders)
//	wire.go     system calls on sockets to what left the process, and when: confirmations
//	            (nats.go) and requests to the API (posts.go)
//	disk.go     which operations a power cut keeps for certain, by file system
//	state.go    which moments and which of the others are tried: nothing but what is
//	            certain, and what a seed draws
//	judge.go    starts the broker on a state: is every confirmed message there?
//	resume.go   starts a worker on a state: is every order settled, and none created twice?
//	shrink.go   the fewest dropped operations that still lose
//	explore.go  tries states, many at a time
//	run.go      the command, and print.go its table
//
// docs/reliability.md explains the method.
package powercut
