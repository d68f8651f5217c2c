package waiting

import (
	"context"
	"time"

	"orderpost/internal/queue"
)

// measureFleet reads what the workers say about themselves, and the weights.
func (f *Feeder) measureFleet(ctx context.Context) error {
	view, err := f.Fleet.Read(ctx)
	if err != nil {
		return err
	}
	f.paced, f.weights, f.inHand = time.Now(), view.Lanes, 0
	f.pace.Slots, f.pace.Posting, f.pace.Limit = 0, 0, 0
	limited := true
	for _, p := range view.Present() {
		f.inHand += p.InFlight
		f.pace.Slots += max(p.Slots, p.InFlight)
		f.pace.Posting += p.Posting
		f.pace.Limit += p.Share
		limited = limited && p.Share > 0
	}
	if !limited {
		f.pace.Limit = 0
	}
	return nil
}

// room returns how many intents the stream should get now.
func (f *Feeder) room(ctx context.Context) (int, error) {
	b, err := f.Queue.Census.Backlog(ctx)
	if err != nil {
		return 0, err
	}
	f.pace.PerSecond = f.measure(time.Now(), b)
	return f.pace.Depth() - b.Undelivered - min(b.Delivered, f.inHand), nil
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
