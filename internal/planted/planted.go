// Package planted holds the faults that are built into a worker on purpose, to prove
// that the checkers find them: chaos's judge of histories, and the soak. They
// exist only in a program built with the tag planted. In every other build Is is false
// for the compiler, which leaves them out.
//
//	go build -tags planted ./cmd/worker
//	ORDERPOST_PLANTED_FAULT=ack-first ./worker
package planted

// Fault is one of the faults, as ORDERPOST_PLANTED_FAULT names it.
type Fault string

// The faults.
const (
	// AckFirst: a worker acknowledges an intent before it writes the outcome (R4).
	AckFirst Fault = "ack-first"
	// Blind: a worker posts a redelivered order without looking at its record (R2).
	Blind Fault = "blind"
	// OldTimestamp: a further attempt is sent with the timestamp of the first.
	OldTimestamp Fault = "old-timestamp"
	// TrimAhead: the log of intents is purged up to what was delivered, before the results
	// are certain (R14).
	TrimAhead Fault = "trim-ahead"
	// Leak: each settled order leaves 16 kB, and every other one a goroutine and a file.
	Leak Fault = "leak"
)

// Faults lists them.
func Faults() []Fault { return []Fault{AckFirst, Blind, OldTimestamp, TrimAhead, Leak} }
