package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// books are results as workers write them, without workers.
type books struct {
	t *testing.T
	*queuetest.Broker
	*queue.Queue
	js      jetstream.JetStream
	intents uint64                   // stored and settled so far
	records map[string]*order.Record // as they should be
}

const testChunk = 16

func newBooks(t *testing.T, n int) *books {
	b := &books{t: t, records: make(map[string]*order.Record)}
	b.Broker = startBroker(t, func(c *embedded.Config) { c.Dir = t.TempDir() })
	b.open()
	for i := range n {
		b.accept(fmt.Sprint("A-", i))
	}
	return b
}

func (b *books) open() {
	b.Queue = openQueue(b.t, b.Broker, "a")
	b.js = b.JetStream(b.t)
}

// accept settles one more intent of an order as accepted.
func (b *books) accept(no string) {
	b.settle(no, func(*order.Record) {})
}

func (b *books) settle(no string, change func(*order.Record)) {
	b.t.Helper()
	b.intents++
	r := record(no, b.intents, time.Now().UTC())
	if was := b.records[no]; was != nil {
		r.Settled += was.Settled
	}
	change(r)
	b.records[no] = r
	b.put(r)
	past, err := json.Marshal(map[string]uint64{"seq": b.intents + 1})
	require.NoError(b.t, err)
	_, err = b.js.Conn().Request("$JS.API.STREAM.PURGE.ORDERS", past, time.Minute)
	require.NoError(b.t, err)
}

// put writes a record over whatever is there.
func (b *books) put(r *order.Record) {
	b.t.Helper()
	entry, err := b.Store().Record(b.t.Context(), order.Token(r.OrderNo))
	require.NoError(b.t, err)
	_, err = b.Store().PutRecord(b.t.Context(), order.Token(r.OrderNo), r, entry.Seq)
	require.NoError(b.t, err)
}

// reject settles one more intent as rejected, with a dead letter.
func (b *books) reject(no string) {
	ack, err := b.js.Publish(b.t.Context(), "orders.dead."+order.Token(no), body(no))
	require.NoError(b.t, err)
	b.settle(no, func(r *order.Record) {
		r.SetOutcome(order.OutcomeRejected)
		r.Letter = ack.Sequence
	})
}

// remove removes a message of a stream as no program does.
func (b *books) remove(stream string, seq uint64) {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), stream)
	require.NoError(b.t, err)
	require.NoError(b.t, s.DeleteMsg(b.t.Context(), seq))
}

func (b *books) seqOf(no string) uint64 { return lookup(b.t, b.Queue, no).Seq }

// audit audits the books from where the last audit ended. What it finds must be what one finds that reads all.
func (b *books) audit() *AuditResult {
	b.t.Helper()
	all := newAuditor(b.Queue, Options{Full: true, chunk: testChunk})
	require.NoError(b.t, all.look(b.t.Context()))
	a, err := Run(b.t.Context(), b.Queue, Options{chunk: testChunk})
	require.NoError(b.t, err)
	if !a.Balanced() {
		require.Zero(b.t, a.Taken, "in doubt, everything is read")
	}
	require.Equal(b.t, all.a.Read, a.Read+a.Taken)
	same := *a
	same.Read, same.Taken, same.FullAt, same.Looks = all.a.Read, all.a.Taken, all.a.FullAt, all.a.Looks
	require.Equal(b.t, all.a, &same)
	return a
}

// requireGoesOn audits the books, which balance, and returns how many results were read.
func (b *books) requireGoesOn() int {
	b.t.Helper()
	a := b.audit()
	require.True(b.t, a.Balanced(), "%+v", a)
	require.NotZero(b.t, a.Taken)
	require.False(b.t, a.FullAt.IsZero())
	return int(a.Read)
}

func TestAnAuditGoesOnFromTheLastOne(t *testing.T) {
	b := newBooks(t, 100)
	for i := range 3 {
		b.reject(fmt.Sprint("R-", i))
	}
	for i := range 30 {
		b.accept(fmt.Sprint("B-", i))
	}
	first := b.audit()
	require.True(t, first.Balanced())
	require.Equal(t, []uint64{133, 0, 3}, []uint64{first.Read, first.Taken, first.Letters})
	tail := b.requireGoesOn()
	require.Less(t, tail, testChunk, "the chunk that still grows")

	b.accept("A-20") // again: its last word moves to the end
	require.Equal(t, tail+1+testChunk-1, b.requireGoesOn())
	require.Equal(t, tail+1, b.requireGoesOn())
	b.reject("A-40")
	b.requireGoesOn()

	full, err := Run(t.Context(), b.Queue, Options{Full: true, chunk: testChunk})
	require.NoError(t, err)
	require.Equal(t, []uint64{133, 0, 4}, []uint64{full.Read, full.Taken, full.Letters})
	again, err := Run(t.Context(), b.Queue, Options{chunk: 2 * testChunk})
	require.NoError(t, err)
	require.Zero(t, again.Taken, "of chunks of another size")
}

