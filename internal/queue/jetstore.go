package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// jetStore is the Store of real streams.
type jetStore struct{ q *Queue }

func (s jetStore) Record(ctx context.Context, token string) (settle.Entry, error) {
	raw, err := s.q.lastMsg(ctx, s.q.n.results, s.q.n.resPre+token)
	if err != nil || raw == nil {
		return settle.Entry{}, err
	}
	return DecodeRecord(raw)
}

func (s jetStore) Records(ctx context.Context, tokens []string, found func(i int, e settle.Entry, err error) error) error {
	subjects := make([]string, len(tokens))
	for i, token := range tokens {
		subjects[i] = s.q.n.resPre + token
	}
	read := s.q.lastEach
	if s.Replicated() {
		read = s.q.lastAtOnce
	}
	msgs := make(map[string]*settle.Message, len(subjects))
	if err := read(ctx, s.q.n.results, subjects, func(raw *settle.Message) { msgs[raw.Subject] = raw }); err != nil {
		return err
	}
	for i, subject := range subjects {
		var e settle.Entry
		var err error
		if raw := msgs[subject]; raw != nil {
			e, err = DecodeRecord(raw)
			e.Seq = raw.Seq
		}
		if err := found(i, e, err); err != nil {
			return err
		}
	}
	return nil
}

// Barrier asks for the last message under any subject, which the server finds
// by its sequence. Where that one was deleted it says that there is none.
func (s jetStore) Barrier(ctx context.Context) (settle.Barrier, error) {
	raw, err := s.q.lastMsg(ctx, s.q.n.results, ">")
	if err != nil || raw == nil {
		return settle.Barrier{}, err
	}
	return settle.Barrier{Token: strings.TrimPrefix(raw.Subject, s.q.n.resPre), Seq: raw.Seq}, nil
}

func (s jetStore) PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
	buf := recordBuffers.Get().(*[]byte)
	msg, err := s.q.recordMsg(token, r, (*buf)[:0])
	if err != nil {
		return 0, err
	}
	seq, err := s.q.results.put(ctx, msg, expect)
	if answered := err == nil || errors.Is(err, settle.ErrStale); answered && cap(msg.Data) <= maxRecordBuffer { // else the writer may have it still
		*buf = msg.Data
		recordBuffers.Put(buf)
	}
	return seq, err
}

// recordBuffers are for the JSON of records; larger ones than maxRecordBuffer
// bytes are not kept.
var recordBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

const maxRecordBuffer = 64 << 10

func (s jetStore) Intent(ctx context.Context, orderNo string) (*settle.Message, error) {
	return s.q.lastMsg(ctx, s.q.n.intents, s.q.n.newPre+order.Token(orderNo))
}

func (s jetStore) IntentAt(ctx context.Context, seq uint64) (*settle.Message, error) {
	return s.q.msgAt(ctx, s.q.n.intents, seq)
}

func (s jetStore) PublishIntent(ctx context.Context, m *settle.Message) (settle.Published, uint64, error) {
	ack, err := s.q.js.PublishMsg(ctx, natsMsg(m), jetstream.WithRetryAttempts(5))
	p, err := publishAnswer(ack, err)
	if ack == nil {
		return p, 0, err
	}
	return p, ack.Sequence, err
}

func (s jetStore) DeleteIntent(ctx context.Context, seq uint64) error {
	if err := s.q.deleteMsg(ctx, s.q.n.intents, seq); !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	return nil
}

// deleteMsg removes a stored message. The error of one that is gone wraps
// jetstream's.
func (q *Queue) deleteMsg(ctx context.Context, name string, seq uint64) error {
	stream, err := q.stream(ctx, name)
	if err != nil {
		return err
	}
	return q.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		return stream.DeleteMsg(ctx, seq)
	})
}

func (s jetStore) Born(ctx context.Context) (time.Time, error) {
	stream, err := s.q.stream(ctx, s.q.n.intents)
	if err != nil {
		return time.Time{}, err
	}
	return stream.CachedInfo().Created, nil
}

func (s jetStore) Pause(ctx context.Context, until time.Time) error {
	ctx, cancel := s.q.link.bound(ctx)
	defer cancel()
	_, err := s.q.js.PauseConsumer(ctx, s.q.n.intents, s.q.n.consumer, until)
	return err
}

func (s jetStore) Delivered(ctx context.Context) (uint64, error) {
	consumer, err := s.q.workersConsumer(ctx)
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().Delivered.Stream, nil
}

func (s jetStore) Life() string { return s.q.nc.ConnectedServerId() }

