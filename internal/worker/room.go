package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/ops"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

const (
	// roomEvery is how often storage is looked at.
	roomEvery = time.Second
	// reviveLeast is what must be free before the embedded broker is started
	// anew, in bytes: its start writes a little.
	reviveLeast = 512 << 10
	// reviveMost bounds the pause between two starts, which doubles.
	reviveMost = time.Minute
)

// What is kept free for the settling of orders, in bytes.
const (
	// settleCost is the room of one order's result, with the notes before it and
	// the particulars of its dead letter, whose body comes on top.
	settleCost = 4 << 10
	// The reserve is a twentieth of what is free, within these bounds, and half of
	// the disk at most: for the fleet's bucket, whose replaced entries take up to
	// 2 MiB, and what the broker writes about itself.
	leastReserve = 4 << 20
	mostReserve  = 1 << 30
)

// store is the embedded broker's files.
type store interface {
	Disk() (embedded.Disk, error)
	Fault() error
	Revive() error
}

// room looks after the broker's storage. In the worker that runs the embedded
// broker it also keeps room for what is taken in already, by limits of the
// intents stream, and starts the broker anew after a disk was full.
type room struct {
	store store // nil where another process runs the broker
	queue *queue.Queue
	log   zerolog.Logger
	every time.Duration
	probe func() error  // opens a file
	pause time.Duration // before the next start
	retry time.Time     // of the broker's start

	mu    sync.Mutex // guards state
	state ops.Store
}

func newRoom(s *embedded.Server, q *queue.Queue, log zerolog.Logger) *room {
	r := &room{queue: q, log: log, every: roomEvery, probe: probeDescriptors}
	if s != nil {
		r.store = s
	}
	return r
}