// Whatever a full audit notices, one that goes on from another one notices.
func TestAnAuditThatGoesOnNotices(t *testing.T) {
	for name, damage := range map[string]func(b *books){
		"a record that was removed":         func(b *books) { b.remove("ORDERS_RESULTS", b.seqOf("A-5")) },
		"a record that came after the last": func(b *books) { b.put(record("X", 7, time.Now())) },
		"a record with another count": func(b *books) {
			changeRecordOf(b.t, b.Queue, "A-5", func(r *order.Record) { r.Settled = 9 })
		},
		"a dead letter that was removed": func(b *books) { b.remove("ORDERS_DEAD", 1) },
		"a stream that was made again": func(b *books) {
			queuetest.Remake(b.t, b.Server, false, "ORDERS_RESULTS")
			b.open()
			for i := range 90 {
				b.put(record(fmt.Sprint("A-", i), 7, time.Now()))
			}
		},
		"a stream that was restored, and is as long again": func(b *books) {
			queuetest.Remake(b.t, b.Server, true, "ORDERS_RESULTS")
			b.open()
			for i := range 91 {
				b.put(record(fmt.Sprint("A-", 1+i/2*2), 7, time.Now()))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t, 60)
			b.reject("R-1")
			for i := range 30 {
				b.accept(fmt.Sprint("B-", i))
			}
			b.audit()
			b.requireGoesOn()
			damage(b)
			require.False(t, b.audit().Balanced())
		})
	}
}

// An older copy of the results ends before the place that they had reached. Once others were written in the place of
// those that it lacks, only what is stored under the sequences tells.
func TestAnAuditThatGoesOnNoticesAnOlderCopy(t *testing.T) {
	b := newBooks(t, 60)
	found, err := filepath.Glob(filepath.Join(b.Dir, "jetstream", "jetstream", "*", "streams", "ORDERS_RESULTS", "msgs"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	files, older := found[0], t.TempDir()
	restart := func(between func()) {
		b.Close()
		b.Stop()
		between()
		b.Restart(t)
		b.open()
	}
	putBack := func() {
		require.NoError(t, os.RemoveAll(files))
		require.NoError(t, os.CopyFS(files, os.DirFS(older)))
	}
	restart(func() { require.NoError(t, os.CopyFS(older, os.DirFS(files))) })
	for i := range 40 {
		b.accept(fmt.Sprint("B-", i))
	}
	b.audit()
	b.requireGoesOn()
	_, seen, err := b.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	restart(putBack)
	require.False(t, b.audit().Balanced())
	for i := range 40 {
		b.put(record(fmt.Sprint("C-", i), 7, time.Now()))
	}
	a := b.audit()
	require.Zero(t, a.Taken, "nothing of the other copy")

	require.NoError(t, b.Extents.RememberExtents(t.Context(), seen, seen))
	restart(putBack)
	a = b.audit()
	require.Len(t, a.Offenders, 1)
	require.Contains(t, a.Offenders[0].Problem, "had reached message 100")
}

// What is forgotten leaves at the front: the chunk there is read again, and no other one.
func TestAnAuditGoesOnBehindWhatIsForgotten(t *testing.T) {
	b := newBooks(t, 70)
	b.audit()
	b.requireGoesOn()
	forgets(t, b.Queue, 69) // all but the last
	a := b.audit()
	require.True(t, a.Balanced(), "%+v", a)
	require.EqualValues(t, 69, a.Forgotten)
}

// Audits go on from each other while orders are rejected, corrected and accepted, whose last words move.
func TestAuditsGoOnWhileOrdersFlow(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	audits, flows := make(chan *AuditResult, 1000), make(chan struct{})
	var failed error
	go func() {
		defer close(audits)
		for failed == nil {
			var a *AuditResult
			if a, failed = Run(t.Context(), q, Options{chunk: testChunk}); failed == nil {
				audits <- a
			}
			select {
			case <-flows:
				return
			default:
			}
		}
	}()
	for i := range 200 {
		no := fmt.Sprint("A-", i%90)
		publish(t, q, intent(no, fmt.Sprint("i", i)))
		d := pull(t, q, 1)[0]
		if d.Work == settle.WorkRepeat {
			_, err := q.Worker.Repeat(t.Context(), d)
			require.NoError(t, err)
			d.Release()
		} else {
			settleAs(t, q, d, report([]order.Verdict{order.Rejected, order.Accepted}[i%3/2], d.History))
		}
		requireDrained(t, q)
	}
	close(flows)
	taken := 0
	for a := range audits {
		require.True(t, a.Balanced(), "%+v", a)
		taken += int(a.Taken)
	}
	require.NoError(t, failed)
	require.NotZero(t, taken)
}

// TestRandomBooks plays random histories, and audits them both ways.
func TestRandomBooks(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			dice := rand.New(rand.NewPCG(seed, 0))
			b := newBooks(t, 40)
			taken, wrong := uint64(0), 0
			for step := range 12 {
				for range 1 + dice.IntN(8) {
					nos := slices.Sorted(maps.Keys(b.records))
					no := nos[dice.IntN(len(nos))]
					switch n := dice.IntN(20); {
					case n < 10:
						b.accept(fmt.Sprint("N-", len(nos)))
					case n < 14:
						b.accept(no)
					case n < 18:
						b.reject(no)
					case step < 6: // no damage yet
					case n == 18:
						if seq := b.seqOf(no); seq > 0 {
							b.remove("ORDERS_RESULTS", seq)
						}
					default:
						r := *b.records[no]
						r.Settled++
						b.put(&r)
					}
				}
				a := b.audit()
				if taken += a.Taken; !a.Balanced() {
					wrong++
				}
			}
			require.NotZero(t, taken)
			t.Logf("%d results were taken from an earlier audit; %d of 12 books did not balance", taken, wrong)
		})
	}
}
