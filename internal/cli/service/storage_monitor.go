package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/ops"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

const (
	// storageEvery is how often the storage is checked.
	storageEvery = time.Second
	// storageMost is how often at least a worker of a large fleet asks another process's broker
	// whether the queue takes orders.
	storageMost = 10 * time.Second
	// reviveMinFree is how many bytes must be free for a restart of the embedded broker,
	// which writes a little when it starts.
	reviveMinFree = 512 << 10
	// revivePauseMax is the longest pause between two restarts. The pause doubles.
	revivePauseMax = time.Minute
)

// How many bytes are kept free to settle orders.
const (
	// settleRoom is the size of one order's result, its notes and its dead letter,
	// without the letter's body.
	settleRoom = 4 << 10
	// The reserve is a twentieth of the free space, within these bounds, and at most
	// half the disk. It is for the fleet's bucket, whose replaced entries take up to
	// 2 MiB, and for the broker's own data.
	minReserve = 4 << 20
	maxReserve = 1 << 30
)

// store is the storage of the embedded broker.
type store interface {
	Disk() (embedded.Disk, error)
	Fault() error
	Revive() error
}

// storageMonitor checks whether the broker stores what it is sent. In the worker that
// runs the embedded broker, it also limits the intents stream, so the orders in the
// queue can still be settled when the disk fills up, and it restarts the broker's
// storage after a full disk.
type storageMonitor struct {
	store store // nil = another process runs the broker
	queue *queue.Queue
	fleet *fleet.Control
	log   zerolog.Logger
	every time.Duration
	asked time.Time     // when another process's broker was asked last
	probe func() error  // looks for a free file descriptor
	pause time.Duration // before the next restart
	retry time.Time     // earliest time of the next restart

	mu    sync.Mutex // guards state
	state ops.Store
}

func newStorageMonitor(s *embedded.Server, q *queue.Queue, f *fleet.Control, log zerolog.Logger) *storageMonitor {
	m := &storageMonitor{queue: q, fleet: f, log: log, every: storageEvery, probe: probeDescriptors}
	if s != nil {
		m.store = s
	}
	return m
}

// run checks the storage until ctx ends.
func (m *storageMonitor) run(ctx context.Context) {
	repeat(ctx, func() time.Duration { return m.every }, nil, m.look)
}

