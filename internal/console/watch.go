package console

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
)

const (
	// freshFor is how old a snapshot may be that a page shows.
	freshFor = time.Second
	// bannerFor is how old the snapshot may be that the banner of a page shows.
	bannerFor = 2 * time.Second
	// readTimeout bounds one reading of the streams for a page.
	readTimeout = 3 * time.Second
	// watchEvery is how often the streams are followed while somebody looks.
	watchEvery = time.Second
	// watchFor is how long after the last page nobody counts as looking any more.
	watchFor = 15 * time.Second
)

// snapshot is what the pages show of the installation as a whole.
type snapshot struct {
	At     time.Time
	Counts queue.Counts
	// Undelivered counts the intents of the queue that no worker was given.
	Undelivered uint64
	Fleet       *fleet.View
	Workers     []fleet.Presence
	// Doors are the processes that let orders in, or outcomes out.
	Doors []fleet.Door
	// Told is the fleet in sentences.
	Told fleet.Told
	// Paused counts the imports that are not fed from the waiting room.
	Paused int
	// Approvals are what needs a second person, and what was approved.
	Approvals *imports.Feeding
	// Missing names what the broker does not have.
	Missing []string
}

// watch reads the streams once for all viewers, and not at all while nobody looks.
type watch struct {
	queue   *queue.Queue
	fleet   *fleet.Control
	log     zerolog.Logger
	minutes *minutes
	letters *letterWatch

	reading sync.Mutex // one reading at a time

	mu     sync.Mutex
	last   *snapshot
	away   time.Time // since when the broker is out of reach; zero = it is there
	looked time.Time
	wake   chan struct{}
}

func newWatch(q *queue.Queue, f *fleet.Control, log zerolog.Logger) *watch {
	return &watch{queue: q, fleet: f, log: log, minutes: newMinutes(q), letters: newLetters(q, log), last: &snapshot{Fleet: &fleet.View{}}, wake: make(chan struct{}, 1)}
}

// look returns what is known now. While the broker is out of reach that is what was
// known before.
func (w *watch) look(ctx context.Context) *snapshot {
	last := w.see()
	poke(w.wake)
	if time.Since(last.At) < freshFor || !w.queue.Conn.Connected() {
		w.noteConnection()
		return last
	}
	w.reading.Lock() // whoever waits here finds the new snapshot
	defer w.reading.Unlock()
	w.mu.Lock()
	last = w.last
	w.mu.Unlock()
	if time.Since(last.At) < freshFor {
		return last
	}
	// The reading goes on for the others if this person closes the page.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	next, err := w.read(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.log.Warn().Err(err).Msg("the streams could not be read for the console")
		w.note(true)
		return last
	}
	w.note(false)
	w.last = next
	return next
}

// nothingSent is the sentence for every page, as of a moment ago; "" = orders are sent,
// or it is not known. wait says that it may read the fleet for it.
func (w *watch) nothingSent(ctx context.Context, wait bool) string {
	s := w.see()
	if wait && time.Since(s.At) > bannerFor {
		s = w.look(ctx)
	}
	if time.Since(s.At) > watchFor {
		return "" // the page says that the broker is away
	}
	return s.Told.NothingSent
}

// see notes that somebody looks, and returns what was known last.
func (w *watch) see() *snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = time.Now()
	return w.last
}

// read reads everything that the overview and the fleet's page show.
func (w *watch) read(ctx context.Context) (*snapshot, error) {
	s := &snapshot{Fleet: &fleet.View{}}
	parts, err := w.queue.Topology.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	missing := func(names ...queue.Part) bool {
		return slices.ContainsFunc(parts, func(p queue.PartState) bool { return p.Missing() && slices.Contains(names, p.Part) })
	}
	for _, p := range parts {
		if p.Missing() {
			s.Missing = append(s.Missing, p.Name)
		}
	}
	if !missing(queue.PartIntents, queue.PartResults, queue.PartLetters, queue.PartWaiting) {
		if s.Counts, err = w.queue.Census.Count(ctx); err != nil {
			return nil, err
		}
	}
	var deliveries queue.Deliveries
	if !missing(queue.PartConsumer, queue.PartIntents) {
		if deliveries, err = w.queue.Census.Deliveries(ctx); err != nil {
			return nil, err
		}
		s.Undelivered = deliveries.Undelivered
	}
	if !missing(queue.PartFleet) {
		if s.Fleet, err = w.fleet.Look(ctx); err != nil {
			return nil, err
		}
		feeding, err := imports.ReadFeeding(ctx, w.queue, 0)
		if err != nil {
			return nil, err
		}
		s.Paused, s.Approvals = len(feeding.Holds), feeding
		s.Told = s.Fleet.Tell(time.Now(), deliveries.AckWait)
	}
	s.Workers, s.Doors = s.Fleet.Present(), s.Fleet.Doors()
	slices.SortStableFunc(s.Workers, func(a, b fleet.Presence) int { return strings.Compare(a.Worker, b.Worker) })
	s.At = time.Now()
	return s, nil
}

// run follows the streams while somebody looks, until ctx ends.
func (w *watch) run(ctx context.Context) {
	rounds(ctx, w.wake, func() {
		w.noteConnection()
		if w.watched() && w.queue.Conn.Connected() {
			if err := w.minutes.follow(ctx, time.Now()); err != nil && ctx.Err() == nil && !away(err) {
				w.log.Warn().Err(err).Msg("results could not be followed for the console")
			}
		}
	})
}

// rounds calls do once a second, and at once for the first page that wakes it after a while,
// until ctx ends.
func rounds(ctx context.Context, wake <-chan struct{}, do func()) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-wake:
		}
		do()
		select { // a page that is opened meanwhile needs no second round at once
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// poke wakes who waits on a channel with room for one.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (w *watch) watched() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.looked) < watchFor
}

// noteConnection notes whether the broker is in reach.
func (w *watch) noteConnection() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.queue.Conn.Connected() {
		w.note(true)
	} else if time.Since(w.last.At) < watchFor {
		w.note(false)
	}
}

func (w *watch) note(gone bool) {
	switch {
	case !gone:
		w.away = time.Time{}
	case w.away.IsZero():
		w.away = time.Now().UTC()
	}
}

// forget makes the next page read anew, because somebody has just changed what it
// shows.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := *w.last
	old.At = time.Time{}
	w.last = &old
}

// awaySince returns when the broker went out of reach; zero if it is there.
func (w *watch) awaySince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.away
}

// away reports whether an error says that the broker did not answer.
func away(err error) bool {
	return errors.Is(err, queue.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
