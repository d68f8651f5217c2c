package chaos

import (
	"math/rand/v2"
	"time"
)

// event is one fault of the schedule.
type event struct {
	Fault string
	// At is when it comes, counted from the run's start. For is how long it stands.
	At, For time.Duration
	// Seed decides the details, such as the worker.
	Seed uint64
}

// plan returns the faults of a run, which depend only on the seed. It draws them from a
// shuffled deck that holds each fault according to its weight, so none is missing by
// chance. Different faults may overlap, the same one does not.
func plan(seed uint64, faults []fault, length, gap time.Duration) []event {
	draw := rand.New(rand.NewPCG(seed, 3))
	standing := make(map[string]time.Duration) // when each fault ends
	var events []event
	var deck []fault
	for at := gap; at < length; at += gap/2 + time.Duration(draw.Int64N(int64(gap)+1)) {
		if len(deck) == 0 {
			deck = shuffled(draw, faults)
		}
		if len(deck) == 0 {
			return nil
		}
		f := deck[0]
		deck = deck[1:]
		e := event{Fault: f.name, At: max(at, standing[f.name]+gap), Seed: draw.Uint64(),
			For: min(length/4, f.least+time.Duration(draw.Int64N(int64(f.most-f.least)+1)))}
		if e.At+e.For > length {
			continue
		}
		standing[f.name] = e.At + e.For
		events = append(events, e)
	}
	return events
}

func shuffled(draw *rand.Rand, faults []fault) (deck []fault) {
	for _, f := range faults {
		for range f.weight {
			deck = append(deck, f)
		}
	}
	draw.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}