// Replicated holds for every broker that is a cluster: a stream of one replica
// may get more while this program runs.
func (s jetStore) Replicated() bool { return s.q.replicas > 1 || s.q.nc.ConnectedClusterName() != "" }

func (s jetStore) MaxPayload() int64 { return s.q.nc.MaxPayload() }

// recordReserve is what the headers of a record take of the broker's
// max_payload at most, in bytes.
const recordReserve = 4 << 10

// recordMsg is a record as it is published, its JSON appended to buf.
func (q *Queue) recordMsg(token string, r *order.Record, buf []byte) (*nats.Msg, error) {
	data, err := r.AppendJSON(buf)
	for err == nil && int64(len(data)) > q.nc.MaxPayload()-recordReserve {
		r.Response, r.Error, r.Reason = order.Truncate(r.Response, len(r.Response)/2), order.Truncate(r.Error, len(r.Error)/2), order.Truncate(r.Reason, 200)
		data, err = r.AppendJSON(data[:0])
	}
	if err != nil {
		return nil, fmt.Errorf("record of %s: %w", r.OrderNo, err)
	}
	msg := &nats.Msg{Subject: q.n.resPre + token, Data: data, Header: nats.Header{settle.HeaderOutcome: {r.Word}}}
	if expires(r) {
		msg.Header[jetstream.MsgTTLHeader] = []string{q.cfg.ResultRetention.String()}
	}
	return msg, nil
}

// expires: an outcome is kept for the retention. A doubt is kept until it is
// settled, and a failure for as long as its dead letter: a replay must see what
// it repeats, and an audit what the letter is about.
func expires(r *order.Record) bool {
	o := r.Outcome()
	return o != order.OutcomeNone && o != order.OutcomeUnknown && !r.NeedsLetter()
}

// DecodeRecord reads a message of the results. Error: settle.ErrUnreadable.
func DecodeRecord(raw *settle.Message) (settle.Entry, error) {
	var r order.Record
	if err := json.Unmarshal(raw.Data, &r); err != nil {
		return settle.Entry{}, fmt.Errorf("%w: results stream, sequence %d: not a record: %w", settle.ErrUnreadable, raw.Seq, err)
	}
	if r.Word != order.Retrying && r.Outcome() == order.OutcomeNone {
		return settle.Entry{}, fmt.Errorf("%w: results stream, sequence %d: outcome %q is none that this version knows", settle.ErrUnreadable, raw.Seq, r.Word)
	}
	if what := foreign(raw, &r); what != "" {
		return settle.Entry{}, fmt.Errorf("%w: results stream, sequence %d: no worker wrote it: %s", settle.ErrUnreadable, raw.Seq, what)
	}
	return settle.Entry{Record: &r, Seq: raw.Seq}, nil
}

// foreign says what shows that no program of ours wrote the record where it
// lies; "" for nothing. JetStream sends its answers to any subject that a
// request names as its reply, so a record that somebody asked for can end up as
// the last word on another order.
func foreign(raw *settle.Message, r *order.Record) string {
	token := raw.Subject[strings.LastIndexByte(raw.Subject, '.')+1:]
	switch {
	case raw.Header.Get(jetstream.SequenceHeader) != "":
		return "it is the broker's answer to a direct get"
	case r.WriteID == "":
		return "it has no write_id"
	case token == r.OrderNo, hashedToken.MatchString(token):
		return ""
	}
	if no, err := order.OrderNoFromToken(token); err != nil || no != r.OrderNo {
		return fmt.Sprintf("it is about order %q", r.OrderNo)
	}
	return ""
}

// hashedToken is what settle.FileToken makes of a token that it cannot use.
var hashedToken = regexp.MustCompile(`^sha256-[0-9a-f]{64}$`)

func (s jetStore) markSubject(key string) string { return "$KV." + s.q.cfg.Bucket + "." + key }

func (s jetStore) Mark(ctx context.Context, key string) (m settle.Mark, seq uint64, err error) {
	raw, err := s.q.lastMsg(ctx, s.q.bucket.stream(), s.markSubject(key))
	if err != nil || raw == nil {
		return m, 0, err
	}
	if err := json.Unmarshal(raw.Data, &m); err != nil {
		return settle.Mark{}, raw.Seq, nil // cleared by hand, or not ours: it marks nothing
	}
	return m, raw.Seq, nil
}

func (s jetStore) PutMark(ctx context.Context, key string, m settle.Mark, expect uint64) (uint64, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	msg := nats.NewMsg(s.markSubject(key))
	msg.Data = data
	return s.q.marks.put(ctx, msg, expect)
}

var progressAck = []byte("+WPI")

func (s jetStore) Extend(reply, answer string) error {
	return s.q.nc.PublishRequest(reply, answer, progressAck)
}