// snapshot returns the last result.
func (m *storageMonitor) snapshot() ops.Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// problems returns the last result for the fleet, one line per problem.
func (m *storageMonitor) problems() (lines []string) {
	s := m.snapshot()
	for _, line := range []string{s.Failing, s.Full} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func (m *storageMonitor) look(ctx context.Context) {
	var now ops.Store
	var disk *embedded.Disk
	if m.store != nil {
		if d, err := m.store.Disk(); err == nil {
			disk, now.Free = &d, &d.Free
		} else if !errors.Is(err, errors.ErrUnsupported) {
			now.Failing = fmt.Sprintf("cannot read the free space of the embedded broker's disk: %v", err)
		}
		if why := m.store.Fault(); why != nil {
			now.Failing = m.revive(why, disk)
		} else {
			m.pause, m.retry = 0, time.Time{}
		}
	}
	if stream, since, why := m.queue.Silent(); now.Failing == "" && stream != "" {
		now.Failing = fmt.Sprintf("the broker has not answered writes to stream %s since %s: %v", stream, since.UTC().Format(time.TimeOnly+"Z"), why)
	}
	if err := m.probe(); err != nil {
		now.Failing = err.Error() // all other failures follow from this one
	}
	if now.Failing == "" && ctx.Err() == nil {
		now.Full = m.limit(ctx, disk)
	}
	m.logChanges(now)
}

// logChanges logs what has changed.
func (m *storageMonitor) logChanges(now ops.Store) {
	m.mu.Lock()
	was := m.state
	m.state = now
	m.mu.Unlock()
	switch {
	case now.Failing != "" && was.Failing == "":
		m.log.Error().Str("what", now.Failing).Msg("the broker may not store results; orders in flight wait, and their results are written once the cause is removed")
	case now.Failing == "" && was.Failing != "":
		m.log.Info().Msg("results are stored again")
	}
	switch {
	case now.Full != "" && was.Full == "":
		m.log.Warn().Str("what", now.Full).Msg("the queue refuses new orders")
	case now.Full == "" && was.Full != "" && now.Failing == "":
		m.log.Info().Msg("the queue takes new orders again")
	}
}

// revive restarts the broker's storage as soon as there is room. It returns a text that
// says what it waits for.
func (m *storageMonitor) revive(why error, disk *embedded.Disk) string {
	text := fmt.Sprintf("the embedded broker does not store: %v", why)
	if disk != nil && disk.Free < reviveMinFree {
		m.pause, m.retry = 0, time.Time{}
		return fmt.Sprintf("%s; %s of %s are free on its disk: make room, then the broker goes on by itself", text, megabytes(disk.Free), megabytes(disk.Size))
	}
	if time.Now().Before(m.retry) {
		return text + "; it is being restarted"
	}
	m.pause = min(max(2*m.pause, time.Second), revivePauseMax)
	m.log.Warn().Err(why).Msg("the embedded broker no longer stores; restarting it")
	if err := m.store.Revive(); err != nil {
		text += fmt.Sprintf("; it cannot be restarted: %v", err)
	}
	m.retry = time.Now().Add(m.pause)
	return text
}

// limit adapts the limits of the intents stream to the free space. It returns why the
// stream refuses new orders; "" = it takes them.
func (m *storageMonitor) limit(ctx context.Context, disk *embedded.Disk) string {
	if m.store == nil {
		if pause := m.fleet.Spread(m.every, storageMost); pause > m.every && time.Since(m.asked) < pause {
			return m.snapshot().Full
		}
		m.asked = time.Now()
	}
	have, err := m.queue.Census.Room(ctx)
	if err != nil {
		return m.snapshot().Full // keep the last result; the queue logs a lost connection
	}
	if disk == nil {
		if have.Full() {
			return full(have)
		}
		waiting, err := m.queue.Census.WaitingRoom(ctx)
		if err != nil {
			return m.snapshot().Full
		}
		return full(waiting)
	}
	msgs, bytes := limits(*disk, have)
	if worthSetting(have, msgs, bytes) {
		err := m.queue.Census.LimitRoom(ctx, msgs, bytes)
		if err == nil {
			have, err = m.queue.Census.Room(ctx)
		}
		if err != nil {
			m.log.Debug().Err(err).Msg("cannot set the limits of the intents stream")
			return m.snapshot().Full
		}
	}
	if text := m.limitWaiting(ctx, *disk, have); text != "" && !have.Full() {
		return text
	}
	if msgs == queue.Closed {
		return fmt.Sprintf("%s refuses new orders: the %s of %s that are free on the disk are kept to settle the %d orders in the queue; make room on it",
			have.Stream, megabytes(disk.Free), megabytes(disk.Size), have.Msgs)
	}
	return full(have)
}

// limitWaiting adapts the limits of the waiting room, so that each order in it can be
// settled, after those in the queue. It returns why the waiting room refuses orders.
// What waits may still be moved: the limits of the intents stream do not depend on it.
func (m *storageMonitor) limitWaiting(ctx context.Context, disk embedded.Disk, queued queue.Room) string {
	have, err := m.queue.Census.WaitingRoom(ctx)
	if err != nil {
		return ""
	}
	disk.Free -= queued.Msgs*settleRoom + queued.Bytes
	if msgs, bytes := limits(disk, have); worthSetting(have, msgs, bytes) {
		if err := m.queue.Census.LimitWaitingRoom(ctx, msgs, bytes); err != nil {
			m.log.Debug().Err(err).Msg("cannot set the limits of the waiting room")
			return ""
		}
		have.MaxMsgs, have.MaxBytes = msgs, bytes
	}
	return full(have)
}

func full(have queue.Room) string {
	if !have.Full() {
		return ""
	}
	var limits []string
	if have.MaxMsgs == queue.Closed {
		return fmt.Sprintf("%s refuses new orders: its broker's disk has room to settle the %d orders in the queue, and no more; make room on it", have.Stream, have.Msgs)
	}
	if have.MaxMsgs > 0 {
		limits = append(limits, fmt.Sprintf("%d of %d orders", have.Msgs, have.MaxMsgs))
	}
	if have.MaxBytes > 0 {
		limits = append(limits, fmt.Sprintf("%s of %s", megabytes(have.Bytes), megabytes(have.MaxBytes)))
	}
	return fmt.Sprintf("%s is full (%s) and refuses new orders until some are settled", have.Stream, strings.Join(limits, ", "))
}

// limits returns how much the intents stream may hold, so that each intent can still
// get its result, and its dead letter with its body.
func limits(disk embedded.Disk, have queue.Room) (msgs, bytes int64) {
	reserve := min(max(disk.Free/20, minReserve), disk.Size/2, maxReserve)
	spare := disk.Free - reserve - have.Msgs*settleRoom - have.Bytes
	if spare < settleRoom {
		return queue.Closed, max(have.Bytes, 1)
	}
	// Half of the space is for results and letters, half for bodies, each of which may be
	// stored twice.
	return have.Msgs + max(spare/2/settleRoom, 1), have.Bytes + spare/4
}

// worthSetting reports whether the limits differ enough from the present ones to be
// written, or differ in whether the stream takes any order.
func worthSetting(have queue.Room, msgs, bytes int64) bool {
	if have.MaxMsgs <= 0 || have.MaxBytes <= 0 || (have.MaxMsgs == queue.Closed) != (msgs == queue.Closed) {
		return true
	}
	apart := func(a, b, held int64) bool { return max(a-b, b-a) > (b-held)/4 }
	return msgs != queue.Closed && (apart(have.MaxMsgs, msgs, have.Msgs) || apart(have.MaxBytes, bytes, have.Bytes))
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
