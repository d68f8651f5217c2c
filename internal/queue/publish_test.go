package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
)

// answers publishes many intents and returns the status of each as a word.
func answers(t *testing.T, q *Queue, in ...settle.Intent) []string {
	t.Helper()
	var out []string
	for _, r := range q.PublishMany(t.Context(), in) {
		word := r.Status.String()
		if r.Err != nil {
			word = "error"
			for _, known := range []error{settle.ErrFull, settle.ErrSwallowed, settle.ErrTooLarge} {
				if errors.Is(r.Err, known) {
					word = known.Error()
				}
			}
		}
		out = append(out, word)
	}
	return out
}

func TestR6APublishAnswerSaysWhatBecameOfTheIntent(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	one := func(in settle.Intent) string { return answers(t, q, in)[0] }
	require.Equal(t, "stored", one(intent("A-1", "i1")))
	require.Equal(t, "already-known", one(intent("A-1", "i1")), "waiting")
	require.Equal(t, "already-pending", one(intent("A-1", "i2")))
	require.Equal(t, "already-pending", one(intent("A-1", "")))

	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)
	require.Equal(t, "already-known", one(intent("A-1", "i1")), "settled")
	require.Equal(t, "stored", one(intent("A-1", "i2")))
}

// Settled intents have their places until the log is trimmed (R14). An import waits for all of
// them together, two seconds each would be minutes.
func TestPublishManyWaitsOnceForAllSettledPlaces(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "a")
	var first, second []settle.Intent
	for i := range 60 {
		no := fmt.Sprintf("A-%d", i)
		first, second = append(first, intent(no, no+".1")), append(second, intent(no, no+".2"))
	}
	for _, word := range answers(t, q, first...) {
		require.Equal(t, "stored", word)
	}
	settleAll(t, q, len(first), func(d *settle.Delivery) order.Report { return report(order.Rejected, d.History) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, r := range q.PublishMany(ctx, second) {
		require.Equal(t, PublishResult{Status: settle.AlreadyPending}, r, "nobody trims")
	}
	trimmed := make(chan error)
	go func() {
		var log StreamState
		var err error
		for err == nil && log.FirstSeq <= uint64(len(first)) {
			err = q.Trimmer.Trim(ctx)
			log, _ = q.Intents().State(ctx)
		}
		trimmed <- err
	}()
	for _, r := range q.PublishMany(ctx, second) {
		require.Equal(t, PublishResult{Status: settle.Stored}, r)
	}
	require.NoError(t, <-trimmed)
}

// R6: "Duplicate: true" does not mean stored. Somebody removed the first
// intent.
func TestR6ADuplicateOfNothingIsNotReportedAsKnown(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	stream, err := q.Conn.js.Stream(t.Context(), q.Conn.n.intents)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
	_, err = q.Producer.Publish(t.Context(), intent("A-1", "i1"))
	require.ErrorIs(t, err, settle.ErrSwallowed)
	require.Equal(t, []string{settle.ErrSwallowed.Error()}, answers(t, q, intent("A-1", "i1")))
	require.Equal(t, []string{"stored"}, answers(t, q, intent("A-1", "i2")))
}

// An ID that was used for another order, settled since, does not pass for this
// intent's, even if this one's order_no has an older result.
func TestR6AResultOfAnotherSubmissionIsNotTakenForThisOne(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	for _, in := range []settle.Intent{intent("A-1", "i1"), intent("A-2", "i2")} {
		publish(t, q, in)
		d := pull(t, q, 1)[0]
		settleAs(t, q, d, report(order.Rejected, d.History))
	}
	requireDrained(t, q)
	_, err := q.Producer.Publish(t.Context(), intent("A-1", "i2"))
	require.ErrorIs(t, err, settle.ErrSwallowed)
	require.ErrorContains(t, err, `"A-1"`)
	require.Equal(t, []string{settle.ErrSwallowed.Error(), "already-known"}, answers(t, q, intent("A-1", "i2"), intent("A-2", "i2")))
}

func TestADuplicateInABatchIsSingledOut(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-2", "other"))
	require.Equal(t, []string{"stored", "already-pending", "stored", "already-pending", "already-known", "stored"}, answers(t, q,
		intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"), intent("A-1", "i4"), intent("A-1", "i1"), intent("A-4", "i5")))
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 4, c.Pending)
}

func TestAFullStreamIsNotTakenForAlreadyPending(t *testing.T) {
	q := openQueue(t, startBroker(t), "a", func(c *Config) { c.MaxIntents = 2 })
	require.Equal(t, []string{"stored", "stored", settle.ErrFull.Error(), settle.ErrFull.Error()}, answers(t, q,
		intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"), intent("A-4", "i4")))
	_, err := q.Producer.Publish(t.Context(), intent("A-3", "i3"))
	require.ErrorIs(t, err, settle.ErrFull)
	p, err := q.Producer.Publish(t.Context(), intent("A-2", "i5"))
	require.NoError(t, err)
	require.Equal(t, settle.AlreadyPending, p, "full or not, it is waiting")
}

func TestAnswersOfTheBroker(t *testing.T) {
	api := func(code jetstream.ErrorCode, text string) error {
		return &jetstream.APIError{ErrorCode: code, Description: text}
	}
	for name, c := range map[string]struct {
		err  error
		want settle.PublishStatus
		is   error
	}{
		"place taken":  {api(10077, "maximum messages per subject exceeded"), settle.AlreadyPending, nil},
		"stream full":  {api(10077, "maximum messages exceeded"), settle.PublishNone, settle.ErrFull},
		"bytes full":   {api(10077, "maximum bytes exceeded"), settle.PublishNone, settle.ErrFull},
		"no resources": {api(10023, "insufficient resources"), settle.PublishNone, settle.ErrFull},
		"no storage":   {api(10047, "insufficient storage resources available"), settle.PublishNone, settle.ErrFull},
		"in process":   {api(10158, "duplicate message id is in process"), settle.PublishNone, errUnconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			p := (&Conn{n: DefaultConfig().names()}).published("orders.new.A-1", 0, false, c.err)
			require.Equal(t, c.want, p.Status)
			require.ErrorIs(t, p.Err, c.is)
			require.Equal(t, c.is == errUnconfirmed, MayBeStored(p.Err))
		})
	}
}

// The batch was stored, and the connection broke before the confirmation
// arrived. The rows are published again with the same IDs, and none is stored
// twice.
func TestALostAnswerToABatchStoresNothingTwice(t *testing.T) {
	var cuts atomic.Int32
	cut := &netcut.Dialer{Decide: func(subject string, _ []byte) netcut.Cut {
		if strings.HasSuffix(subject, ".A-3") && cuts.Add(1) == 1 { // the last one commits
			return netcut.After
		}
		return netcut.Pass
	}}
	q := openCut(t, startBroker(t), "a", cut)
	in := []settle.Intent{intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3")}
	require.Eventually(t, func() bool {
		for _, r := range q.PublishMany(t.Context(), in) {
			if r.Err != nil {
				return false // publish again by the same IDs, as importers do
			}
		}
		return true
	}, 20*time.Second, 10*time.Millisecond)
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, c.Pending)
	require.EqualValues(t, 3, c.LastIntent)
}

// deaf is a connection that receives nothing once a certain text was sent.
type deaf struct {
	net.Conn
	text string
	now  atomic.Bool
}

func (d *deaf) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &deaf{Conn: c, text: d.text}, err
}

func (d *deaf) Write(p []byte) (int, error) {
	if strings.Contains(string(p), d.text) {
		d.now.Store(true)
	}
	return d.Conn.Write(p)
}

func (d *deaf) Read(p []byte) (int, error) {
	for {
		n, err := d.Conn.Read(p)
		if err != nil || !d.now.Load() {
			return n, err
		}
	}
}

// A request whose answer was lost ends before its caller's time does.
func TestTheWaitForAnAnswerIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		lost string // what is sent last
		do   func(ctx context.Context, q *Queue) error
	}{
		"atomic batch": {"orders.new.A-2 ", func(ctx context.Context, q *Queue) error {
			p := publishing{pipeline: newPipeline(q.Conn), may: ctx.Err}
			_, err := p.atomic(ctx, []*outgoing{{msg: natsMsg(q.Producer.IntentMessage(intent("A-1", "i1")))}, {msg: natsMsg(q.Producer.IntentMessage(intent("A-2", "i2")))}})
			return err
		}},
		"one intent": {"orders.new.A-3 ", func(ctx context.Context, q *Queue) error {
			_, err := q.Producer.Publish(ctx, intent("A-3", "i3"))
			return err
		}},
		"key": {"import.march", func(ctx context.Context, q *Queue) error {
			_, err := q.Bucket().Get(ctx, "import.march")
			return err
		}},
		"key written": {"import.april", func(ctx context.Context, q *Queue) error {
			_, err := q.Bucket().Swap(ctx, "import.april", "april", 0)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startBroker(t)
			cfg := DefaultConfig()
			cfg.URL, cfg.Token, cfg.Name = s.URL, s.Token, "a"
			q, err := Open(t.Context(), cfg, zerolog.Nop(), nats.SetCustomDialer(&deaf{text: tt.lost}), nats.PingInterval(time.Hour))
			require.NoError(t, err)
			t.Cleanup(func() { q.Conn.nc.Close(); q.Close() }) // closes without a flush, because nothing would answer
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- tt.do(ctx, q) }()
			select {
			case err := <-done:
				require.ErrorIs(t, err, context.DeadlineExceeded)
			case <-time.After(4 * requestTimeout):
				require.Fail(t, "it waits for the caller's deadline")
			}
		})
	}
}

