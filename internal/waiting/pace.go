package waiting

import (
	"context"
	"time"
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
	b, err := f.Queue.Backlog(ctx)
	if err != nil {
		return 0, err
	}
	f.pace.PerSecond = f.measure(time.Now(), b.Gone)
	return f.pace.Depth() - b.Undelivered - min(b.Delivered, f.inHand), nil
}

// measure returns how many intents left the stream in a second, lately.
func (f *Feeder) measure(now time.Time, gone uint64) float64 {
	if n := len(f.measured); n > 0 && gone < f.measured[n-1].gone {
		f.measured = nil // another stream
	}
	f.measured = append(f.measured, removal{now, gone})
	for len(f.measured) > 2 && now.Sub(f.measured[1].at) >= paceOver {
		f.measured = f.measured[1:]
	}
	first := f.measured[0]
	over := max(now.Sub(first.at), time.Second)
	return float64(gone-first.gone) / over.Seconds()
}
