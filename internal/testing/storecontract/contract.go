package storecontract

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// Broker is a broker of one test's own, as a connected process sees it.
type Broker struct {
	Store settle.Store
	// Subject returns the subject of intents for an order_no.
	Subject func(orderNo string) string
	// Wait puts an intent into the waiting room and returns its sequence there.
	Wait func(orderNo, id string) uint64
	// Pull requests n intents. It returns when they have arrived, or after wait with
	// those that have.
	Pull func(n int, wait time.Duration) []settle.Arrival
	// AckWait is how long the broker waits for an acknowledgement.
	AckWait time.Duration
	// Now reads the clock by which AckWait passes.
	Now func() time.Time
	// Soon waits until a condition holds. It reports false if it gave up.
	Soon func(holds func() bool) bool
	// Fill makes the broker refuse results, letters and marks, and MakeRoom ends that.
	Fill, MakeRoom func()
	// Restart restarts the broker. Connections break, and come back by themselves.
	Restart func()
	// Cut breaks the connection for good.
	Cut func()
	// Lag makes the replica that answers Records lag behind the leader, and CatchUp ends
	// that. Only tests of a cluster set them.
	Lag, CatchUp func()
}

// Promise is one thing that the protocol relies on.
type Promise struct {
	Name string
	Keep func(t require.TestingT, b *Broker)
}

// Promises lists what every broker keeps.
func Promises() []Promise {
	return []Promise{
		{"a record is read as it was last written", recordIsReadAsLastWritten},
		{"a record is written only on the expected one", recordIsConditional},
		{"a batched read answers for each token", batchAnswersForEach},
		{"a mark is written only on the expected one", markIsConditional},
		{"a letter is read as it was written", letterIsReadAsWritten},
		{"letters of one order_no stay beside one another", lettersStayBesideOneAnother},
		{"a letter is removed, and no other", letterIsRemoved},
		{"letters are listed from a sequence on", lettersAreListed},
		{"a letter takes any body", aLetterTakesAnyBody},
		{"one intent for each order_no", oneIntentForEach},
		{"an intent's ID is known again", intentIsKnown},
		{"an intent is removed, and no other", intentIsRemoved},
		{"several intents are published as one by one", severalIntents},
		{"nothing is sent after a refusal to send", mayIsAsked},
		{"what waits is removed, and nothing else", waitingIsRemoved},
		{"a purge takes what waits under one subject, up to a sequence", waitingIsPurged},
		{"the stream has a birth and an end", streamHasABirth},
		{"an acknowledged intent does not come again", ackRemoves},
		{"the floor rises over what is acknowledged, and a purge takes it", floorRises},
		{"the floor passes what was removed", floorPassesRemoved},
		{"a returned intent comes again", nakReturns},
		{"a purge holds up what is to come again", purgeForgetsAgain},
		{"an intent comes again after the delay", nakDelays},
		{"a request for more time ends a delay", extendIntentEndsADelay},
		{"an intent that nobody acknowledges comes again", ackWaitEnds},
		{"an extended claim lasts longer", extendLasts},
		{"a former owner's answers count", formerOwnersCount},
		{"a removed intent does not come again", removedStaysAway},
		{"the highest delivery is known", deliveredIsTheHighest},
		{"a broker without room stores nothing and says so", fullRefuses},
		{"no answer is no refusal", cutIsUnconfirmed},
		{"a restarted broker has what it confirmed", restartKeeps},
	}
}

// Replicas lists what a broker with more than one replica keeps besides.
func Replicas() []Promise {
	return []Promise{
		{"an answer with the barrier has what was confirmed before", barrierIsExact},
	}
}

// Test tries the promises. with opens a broker and calls body as a process of it.
func Test(t *testing.T, promises []Promise, with func(t *testing.T, body func(b *Broker))) {
	for _, p := range promises {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			with(t, func(b *Broker) { p.Keep(t, b) })
		})
	}
}

// Broken reports whether a broker breaks the promise.
func (p Promise) Broken(b *Broker) (broken bool) {
	defer func() {
		r := recover()
		if _, broken = r.(finding); r != nil && !broken {
			panic(r)
		}
	}()
	p.Keep(finding{}, b)
	return false
}

// finding ends a promise at its first failed check. It implements require.TestingT.
type finding struct{}

func (finding) Errorf(string, ...any) {}
func (f finding) FailNow()            { panic(f) }

// within returns a context for one request. No broker needs that long.
func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// long is how long a pull waits for what must come.
const long = time.Minute

// moment is how long a pull waits for what must not come.
const moment = 300 * time.Millisecond
