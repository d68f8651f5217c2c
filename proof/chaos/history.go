package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
	"orderpost/internal/sandbox"
	"orderpost/proof/oracle"
)

// history writes what happened in a run as JSON lines (--history), for proof/oracle.
// Each source is the one that knows best and disturbs least:
//
//   - producers: this process, which hears the confirmations
//   - requests and creations: the sandbox, in this process
//   - records and letters: ordered consumers, which read the streams as they are
//     written. A record says which one it replaced, so a missing one shows.
//   - acknowledgements: a subscription to the subjects that they are sent to. Nothing
//     else would say when they came. It adds no interest in deliveries.
//   - deliveries, requests before they leave, and verdicts: the workers' debug log,
//     which a killed worker leaves behind (historylog.go). A subscription to the
//     deliveries would make the broker deliver to workers that are gone.
//   - starts, ends and freezes: this process, which causes them
//
// A nil history writes nothing. It is safe for concurrent use.
type history struct {
	start time.Time

	mu    sync.Mutex
	file  *os.File
	out   *bufio.Writer
	lines int
	err   error

	letters map[uint64]string // order_no by the sequence of a letter
	seen    [2]uint64         // last sequence read from the results and the dead letters
	readers []jetstream.ConsumeContext
	acks    *nats.Subscription
}

func newHistory(path string, s oracle.Settings) (*history, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s.Start, s.Outside = time.Now().UTC(), true
	h := &history{start: s.Start, file: f, out: bufio.NewWriterSize(f, 1<<20), letters: make(map[uint64]string)}
	h.tell(oracle.Event{Kind: oracle.Begin, Settings: &s})
	return h, h.err
}

// moment returns the moment of a time.
func (h *history) moment(t time.Time) oracle.Moment { return oracle.Moment(t.Sub(h.start)) }

// tell writes an event.
func (h *history) tell(e oracle.Event) {
	if h == nil {
		return
	}
	line, err := json.Marshal(&e)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		_, err = h.out.Write(append(line, '\n'))
	}
	h.lines++
	h.err = errors.Join(h.err, err)
}

// now writes an event that happens now.
func (h *history) now(e oracle.Event) {
	if h != nil {
		e.At = h.moment(time.Now())
		h.tell(e)
	}
}

// witness writes a request that arrived at the sandbox.
func (h *history) witness(w sandbox.Witnessed) {
	h.tell(oracle.Event{At: h.moment(w.At), Kind: oracle.Arrived, OrderNo: w.OrderNo, Stamp: w.Timestamp, Why: w.Answer})
	if w.Created {
		h.tell(oracle.Event{At: h.moment(w.At), Kind: oracle.Created, OrderNo: w.OrderNo})
	}
}

// The streams, in the order of history.seen.
var readStreams = [...]string{"ORDERS_RESULTS", "ORDERS_DEAD"}

// listen begins to read the streams and the acknowledgements.
func (h *history) listen(ctx context.Context, js jetstream.JetStream, link *nats.Conn) (err error) {
	if h == nil {
		return nil
	}
	for i, read := range [...]func(jetstream.Msg, *jetstream.MsgMetadata){h.record, h.letter} {
		c, err := js.OrderedConsumer(ctx, readStreams[i], jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, MaxResetAttempts: -1})
		if err != nil {
			return fmt.Errorf("history of %s: %w", readStreams[i], err)
		}
		reading, err := c.Consume(func(m jetstream.Msg) {
			meta, err := m.Metadata()
			if err != nil {
				return // no message of a stream
			}
			read(m, meta)
			h.mu.Lock()
			h.seen[i] = meta.Sequence.Stream
			h.mu.Unlock()
		})
		if err != nil {
			return fmt.Errorf("history of %s: %w", readStreams[i], err)
		}
		h.readers = append(h.readers, reading)
	}
	if h.acks, err = link.Subscribe("$JS.ACK.ORDERS.workers.>", h.answer); err != nil {
		return err
	}
	return h.acks.SetPendingLimits(-1, -1)
}

// answer writes an acknowledgement or a NAK. Requests for more time are left out.
func (h *history) answer(m *nats.Msg) {
	switch text := string(m.Data); {
	case text == "" || strings.HasPrefix(text, "+ACK"):
		h.now(oracle.Event{Kind: oracle.Acknowledged, Reply: m.Subject})
	case strings.HasPrefix(text, "-NAK"):
		h.now(oracle.Event{Kind: oracle.HandedBack, Reply: m.Subject})
	}
}

