package order

import "math"

// Pace is what a fleet does at the moment, summed over its workers.
type Pace struct {
	// PerSecond is the number of intents that leave the queue in a second, those
	// included that are settled without a request (cancelled, expired, done before).
	PerSecond float64
	// Slots is how many orders the workers can have in hand at once.
	Slots int
	// Posting is how many requests are at the API on average. Such orders keep
	// nobody waiting.
	Posting float64
	// Limit is the fleet's rate limit in requests per second; 0 = none.
	Limit float64
}

// minDepth keeps a tiny fleet busy between two looks of the feeder.
const minDepth = 8

// Depth returns how many intents the queue should hold, those in hand included,
// while others wait for their turn. An order that arrives at the queue directly
// then waits for about one second: it waits for the intents that arrived before
// and are not yet at the API.
//
// The floor keeps slots busy while the pace is not known yet, or while the API is
// so slow that a second's worth is less than one order for each slot. With a rate
// limit, more than a second's worth of the limit would only wait at the gate.
func (p Pace) Depth() int {
	floor, second := float64(p.Slots)*1.25, p.PerSecond
	if p.Limit > 0 {
		floor, second = min(floor, p.Limit), min(second, p.Limit)
	}
	return int(math.Ceil(max(p.Posting+second, floor, minDepth)))
}
