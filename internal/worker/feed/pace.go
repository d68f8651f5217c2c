package feed

import (
	"context"
	"math"
	"time"

	"orderpost/internal/queue"
)

// pace is what a fleet does at the moment, summed over its workers.
type pace struct {
	// perSecond is the number of intents that leave the queue in a second, those
	// included that are settled without a request (cancelled, expired, done before).
	perSecond float64
	// slots is how many orders the workers can have in hand at once.
	slots int
	// posting is how many requests are at the API on average. Such orders keep
	// nobody waiting.
	posting float64
	// limit is the fleet's rate limit in requests per second; 0 = none.
	limit float64
}

// minDepth keeps a tiny fleet busy between two looks of the feeder.
const minDepth = 8

// depth returns how many intents the queue should hold, those in hand included,
// while others wait for their turn. An order that arrives at the queue directly
// then waits for about one second: it waits for the intents that arrived before
// and are not yet at the API.
//
// The floor keeps slots busy while the pace is not known yet, or while the API is
// so slow that a second's worth is less than one order for each slot. With a rate
// limit, more than a second's worth of the limit would only wait at the gate.
func (p pace) depth() int {
	floor, second := float64(p.slots)*1.25, p.perSecond
	if p.limit > 0 {
		floor, second = min(floor, p.limit), min(second, p.limit)
	}
	return int(math.Ceil(max(p.posting+second, floor, minDepth)))
}

// measureFleet reads what the workers say about themselves, and the weights.
func (f *Feeder) measureFleet(ctx context.Context) error {
	view, err := f.Fleet.Read(ctx)
	if err != nil {
		return err
	}
	b, err := f.Queue.Census.Backlog(ctx)
	if err != nil {
		return err
	}
	f.paced, f.weights, f.unheld = time.Now(), view.Lanes, b.Delivered
	f.pace.slots, f.pace.posting, f.pace.limit = 0, 0, view.LimitPerSecond()
	for _, p := range view.Present() {
		f.unheld -= p.InFlight
		f.pace.slots += max(p.Slots, p.InFlight)
		f.pace.posting += p.Posting
	}
	f.unheld = max(0, f.unheld)
	return nil
}

// room returns how many intents the stream should get now. What was delivered since the last
// look at the fleet is in hand, although the workers' signs of life do not say so yet.
func (f *Feeder) room(ctx context.Context) (int, error) {
	b, err := f.Queue.Census.Backlog(ctx)
	if err != nil {
		return 0, err
	}
	f.pace.perSecond = f.measure(time.Now(), b)
	return f.pace.depth() - b.Undelivered - max(0, b.Delivered-f.unheld), nil
}

// look is how many intents had left the stream at a moment.
type look struct {
	at   time.Time
	gone uint64
	dry  bool // the workers had been given everything
}

// measure returns how many intents leave the stream in a second: the mean of the last
// seconds, or twice what left between two looks if the stream then was dry, since the workers
// could have taken more. Otherwise a fleet that begins would be fed slowly for seconds.
func (f *Feeder) measure(now time.Time, b queue.Backlog) float64 {
	if n := len(f.looks); n > 0 && b.Gone < f.looks[n-1].gone {
		f.looks = nil // another stream
	}
	f.looks = append(f.looks, look{now, b.Gone, b.Undelivered == 0})
	for len(f.looks) > 2 && now.Sub(f.looks[1].at) >= paceOver {
		f.looks = f.looks[1:]
	}
	rate := func(from, to look, atLeast time.Duration) float64 {
		return float64(to.gone-from.gone) / max(to.at.Sub(from.at), atLeast).Seconds()
	}
	most := rate(f.looks[0], f.looks[len(f.looks)-1], time.Second)
	for i := 1; i < len(f.looks); i++ {
		if f.looks[i].dry {
			most = max(most, 2*rate(f.looks[i-1], f.looks[i], roundEvery))
		}
	}
	return most
}
