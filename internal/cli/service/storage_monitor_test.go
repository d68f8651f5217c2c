package service

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"testing/quick"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// pretended is a broker's store that says what the test wants.
type pretended struct {
	disk    embedded.Disk
	fault   error
	revived int
}

func (p *pretended) Disk() (embedded.Disk, error) { return p.disk, nil }
func (p *pretended) Fault() error                 { return p.fault }

func (p *pretended) Revive() error {
	p.revived++
	p.fault = nil
	return nil
}

func newPretended(t *testing.T, change ...func(*queue.Config)) (*storageMonitor, *pretended, *queue.Queue, *bytes.Buffer) {
	t.Helper()
	q := queuetest.Open(t, queuetest.Start(t), "test", change...)
	var said bytes.Buffer
	r := newStorageMonitor(nil, q, fleet.New(q), zerolog.New(&said))
	store := &pretended{disk: embedded.Disk{Free: 100 << 20, Size: 100 << 20}}
	r.store = store
	return r, store, q, &said
}

func add(t *testing.T, q *queue.Queue, no string) error {
	t.Helper()
	_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: no, ID: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":60}`, no)})
	return err
}

// Producers are refused while there is still room to settle what was taken in,
// are told so, and are let in again by themselves.
func TestProducersAreRefusedBeforeTheDiskIsFull(t *testing.T) {
	r, store, q, said := newPretended(t)
	r.look(t.Context())
	require.NoError(t, add(t, q, "A-1"))
	require.Empty(t, r.problems())

	store.disk.Free = 3 << 20
	r.look(t.Context())
	require.ErrorIs(t, add(t, q, "A-2"), settle.ErrFull)
	require.Equal(t, []string{"ORDERS refuses new orders: the 3.1 MB of 104.9 MB that are free on the disk are kept to settle the 1 orders in the queue; make room on it"}, r.problems())
	require.Contains(t, said.String(), "the queue refuses new orders")
	require.NoError(t, fleet.New(q).Appear(t.Context(), fleet.Presence{ID: "1", Worker: "test"}), "the others' room is not limited")
	// A worker that joins, or a person's program, leaves the limit alone, and
	// the joined one tells the same.
	other := newStorageMonitor(nil, q, fleet.New(q), zerolog.Nop())
	other.look(t.Context())
	require.Len(t, other.problems(), 1)

	store.disk.Free = 90 << 20
	r.look(t.Context())
	require.Empty(t, r.problems())
	require.NoError(t, add(t, q, "A-2"))
	require.Contains(t, said.String(), "the queue takes new orders again")
}

// A setting is kept below what the disk has room for, and told when it is
// reached.
func TestTheSettingLimitsTheQueueBelowTheDisk(t *testing.T) {
	r, _, q, _ := newPretended(t, func(c *queue.Config) { c.MaxIntents = 2 })
	r.look(t.Context())
	require.NoError(t, errors.Join(add(t, q, "A-1"), add(t, q, "A-2")))
	require.ErrorIs(t, add(t, q, "A-3"), settle.ErrFull)
	r.look(t.Context())
	require.Len(t, r.problems(), 1)
	require.Contains(t, r.problems()[0], "ORDERS is full (2 of 2 orders")
}

// Whatever comes in by these limits can be settled: each order may need
// settleRoom, and its body twice.
func TestLimitsLeaveRoomToSettle(t *testing.T) {
	check := func(free, used, msgs uint32, each uint16) bool {
		disk := embedded.Disk{Free: int64(free) << 6, Size: (int64(free) + int64(used)) << 6}
		have := queue.Room{Msgs: int64(msgs % 100_000)}
		have.Bytes = have.Msgs * int64(each)
		most, bytes := limits(disk, have)
		if most == queue.Closed {
			return bytes > 0
		}
		fresh, body := most-have.Msgs, bytes-have.Bytes
		need := most*settleRoom + have.Bytes + 2*body
		return fresh > 0 && body >= 0 && need <= disk.Free && !worthSetting(queue.Room{Msgs: have.Msgs, Bytes: have.Bytes, MaxMsgs: most, MaxBytes: bytes}, most, bytes)
	}
	require.NoError(t, quick.Check(check, nil))
	most, _ := limits(embedded.Disk{Free: 6 << 20, Size: 6 << 20}, queue.Room{})
	require.Greater(t, most, int64(200), "a disk of 6 MB still takes orders")
	most, _ = limits(embedded.Disk{Free: 100 << 30, Size: 1 << 40}, queue.Room{})
	require.Greater(t, most, int64(10_000_000))
}

// The broker is started anew when it does not store, not before there is room,
// and not without a pause.
func TestTheBrokerIsRevivedWhenThereIsRoom(t *testing.T) {
	r, store, _, said := newPretended(t)
	store.fault, store.disk.Free = errors.New("no space left on device"), 4096
	for range 3 {
		r.look(t.Context())
	}
	require.Zero(t, store.revived)
	require.Contains(t, r.snapshot().Failing, "no space left on device; 0.0 MB of 104.9 MB are free on its disk: make room, then the broker goes on by itself")
	require.Contains(t, said.String(), "the broker may not store results")

	store.disk.Free = 50 << 20
	r.look(t.Context())
	require.Equal(t, 1, store.revived)
	store.fault = errors.New("input/output error") // at once again
	r.look(t.Context())
	require.Equal(t, 1, store.revived, "without a pause")
	require.Equal(t, time.Second, r.pause)
	store.fault = nil
	r.look(t.Context())
	require.Empty(t, r.snapshot().Failing)
	require.Zero(t, r.pause)
	require.Contains(t, said.String(), "results are stored again")
}

// A process without file descriptors says so, and not that nobody answers.
func TestMissingDescriptorsAreNamed(t *testing.T) {
	r, _, _, said := newPretended(t)
	r.probe = func() error {
		return describeDescriptors(&os.PathError{Op: "open", Path: os.DevNull, Err: syscall.EMFILE})
	}
	r.look(t.Context())
	require.Len(t, r.problems(), 1)
	require.Contains(t, r.problems()[0], "this process has no file descriptor left (open /dev/null: too many open files)")
	require.Contains(t, said.String(), "LimitNOFILE")
	r.probe = probeDescriptors
	r.look(t.Context())
	require.Empty(t, r.problems())
	require.NoError(t, describeDescriptors(os.ErrNotExist))
}

// A full waiting room is told by a worker that does not run the broker, too.
func TestAFullWaitingRoomIsToldBesideAnExternalBroker(t *testing.T) {
	_, _, q, _ := newPretended(t)
	require.NoError(t, q.Census.LimitWaitingRoom(t.Context(), 2, -1))
	m := newStorageMonitor(nil, q, fleet.New(q), zerolog.Nop())
	m.look(t.Context())
	require.Empty(t, m.problems())
	for _, no := range []string{"A-1", "A-2"} {
		_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: no, ID: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":60}`, no), Lane: "bulk"})
		require.NoError(t, err)
	}
	m.look(t.Context())
	require.Len(t, m.problems(), 1)
	require.Contains(t, m.problems()[0], "ORDERS_WAITING is full (2 of 2 orders")
}