// The same while a queue is opened: a cluster whose leader is gone does not answer.
func TestOpeningDoesNotWaitForTheCallersDeadline(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name = s.URL, s.Token, "a"
	q, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	q.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := Open(ctx, cfg, zerolog.Nop(), nats.SetCustomDialer(&deaf{text: "CONSUMER.INFO."}), nats.PingInterval(time.Hour))
		done <- err
	}()
	select {
	case err := <-done:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	case <-time.After(4 * requestTimeout):
		require.Fail(t, "it waits for the caller's deadline")
	}
}

// TestAnInterruptedImportStoresNothingLater: whoever stops an import and cancels it covers all
// that it stored. So once PublishMany has returned, nothing of it is still on its way.
func TestAnInterruptedImportStoresNothingLater(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	importing, person := openQueue(t, s, "importing"), openQueue(t, s, "person")
	interrupted := 0
	for round := range 60 {
		in := make([]settle.Intent, 300)
		for i := range in {
			no := fmt.Sprintf("I-%d-%d", round, i)
			in[i] = intent(no, no)
		}
		if round%2 == 1 { // the broker refuses the batch, so they go one by one
			in[299] = intent(fmt.Sprintf("I-%d-0", round-1), "another")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(rand.IntN(8000))*time.Microsecond, cancel)
		for _, r := range importing.PublishMany(ctx, in) {
			if r.Err != nil {
				interrupted++
			}
		}
		cancel()
		c, err := person.Census.Count(t.Context())
		require.NoError(t, err)
		publish(t, person, intent(fmt.Sprintf("S-%d", round), ""))
		after, err := person.Census.Count(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.LastIntent+1, after.LastIntent, "round %d: stored after the import had ended", round)
	}
	require.Positive(t, interrupted)
}
