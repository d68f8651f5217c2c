// Package patient is for tests alone. It judges what a busy machine delays: goroutines that
// end late, and how long the process stood still. It tells what memory a process takes, and whether
// the race detector is on. Its Buffer collects output that is read meanwhile.
package patient

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end. Those of nats-server and of closed
// connections end by themselves; goleak alone waits less than half a second for them.
const patience = time.Minute

// Main runs a package's tests, and fails if goroutines are left when they are over. Call
// it in TestMain; it ends the process.
func Main(m *testing.M, options ...goleak.Option) {
	options = append(options, ofBrokers()...)
	goleak.VerifyTestMain(run{m, options}, options...)
}

// ofBrokers ignores what nats-server (2.15) leaves behind: the file store of an atomic batch in
// the middle of which a broker was stopped, or of a stream that a cluster gave to a server
// which stopped just then.
func ofBrokers() []goleak.Option {
	const server = "github.com/nats-io/nats-server/v2/server"
	return []goleak.Option{goleak.IgnoreTopFunction(server + ".(*msgBlock).flushLoop"), goleak.IgnoreTopFunction(server + ".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction(server + "/ats.Register.func1")}
}

// run is a testing.M that ends when no goroutines are left, or patience is over.
type run struct {
	*testing.M
	options []goleak.Option
}

// Run implements goleak.TestingM.
func (r run) Run() int {
	code := r.M.Run()
	if code == 0 {
		_ = settled(r.options)
	}
	return code
}

// settled waits until no goroutines are left. It returns an error with their stacks if
// some are when patience is over.
func settled(options []goleak.Option) error {
	for began := time.Now(); ; {
		err := goleak.Find(options...) // which looks several times
		if err == nil || time.Since(began) > patience {
			return err
		}
	}
}
