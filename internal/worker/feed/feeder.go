package feed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// roundEvery is the time between two looks, dryEvery while workers had nothing to do,
	// idleEvery while another worker feeds, or after a listing that failed. In a large fleet
	// each worker looks every idleMost: one of them soon finds that nobody feeds.
	roundEvery = 100 * time.Millisecond
	dryEvery   = 20 * time.Millisecond
	idleEvery  = 250 * time.Millisecond
	idleMost   = 4 * time.Second
	// listEvery is how often the feeder lists what waits, if it knows of something.
	listEvery = 500 * time.Millisecond
	// sweepEvery is how often it looks for times that are long past.
	sweepEvery = time.Minute
	// sumEvery is how often it tells the others what may be sent now.
	sumEvery = 2 * time.Second
	// paceEvery is how often it measures the fleet.
	paceEvery = time.Second
	// paceOver is the time over which it averages.
	paceOver = 3 * time.Second
	// mostDue bounds how many due subjects it keeps in mind that are not blocked. The
	// others stay where they are until these are done.
	mostDue = 4096
	// mostAtOnce bounds one move.
	mostAtOnce = 1000
)

// Options are what a feeder needs.
type Options struct {
	Queue *queue.Queue
	Fleet *fleet.Control
	// Name is this worker's.
	Name string
	// Ruled says that this worker's settings name a rule for approvals: while the fleet has
	// none, because its bucket was lost, nothing is fed.
	Ruled bool
	Log   zerolog.Logger
}

// Feeder feeds the intents stream while it holds the lease.
type Feeder struct {
	Options
	lease *fleet.Lease
	mine  imports.Lease // what the lease says
	turns order.Turns
	now   func() time.Time // this machine's clock, by which times come (reached)

	clockOff bool        // it is ahead of the broker's, and the log says so
	told     string      // the last problem that was logged
	leads    atomic.Bool // this worker held the lease when it last looked

	sources map[string]*source // by subject
	birth   int64              // of the waiting room, whose sequences the sources name
	listed  time.Time
	summed  time.Time
	swept   time.Time
	more    bool // the last sweep found more than the feeder keeps in mind
	// sweepFrom is where the next sweep goes on, if there are very many times.
	sweepFrom int
	unlisted  unlisted
	weights   map[string]int
	pace      pace
	paced     time.Time
	unheld    int // orders that were delivered and that no worker had in hand at the last look

	holds    *imports.Feeding // the imports that are not fed
	heldAt   uint64           // as of this renewal of the lease
	underWay func() bool      // see settle.Mover.MoveUnderWay
	retired  time.Time        // when it looked for cancellations that are done
	looks    []look
	drained  bool // nothing waits, or all that was listed as ready has left

	approvals approvals
}

// New returns a feeder.
func New(o Options) *Feeder {
	f := &Feeder{Options: o, now: time.Now, sources: make(map[string]*source), underWay: o.Queue.Mover.MoveUnderWay}
	f.approvals.feeder = f
	f.lease = fleet.NewLease(o.Queue.Bucket(), imports.LeaseKey, o.Name, &f.mine, f.restart)
	return f
}

// Run feeds until ctx ends. Then another worker may feed at once.
func (f *Feeder) Run(ctx context.Context) {
	var beside sync.WaitGroup
	besides, stop := context.WithCancel(ctx)
	beside.Go(func() { f.approvals.run(besides) })
	defer func() {
		stop()
		beside.Wait()
		if f.underWay() { // the next feeder must not begin before that is over
			return
		}
		if err := f.lease.Leave(); err != nil {
			f.Log.Debug().Err(err).Msg("another worker feeds the queue in a few seconds")
		}
	}()
	for wait := time.Duration(0); ; {
		if settle.Sleep(ctx, wait) != nil {
			return
		}
		var err error
		if wait, err = f.round(ctx); ctx.Err() != nil {
			return
		}
		f.tell(err)
	}
}

// tell logs a problem once, and its end. A queue that is full is none of the feeder: it goes on
// as the workers settle orders, and a queue or a disk that stays full is told as that.
func (f *Feeder) tell(err error) {
	if errors.Is(err, settle.ErrFull) {
		err = nil
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == f.told:
	case err == nil:
		f.Log.Info().Msg("the waiting room is fed again")
	default:
		f.Log.Warn().Err(err).Msg("waiting orders are not fed at the moment; will retry")
	}
	f.told, f.mine.Problem = text, text
}

// restart begins at the first intents: another worker fed until now, or nobody.
func (f *Feeder) restart(context.Context, []byte) error {
	clear(f.sources)
	f.listed, f.swept, f.summed, f.looks, f.heldAt, f.unlisted = time.Time{}, time.Time{}, time.Time{}, nil, 0, unlisted{}
	f.mine.Holds, f.mine.Lanes = 0, nil
	return nil
}

// Leads reports whether this worker holds the lease. Others may hold it a moment later, so
// it only saves work that one worker of a fleet is enough for.
func (f *Feeder) Leads() bool { return f.leads.Load() }

// round makes one step, and returns how long to wait before the next one.
func (f *Feeder) round(ctx context.Context) (wait time.Duration, err error) {
	feeds, err := f.lease.Keep(ctx)
	if fed := f.leads.Swap(feeds); feeds && !fed {
		f.Log.Debug().Msg("this worker feeds the queue from the waiting room")
	}
	if err != nil || !feeds {
		return f.Fleet.Spread(idleEvery, idleMost), err
	}
	if behind, err := f.readHolds(ctx); err != nil || behind {
		return roundEvery, ignoreBehind(err)
	}
	if err := f.list(ctx); err != nil {
		return idleEvery, err
	}
	if err := f.cancel(ctx); err != nil {
		return roundEvery, err
	}
	if err := f.moveUnlisted(ctx); err != nil {
		return idleEvery, err
	}
	if f.ready() == 0 {
		return roundEvery, nil
	}
	return f.fill(ctx)
}

// fill feeds what the intents stream has room for. A slow listing must not use up the
// term. If it did, a person may have been told meanwhile that nobody feeds.
func (f *Feeder) fill(ctx context.Context) (wait time.Duration, err error) {
	if feeds, err := f.lease.Keep(ctx); err != nil || !feeds {
		return idleEvery, err
	}
	if behind, err := f.readHolds(ctx); err != nil || behind {
		return roundEvery, ignoreBehind(err)
	}
	n, err := f.room(ctx)
	if err != nil || n <= 0 {
		return roundEvery, err
	}
	left, err := f.feed(ctx, n)
	switch {
	case err != nil || left == 0:
		return roundEvery, err
	case n > mostAtOnce: // there is room for more
		return 0, nil
	case f.looks[len(f.looks)-1].dry:
		return dryEvery, nil
	default:
		return roundEvery, nil
	}
}