func (h *history) record(m jetstream.Msg, meta *jetstream.MsgMetadata) {
	var rec order.Record
	if json.Unmarshal(m.Data(), &rec) != nil {
		return // not one of ours
	}
	e := oracle.Event{At: h.moment(meta.Timestamp), Until: h.moment(time.Now()), Kind: oracle.Recorded, OrderNo: rec.OrderNo, Seq: meta.Sequence.Stream, Record: &rec}
	if read, err := strconv.ParseUint(m.Headers().Get(jetstream.ExpectedLastSubjSeqHeader), 10, 64); err == nil {
		e.Replaces = &read
	}
	h.tell(e)
}

// letter writes a dead letter. The header of a long one may be cut.
func (h *history) letter(m jetstream.Msg, meta *jetstream.MsgMetadata) {
	var l struct {
		OrderNo  string `json:"order_no"`
		IntentID string `json:"intent_id"`
	}
	if json.Unmarshal([]byte(m.Headers().Get("Order-Letter")), &l) != nil { // it was cut
		l.OrderNo, _ = order.OrderNoFromToken(strings.TrimPrefix(m.Subject(), "orders.dead."))
	}
	h.mu.Lock()
	h.letters[meta.Sequence.Stream] = l.OrderNo
	h.mu.Unlock()
	h.tell(oracle.Event{At: h.moment(meta.Timestamp), Until: h.moment(time.Now()), Kind: oracle.Filed, OrderNo: l.OrderNo, Seq: meta.Sequence.Stream,
		Intent: l.IntentID})
}

// finish reads the streams to their ends, says which letters are gone, adds what the
// workers logged, and closes the file. Nothing may move any more.
func (h *history) finish(ctx context.Context, js jetstream.JetStream, logs []*process) error {
	if h == nil {
		return nil
	}
	for i, name := range readStreams {
		if err := catchUp(ctx, js, name, func() uint64 { h.mu.Lock(); defer h.mu.Unlock(); return h.seen[i] }); err != nil {
			return err
		}
	}
	if err := errors.Join(h.unfile(ctx, js), h.unsettled(ctx, js)); err != nil {
		return err
	}
	for _, p := range logs {
		if err := h.readLog(p); err != nil {
			return fmt.Errorf("history of %s: %w", p.name, err)
		}
	}
	h.now(oracle.Event{Kind: oracle.End})
	return h.close()
}

// catchUp waits until a stream was seen to its end.
func catchUp(ctx context.Context, js jetstream.JetStream, stream string, seen func() uint64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("%s was not read to its end", stream))
	defer cancel()
	for {
		s, err := js.Stream(ctx, stream)
		if err == nil {
			if state := s.CachedInfo().State; seen() >= state.LastSeq || state.Msgs == 0 {
				return nil
			}
		}
		if waitErr := pause(ctx, 100*time.Millisecond); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
}

// unfile writes which letters are gone. Only the workers log when they remove one.
func (h *history) unfile(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, readStreams[1])
	if err != nil {
		return err
	}
	h.mu.Lock()
	letters := maps.Clone(h.letters)
	h.mu.Unlock()
	for seq, no := range letters {
		there, err := letterStored(ctx, s, seq)
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		if !there {
			h.now(oracle.Event{Kind: oracle.Unfiled, OrderNo: no, Seq: seq})
		}
	}
	return nil
}

// letterStored reports whether the stream of dead letters has the letter with this sequence.
func letterStored(ctx context.Context, s jetstream.Stream, seq uint64) (bool, error) {
	_, err := s.GetMsg(ctx, seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("letter %d: %w", seq, err)
	default:
		return true, nil
	}
}

// unsettled writes which intents are left. A broker that is killed takes along the
// last acknowledgements that it would have passed on.
func (h *history) unsettled(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, "ORDERS")
	if err != nil {
		return err
	}
	h.now(oracle.Event{Kind: oracle.Emptied})
	for seq := uint64(1); ; {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject("orders.new.>"))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return nil
		case err != nil:
			return fmt.Errorf("history: intents left: %w", err)
		}
		h.now(oracle.Event{Kind: oracle.Stored, OrderNo: strings.TrimPrefix(m.Subject, "orders.new."), Seq: m.Sequence})
		seq = m.Sequence + 1
	}
}

// close ends the history.
func (h *history) close() error {
	if h == nil || h.file == nil {
		return nil
	}
	for _, r := range h.readers {
		r.Stop()
	}
	if h.acks != nil {
		_ = h.acks.Unsubscribe()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err := errors.Join(h.err, h.out.Flush(), h.file.Close())
	h.file = nil
	return err
}
