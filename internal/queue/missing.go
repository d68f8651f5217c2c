package queue

import "fmt"

// Missing says what Open does about streams that the broker does not have.
type Missing uint8

const (
	// MakeMissing creates the streams on a broker that has none of them. It is
	// for workers and for whoever sets up a broker. If only some are missing
	// and the others hold messages, only a person can tell what was lost, and
	// Open returns *MissingError.
	MakeMissing Missing = iota
	// RefuseMissing makes Open return *MissingError. It is for programs that
	// use the streams and must not trust a broker that no worker has used.
	RefuseMissing
	// LeaveMissing opens whatever exists. It is for programs that only look.
	LeaveMissing
)

// MissingError says that streams are missing. Nothing was created.
type MissingError struct {
	// Broker is the address of the broker, without secrets.
	Broker string
	// Parts names what is missing, such as "stream ORDERS".
	Parts []string
	// Fresh says that the broker has none of the streams.
	Fresh bool
}

// Error says what is missing and what to do about it.
func (e *MissingError) Error() string {
	if e.Fresh {
		return fmt.Sprintf("no %s at %s: no worker has worked with this broker yet, or it has lost all its streams. "+
			"Start a worker first (orderpost worker), which creates them, or correct ORDERPOST_NATS_URL or ORDERPOST_PREFIX", e.Parts[0], e.Broker)
	}
	return fmt.Sprintf("%s at %s, although other streams of this installation are there. %s", DescribeMissing(e.Parts), e.Broker, MissingAdvice)
}

// MissingAdvice tells a person what to do about missing streams.
const MissingAdvice = "Restore what is missing from a backup (nats stream restore), or accept that what it held is lost: orderpost worker repair; " +
	"see OrderpostStreamsMissing in docs/runbook.md"

// DescribeMissing returns a sentence that names the missing parts.
func DescribeMissing(parts []string) string {
	text, verb := parts[0], "is"
	for i, p := range parts[1:] {
		verb = "are"
		if i == len(parts)-2 {
			text += " and " + p
		} else {
			text += ", " + p
		}
	}
	return text + " " + verb + " missing"
}