// run looks until ctx ends.
func (r *room) run(ctx context.Context) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		r.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// snapshot is what was found last.
func (r *room) snapshot() ops.Store {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// told is the same for the fleet: one line for each trouble.
func (r *room) told() (lines []string) {
	s := r.snapshot()
	for _, line := range []string{s.Failing, s.Full} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func (r *room) look(ctx context.Context) {
	var now ops.Store
	var disk *embedded.Disk
	if r.store != nil {
		if d, err := r.store.Disk(); err == nil {
			disk, now.Free = &d, &d.Free
		} else if !errors.Is(err, errors.ErrUnsupported) {
			now.Failing = fmt.Sprintf("the embedded broker's disk cannot be looked at: %v", err)
		}
		if why := r.store.Fault(); why != nil {
			now.Failing = r.revive(why, disk)
		} else {
			r.pause, r.retry = 0, time.Time{}
		}
	}
	if stream, since := r.queue.Silent(); now.Failing == "" && stream != "" {
		now.Failing = fmt.Sprintf("the broker has not answered writes to stream %s since %s: its disk may be full or failing. "+
			"A NATS server gives a stream up after one failed write: look at its log, make room, and start it anew", stream, since.UTC().Format(time.TimeOnly+"Z"))
	}
	if err := r.probe(); err != nil {
		now.Failing = err.Error() // whatever else fails is a consequence
	}
	if now.Failing == "" && ctx.Err() == nil {
		now.Full = r.limit(ctx, disk)
	}
	r.tell(now)
}

// tell logs what has changed.
func (r *room) tell(now ops.Store) {
	r.mu.Lock()
	was := r.state
	r.state = now
	r.mu.Unlock()
	switch {
	case now.Failing != "" && was.Failing == "":
		r.log.Error().Str("what", now.Failing).Msg("results may not be stored; what is in flight waits, and is written as soon as that is mended")
	case now.Failing == "" && was.Failing != "":
		r.log.Info().Msg("results are stored again")
	}
	switch {
	case now.Full != "" && was.Full == "":
		r.log.Warn().Str("what", now.Full).Msg("producers are refused")
	case now.Full == "" && was.Full != "" && now.Failing == "":
		r.log.Info().Msg("producers are not refused any more")
	}
}

// revive starts the broker anew as soon as there is room, and says what it
// waits for.
func (r *room) revive(why error, disk *embedded.Disk) string {
	text := fmt.Sprintf("the embedded broker does not store: %v", why)
	if disk != nil && disk.Free < reviveLeast {
		r.pause, r.retry = 0, time.Time{}
		return fmt.Sprintf("%s; %s of %s are free on its disk: enlarge or empty it, then the broker goes on by itself", text, megabytes(disk.Free), megabytes(disk.Size))
	}
	if time.Now().Before(r.retry) {
		return text + "; it is started anew"
	}
	r.pause = min(max(2*r.pause, time.Second), reviveMost)
	r.log.Warn().Err(why).Msg("starting the embedded broker anew: it does not store any more")
	if err := r.store.Revive(); err != nil {
		text += fmt.Sprintf("; it cannot be started anew: %v", err)
	}
	r.retry = time.Now().Add(r.pause)
	return text
}

// limit adapts the limits of the intents stream to the room on the disk, and
// says why producers are refused, if they are.
func (r *room) limit(ctx context.Context, disk *embedded.Disk) string {
	have, err := r.queue.Room(ctx)
	if err != nil {
		return r.snapshot().Full // nothing new is known; a lost connection is told elsewhere
	}
	if disk == nil {
		return full(have)
	}
	msgs, bytes := limits(*disk, have)
	if moved(have, msgs, bytes) {
		err := r.queue.LimitRoom(ctx, msgs, bytes)
		if err == nil {
			have, err = r.queue.Room(ctx)
		}
		if err != nil {
			r.log.Debug().Err(err).Msg("the limits of the intents stream are left as they are")
			return r.snapshot().Full
		}
	}
	if msgs == queue.Closed {
		return fmt.Sprintf("%s refuses new orders: %s of %s are free on the disk, and are kept to settle the %d orders that were taken in; enlarge or empty it",
			have.Stream, megabytes(disk.Free), megabytes(disk.Size), have.Msgs)
	}
	return full(have)
}

func full(have queue.Room) string {
	if !have.Full() {
		return ""
	}
	var limits []string
	if have.MaxMsgs == queue.Closed {
		return fmt.Sprintf("%s refuses new orders: the disk of its broker has room for the %d orders that were taken in, and no more; enlarge or empty it", have.Stream, have.Msgs)
	}
	if have.MaxMsgs > 0 {
		limits = append(limits, fmt.Sprintf("%d of %d orders", have.Msgs, have.MaxMsgs))
	}
	if have.MaxBytes > 0 {
		limits = append(limits, fmt.Sprintf("%s of %s", megabytes(have.Bytes), megabytes(have.MaxBytes)))
	}
	return fmt.Sprintf("%s is full (%s) and refuses new orders until some are settled", have.Stream, strings.Join(limits, ", "))
}

// limits says how much the intents stream may hold: so much that each intent
// can still get its result, and its dead letter with its body.
func limits(disk embedded.Disk, have queue.Room) (msgs, bytes int64) {
	reserve := min(max(disk.Free/20, leastReserve), disk.Size/2, mostReserve)
	spare := disk.Free - reserve - have.Msgs*settleCost - have.Bytes
	if spare < settleCost {
		return queue.Closed, max(have.Bytes, 1)
	}
	// Half of it is for results and particulars, half for bodies, each of which
	// may be there twice.
	return have.Msgs + max(spare/2/settleCost, 1), have.Bytes + spare/4
}

// moved: the limits differ enough to be worth a write, or in whether anything
// is taken at all.
func moved(have queue.Room, msgs, bytes int64) bool {
	if have.MaxMsgs <= 0 || have.MaxBytes <= 0 || (have.MaxMsgs == queue.Closed) != (msgs == queue.Closed) {
		return true
	}
	apart := func(a, b, held int64) bool { return max(a-b, b-a) > (b-held)/4 }
	return msgs != queue.Closed && (apart(have.MaxMsgs, msgs, have.Msgs) || apart(have.MaxBytes, bytes, have.Bytes))
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
