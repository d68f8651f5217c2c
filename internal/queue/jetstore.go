package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// jetStore implements settle.Store with JetStream.
type jetStore struct{ q *Queue }

func (s jetStore) Record(ctx context.Context, token string) (settle.Entry, error) {
	raw, err := s.q.reader.lastMsg(ctx, s.q.Conn.n.results, s.q.Conn.n.resPre+token)
	if err != nil || raw == nil {
		return settle.Entry{}, err
	}
	return DecodeRecord(raw)
}

func (s jetStore) Records(ctx context.Context, tokens []string, found func(i int, e settle.Entry, err error) error) error {
	subjects := make([]string, len(tokens))
	for i, token := range tokens {
		subjects[i] = s.q.Conn.n.resPre + token
	}
	read := s.q.reader.lastInBatches
	if s.Replicated() {
		read = s.q.reader.lastInOneBatch
	}
	msgs := make(map[string]*settle.Message, len(subjects))
	if err := read(ctx, s.q.Conn.n.results, subjects, func(raw *settle.Message) { msgs[raw.Subject] = raw }); err != nil {
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

// Barrier reads the last message under any subject, which the server finds by
// its sequence. If that message was deleted, the server says that there is
// none.
func (s jetStore) Barrier(ctx context.Context) (settle.Barrier, error) {
	raw, err := s.q.reader.getMsg(ctx, s.q.Conn.n.results, query{"last_by_subj": ">"})
	if err != nil || raw == nil {
		return settle.Barrier{}, err
	}
	return settle.Barrier{Token: strings.TrimPrefix(raw.Subject, s.q.Conn.n.resPre), Seq: raw.Seq}, nil
}

func (s jetStore) PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
	msg, err := s.q.recordMsg(token, r)
	if err != nil {
		return 0, err
	}
	return s.q.results.put(ctx, msg, expect)
}

func (s jetStore) Intent(ctx context.Context, orderNo string) (*settle.Message, error) {
	return s.q.reader.lastMsg(ctx, s.q.Conn.n.intents, s.q.Conn.n.newPre+order.Token(orderNo))
}

func (s jetStore) Intents(ctx context.Context, orderNos []string) ([]*settle.Message, error) {
	tokens, out := make([]string, len(orderNos)), make([]*settle.Message, len(orderNos))
	for i, no := range orderNos {
		tokens[i] = order.Token(no)
	}
	return out, s.q.Intents().Last(ctx, tokens, func(i int, m *settle.Message) { out[i] = m })
}

func (s jetStore) IntentAt(ctx context.Context, seq uint64) (*settle.Message, error) {
	return s.q.reader.msgAt(ctx, s.q.Conn.n.intents, seq)
}

func (s jetStore) PublishIntent(ctx context.Context, m *settle.Message) (settle.PublishStatus, uint64, error) {
	ctx, cancel := s.q.Conn.link.bound(ctx)
	defer cancel()
	ack, err := s.q.Conn.js.PublishMsg(ctx, natsMsg(m), jetstream.WithRetryAttempts(5))
	if err != nil {
		ack = &jetstream.PubAck{}
	}
	p := s.q.Conn.published(m.Subject, ack.Sequence, ack.Duplicate, err)
	return p.Status, p.Seq, p.Err
}

func (s jetStore) WaitingAt(ctx context.Context, seq uint64) (*settle.Message, error) {
	return s.q.reader.msgAt(ctx, s.q.Conn.n.waiting, seq)
}

func (s jetStore) DeleteWaiting(ctx context.Context, seq uint64) error {
	return unlessGone(s.q.reader.deleteMsg(ctx, s.q.Conn.n.waiting, seq))
}

func (s jetStore) PurgeWaiting(ctx context.Context, subject string, upTo uint64) error {
	if _, err := s.q.reader.purge(ctx, s.q.Conn.n.waiting, subject, upTo+1); err != nil {
		return fmt.Errorf("subject %s up to sequence %d: not removed: %w", subject, upTo, err)
	}
	return nil
}

func (s jetStore) DeleteIntent(ctx context.Context, seq uint64) error {
	return unlessGone(s.q.reader.deleteMsg(ctx, s.q.Conn.n.intents, seq))
}

func (s jetStore) IntentsFrom(ctx context.Context, seq uint64, most int) (page []*settle.Message, err error) {
	page, _, _, err = s.q.reader.page(ctx, s.q.Conn.n.intents, s.q.Conn.n.newPre+"*", max(seq, 1), most)
	return page, err
}

// PurgeIntents implements settle.Store. It never empties the stream with a purge:
// nats-server (2.15) then puts a new folder in the place of the one with the messages, and
// syncs neither. Before 2.14.4 such a purge also took what was stored meanwhile (nats-server
// #8400). So the last of the intents is removed by itself.
//
// At each purge of a stream, its consumers forget which messages wait to be delivered again
// (nats-server 2.15, consumer.purge). They still know that these are not acknowledged.
func (s jetStore) PurgeIntents(ctx context.Context, upTo uint64) error {
	last, err := s.q.reader.getMsg(ctx, s.q.Conn.n.intents, query{"last_by_subj": s.q.Conn.n.newPre + "*"})
	if err != nil || last == nil {
		return err
	}
	upTo = min(upTo, last.Seq)
	if _, err = s.q.reader.purge(ctx, s.q.Conn.n.intents, "", upTo); err != nil {
		return fmt.Errorf("the settled intents up to sequence %d are not removed: %w", upTo, err)
	}
	return s.DeleteIntent(ctx, upTo)
}

func (s jetStore) Stream(ctx context.Context) (birth int64, last uint64, err error) {
	state, err := s.q.Intents().State(ctx)
	return state.Birth, state.LastSeq, err
}

func (s jetStore) WaitingBirth(ctx context.Context) (int64, error) {
	end, err := s.q.Waiting.End(ctx)
	return end.Birth, err
}

func (s jetStore) ResultsBirth(ctx context.Context) (int64, error) {
	state, err := s.q.Results().State(ctx)
	return state.Birth, err
}

func (s jetStore) ServerID() string { return s.q.Conn.nc.ConnectedServerId() }

// Replicated implements settle.Store.
func (s jetStore) Replicated() bool { return s.q.reader.replicated() }

func (s jetStore) MaxPayload() int64 { return s.q.Conn.nc.MaxPayload() }

// recordReserve is the largest size of a record's headers within the broker's
// max_payload, in bytes.
const recordReserve = 4 << 10

// recordBuffers pools buffers in which the JSON of records is made. The message gets a copy
// that is as small as can be, since thousands may wait for the broker.
var recordBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// maxRecordBuffer bounds the buffers that are kept.
const maxRecordBuffer = 64 << 10

// recordMsg returns a record as a message. It shortens the texts of a record that
// exceeds max_payload.
func (q *Queue) recordMsg(token string, r *order.Record) (*nats.Msg, error) {
	buf := recordBuffers.Get().(*[]byte)
	data, err := r.AppendJSON((*buf)[:0])
	for err == nil && int64(len(data)) > q.Conn.nc.MaxPayload()-recordReserve {
		r.Response, r.Error, r.Reason = order.Truncate(r.Response, len(r.Response)/2), order.Truncate(r.Error, len(r.Error)/2), order.Truncate(r.Reason, 200)
		data, err = r.AppendJSON(data[:0])
	}
	if err != nil {
		return nil, fmt.Errorf("record of %s: %w", r.OrderNo, err)
	}
	msg := &nats.Msg{Subject: q.Conn.n.resPre + token, Data: bytes.Clone(data), Header: nats.Header{settle.HeaderOutcome: {r.Word}}}
	if cap(data) <= maxRecordBuffer {
		*buf = data
		recordBuffers.Put(buf)
	}
	return msg, nil
}

// mayForget reports whether a record is forgotten after the retention. A doubt stays
// until it is settled. A failure stays as long as its dead letter, because a
// replay must see what it repeats and an audit what the letter is about.
func mayForget(r *order.Record) bool {
	o := r.Outcome()
	return o != order.OutcomeNone && o != order.OutcomeUnknown && !r.NeedsLetter() && len(r.Letters()) == 0
}

// DecodeRecord reads a message of the results stream. Error:
// settle.ErrUnreadable.
func DecodeRecord(raw *settle.Message) (settle.Entry, error) {
	var r order.Record
	if err := unmarshalRecord(raw.Data, &r); err != nil {
		return settle.Entry{}, fmt.Errorf("%w: results stream, sequence %d: not a record: %w", settle.ErrUnreadable, raw.Seq, err)
	}
	if r.Word != order.Retrying && r.Outcome() == order.OutcomeNone {
		return settle.Entry{}, fmt.Errorf("%w: results stream, sequence %d: this version does not know the outcome %q", settle.ErrUnreadable, raw.Seq, r.Word)
	}
	if what := foreign(raw, &r); what != "" {
		return settle.Entry{}, fmt.Errorf("%w: results stream, sequence %d: no worker wrote it: %s", settle.ErrUnreadable, raw.Seq, what)
	}
	return settle.Entry{Record: &r, Seq: raw.Seq}, nil
}

// unmarshalRecord is json.Unmarshal in a third of its time. What the faster package refuses, such as a
// member that comes twice, encoding/json judges.
func unmarshalRecord(data []byte, r *order.Record) error {
	if jsonv2.Unmarshal(data, r, jsonv2.MatchCaseInsensitiveNames(true)) == nil {
		return nil
	}
	*r = order.Record{}
	return json.Unmarshal(data, r)
}

// foreign returns what shows that no program of ours wrote this record to this
// subject, or "". JetStream sends its answers to any subject that a request
// names as its reply. A record that somebody asked for can so end up as the
// last word on another order.
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

// hashedToken matches what settle.FileToken returns for a token that it cannot
// use.
var hashedToken = regexp.MustCompile(`^sha256-[0-9a-f]{64}$`)

func (s jetStore) HighWaterMark(ctx context.Context, key string) (m settle.HighWaterMark, seq uint64, err error) {
	raw, err := s.q.reader.lastMsg(ctx, s.q.bucket.stream(), s.q.bucket.prefix()+key)
	if err != nil || raw == nil {
		return m, 0, err
	}
	if err := json.Unmarshal(raw.Data, &m); err != nil {
		return settle.HighWaterMark{}, raw.Seq, nil // cleared by hand or foreign: no mark
	}
	return m, raw.Seq, nil
}

func (s jetStore) PutHighWaterMark(ctx context.Context, key string, m settle.HighWaterMark, expect uint64) (uint64, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	msg := nats.NewMsg(s.q.bucket.prefix() + key)
	msg.Data = data
	return s.q.marks.put(ctx, msg, expect)
}

var progressAck = []byte("+WPI")

func (s jetStore) Extend(reply, answer string) error {
	return s.q.Conn.nc.PublishRequest(reply, answer, progressAck)
}

func (s jetStore) ExtendIntent(seq uint64) error {
	return s.q.Conn.nc.Publish(fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.0.0", s.q.Conn.n.intents, s.q.Conn.n.consumer, seq), progressAck)
}

// AckFloor returns the highest sequence up to which the broker counts every
// intent as acknowledged and delivers none again. It returns 0 if there is no consumer: a
// new one delivers everything.
func (q *Queue) AckFloor(ctx context.Context) (uint64, error) {
	p, err := q.store.Progress(ctx)
	return p.Past(), err
}

// Progress implements settle.Store. The broker delivers what is to come again before
// anything else. So nothing waits for that while a pull waits.
func (s jetStore) Progress(ctx context.Context) (settle.Progress, error) {
	info, err := s.q.Topology.workersConsumer(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return settle.Progress{}, nil
	}
	if err != nil {
		return settle.Progress{}, err
	}
	p := settle.Progress{Floor: info.AckFloor.Stream, Delivered: info.Delivered.Stream, NoneHeld: info.NumAckPending == 0}
	p.NoneAgain = p.NoneHeld || info.NumWaiting > 0 && !info.Paused
	return p, nil
}
