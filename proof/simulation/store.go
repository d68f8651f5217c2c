package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// store is one process's access to the broker. It implements settle.Store.
type store struct {
	w *world
	h *host
}

// at notes the step of the protocol that a request belongs to.
func (s store) at(step Step) Step {
	s.w.e.running.step = step
	return step
}

// read sends a single read to the leader of a stream, which runs now. held says whether it
// holds the message.
//
// It does what queue's lastMsg does: "no message found" is believed only if the index of
// the stream agrees. A leader that stops has its index still.
func (s store) read(in streamName, step Step, held func() bool, now func()) error {
	s.at(step)
	b := s.w.broker
	return s.h.ask(func() reaction {
		r := b.reads(in, step)
		switch {
		case r == answers:
			now()
		case r == answersNone && (!held() || s.w.drops(Index)):
			b.w.e.trace.say(b.w.e, "broker", "stopping leader", "", "has no message, it says to %s", s.h.name)
		case r == answersNone:
			return refuses
		}
		return r
	})
}

// write sends a write to the leader of a stream.
func (s store) write(in streamName, step Step, effect func()) error {
	s.at(step)
	return s.h.ask(func() reaction {
		r := s.w.broker.writes(in, step)
		if r == answers || r == storesSilently {
			effect()
		}
		return r
	})
}

// look is the step of a single read: a worker checks, other programs look up.
func (s store) look() Step {
	if s.w.e.running.delivery != nil || s.w.e.running.checking {
		return StepCheck
	}
	return StepLookup
}

func (s store) Record(_ context.Context, token string) (entry settle.Entry, err error) {
	b := s.w.broker
	err = s.read(inResults, s.look(), func() bool { return b.results[token] != nil }, func() { entry = b.record(token) })
	_ = s.heard(token, err)
	if err != nil {
		return settle.Entry{}, err
	}
	return s.w.mutateRead(token, entry), nil
}

func (s store) Records(_ context.Context, tokens []string, found func(int, settle.Entry, error) error) error {
	entries := make([]settle.Entry, len(tokens))
	s.at(s.look())
	err := s.h.ask(func() reaction {
		has := s.w.broker.answering(s.h)
		if has == nil {
			return isSilent
		}
		for i, token := range tokens {
			if entries[i] = has(token); token == unchecked.Token {
				entries[i].Seq = unchecked.Seq
			}
		}
		return answers
	})
	if err != nil {
		return err
	}
	for i, token := range tokens {
		if err := found(i, s.w.mutateRead(token, entries[i]), nil); err != nil {
			return err
		}
	}
	return nil
}

func (s store) Barrier(context.Context) (last settle.Barrier, err error) {
	b := s.w.broker
	step := s.at(s.look())
	err = s.h.ask(func() reaction {
		r := b.reads(inResults, step)
		if r == answers {
			if last = b.followers.barrier(); b.w.drops(Barrier) && last.Seq > 0 {
				last = unchecked
			}
		}
		return r
	})
	return last, err
}

func (b *broker) record(token string) settle.Entry {
	return b.results[token].entry()
}

func (r *resultEntry) entry() settle.Entry {
	if r == nil {
		return settle.Entry{}
	}
	rec := *r.rec
	return settle.Entry{Record: &rec, Seq: r.seq}
}

func (s store) PutRecord(_ context.Context, token string, r *order.Record, expect uint64) (seq uint64, err error) {
	rec := *r
	stored(&rec)
	if !s.mutateRecord(&rec, expect) {
		return expect, nil
	}
	var refused error
	step := StepNote
	if r.Outcome() != order.OutcomeNone {
		step = StepRecord
	}
	claim := s.claim()
	if err := s.write(inResults, step, func() { seq, refused = s.w.broker.putRecord(token, &rec, expect, s.h, claim) }); err != nil {
		return 0, s.heard(token, err)
	}
	return seq, s.heard(token, refused)
}

// claim returns the claim of the delivery that is being handled; 0 = none is.
func (s store) claim() int {
	if d := s.w.e.running.delivery; d != nil {
		return claimOf(d.arrival.Reply)
	}
	return 0
}

func (b *broker) putRecord(token string, rec *order.Record, expect uint64, h *host, claim int) (uint64, error) {
	var last uint64
	cur := b.results[token]
	if cur != nil {
		last = cur.seq
	}
	switch {
	case b.full:
		b.w.e.trace.say(b.w.e, "broker", "result refused", token, "storage is full")
		return 0, settle.ErrStorage
	case last != expect && !b.w.drops(R1):
		if t := b.w.e.trace; t != nil {
			t.say(b.w.e, "broker", "result stale", token, "%s from %s", rec.Word, h.name)
		}
		return 0, settle.ErrStale
	}
	b.resSeq++
	b.results[token] = &resultEntry{rec, b.resSeq}
	b.replicate(token)
	b.w.witness.recorded(rec, h, claim)
	return b.resSeq, nil
}

func (s store) Letter(_ context.Context, token string, seq uint64) (l *settle.Letter, err error) {
	b := s.w.broker
	in := func() *settle.Letter {
		if l := b.letters[seq]; l != nil && l.FiledUnder == token {
			return l
		}
		return nil
	}
	err = s.read(inLetters, StepLetter, func() bool { return in() != nil }, func() { l = copyOf(in()) })
	return l, s.heard(token, err)
}

func copyOf(l *settle.Letter) *settle.Letter {
	if l == nil {
		return nil
	}
	c := *l
	c.Headers = maps.Clone(l.Headers)
	return &c
}

func (s store) PutLetter(_ context.Context, token string, l *settle.Letter) (seq uint64, err error) {
	letter, claim := *l, s.claim()
	var refused error
	err = s.write(inLetters, StepLetter, func() {
		b := s.w.broker
		if b.full {
			refused = settle.ErrStorage
			return
		}
		b.deadSeq++
		seq = b.deadSeq
		if s.w.drops(R4) {
			return
		}
		letter.Seq, letter.FiledUnder = seq, token
		b.letters[seq] = &letter
		b.w.witness.tell(oracle.Event{Kind: oracle.Filed, OrderNo: token, Intent: letter.IntentID, Seq: seq, Process: s.h.run, Claim: claim,
			Letter: copyOf(&letter), Body: hashOf(letter.Body)})
		s.w.e.trace.say(s.w.e, "broker", "letter", token, "%d stored: %s %s", seq, letter.IntentID, letter.Outcome)
	})
	if err != nil {
		return 0, s.heard(token, err)
	}
	return seq, s.heard(token, refused)
}

// heard tells when the process learned that the broker refuses a result of an order,
// and when it learned anything else about that order: it may have stored the result, or
// given the order up (R10).
func (s store) heard(orderNo string, err error) error {
	switch {
	case errors.Is(err, settle.ErrStorage):
		s.h.refused = append(s.h.refused, orderNo)
		s.w.witness.tell(oracle.Event{Kind: oracle.Refused, Process: s.h.run, OrderNo: orderNo})
		s.repost()
	case len(s.h.refused) > 0 && slices.Contains(s.h.refused, orderNo):
		s.h.refused = slices.DeleteFunc(s.h.refused, func(no string) bool { return no == orderNo })
		s.w.witness.tell(oracle.Event{Kind: oracle.Unrefused, Process: s.h.run, OrderNo: orderNo})
	}
	return err
}

func (s store) DeleteLetter(_ context.Context, token string, seq uint64) error {
	return s.write(inLetters, StepLetter, func() {
		b := s.w.broker
		if have := b.letters[seq]; have != nil && have.FiledUnder == token {
			delete(b.letters, seq)
			b.w.witness.tell(oracle.Event{Kind: oracle.Unfiled, OrderNo: token, Seq: seq, Process: s.h.run})
			s.w.e.trace.say(s.w.e, "broker", "letter", token, "%d removed", seq)
		}
	})
}

func (s store) LettersFrom(_ context.Context, seq uint64, most int) (refs []settle.LetterRef, err error) {
	err = s.read(inLetters, StepLetter, func() bool { return false }, func() {
		for _, at := range sortedKeys(s.w.broker.letters) {
			if at >= seq && len(refs) < most {
				refs = append(refs, settle.LetterRef{Token: s.w.broker.letters[at].FiledUnder, Seq: at})
			}
		}
	})
	return refs, err
}

func (s store) LastLetter(context.Context) (last uint64, err error) {
	s.at(StepLetter)
	err = s.h.request(func() { last = s.w.broker.deadSeq })
	return last, err
}

func (s store) Intent(_ context.Context, orderNo string) (m *settle.Message, err error) {
	b := s.w.broker
	subject := subjectPrefix + orderNo
	err = s.read(inIntents, StepLookup, func() bool { return b.bySubj[subject] != nil }, func() { m = b.bySubj[subject].message() })
	return m, err
}

func (in *intent) message() *settle.Message {
	if in == nil {
		return nil
	}
	return in.msg
}

func (s store) Intents(ctx context.Context, orderNos []string) (out []*settle.Message, err error) {
	out = make([]*settle.Message, len(orderNos))
	for i, no := range orderNos {
		if out[i], err = s.Intent(ctx, no); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s store) IntentAt(_ context.Context, seq uint64) (m *settle.Message, err error) {
	b := s.w.broker
	err = s.read(inIntents, StepLookup, func() bool { return false }, func() { m = b.intents[seq].message() })
	return m, err
}

func (s store) PublishIntent(ctx context.Context, m *settle.Message) (p settle.PublishStatus, seq uint64, err error) {
	if err := s.w.beforeReplay(ctx, s, m); err != nil {
		return settle.PublishNone, 0, err
	}
	began := s.w.e.at
	err = s.write(inIntents, StepPublish, func() {
		s.w.witness.paused = s.h.frozen > began
		defer func() { s.w.witness.paused = false }()
		p, seq = s.w.broker.publish(m, given(m))
		if p != settle.Stored {
			if t := s.w.e.trace; t != nil {
				t.say(s.w.e, "broker", "not stored", orderNoOf(m.Subject), "%s: %s", given(m), p)
			}
		}
	})
	return p, seq, err
}

func (s store) DeleteIntent(_ context.Context, seq uint64) error {
	return s.write(inIntents, StepTrim, func() {
		s.w.broker.remove(seq)
		if s.w.drops(Floor) {
			s.w.broker.remove(seq + 1)
		}
	})
}

// birth is that of every stream.
var birth = epoch.UnixNano()

func (s store) Stream(context.Context) (_ int64, last uint64, err error) {
	s.at(StepMark)
	err = s.h.request(func() { last = s.w.broker.seq })
	return birth, last, err
}

// WaitingBirth and ResultsBirth make no request: no stream is made again in a schedule.
func (store) WaitingBirth(context.Context) (int64, error) { return birth, nil }
func (store) ResultsBirth(context.Context) (int64, error) { return birth, nil }

// HighWaterMark returns at once for a key that was never written.
func (s store) HighWaterMark(_ context.Context, key string) (m settle.HighWaterMark, seq uint64, err error) {
	b := s.w.broker
	if _, ever := b.marks[key]; !ever {
		return m, 0, nil
	}
	err = s.read(inMarks, StepMark, func() bool { return true }, func() { m, seq = b.marks[key].mark, b.marks[key].seq })
	if s.w.drops(Marks) {
		m = settle.HighWaterMark{}
	}
	return m, seq, err
}

func (s store) PutHighWaterMark(_ context.Context, key string, m settle.HighWaterMark, expect uint64) (seq uint64, err error) {
	var refused error
	err = s.write(inMarks, StepMark, func() {
		b := s.w.broker
		switch {
		case b.full:
			refused = settle.ErrStorage
		case b.marks[key].seq != expect:
			refused = settle.ErrStale
		default:
			b.markSeq++
			seq = b.markSeq
			b.marks[key] = markEntry{m, seq}
		}
	})
	if err != nil {
		return 0, err
	}
	return seq, refused
}

// askConsumer asks the leader of the workers' consumer.
func (s store) askConsumer(effect func()) error {
	return s.h.ask(func() reaction {
		if !s.w.broker.leadsConsumer() {
			return isSilent
		}
		effect()
		return answers
	})
}

func (s store) ExtendIntent(seq uint64) error {
	h := s.h
	if !h.up {
		return errLink
	}
	if !h.cut && !(h.faulty && s.w.drawLoss() != lossNone) {
		h.send(func() { s.w.broker.extend(seq) })
	}
	return nil
}

// Extend sends a request to extend a claim. The answer arrives unless the connection
// breaks.
func (s store) Extend(reply, answer string) error {
	h := s.h
	if s.w.drops(Arrival) && s.w.e.running != nil && s.w.e.running.checking {
		return nil
	}
	s.w.witness.tell(oracle.Event{Kind: oracle.Extended, Claim: claimOf(reply), Process: h.run})
	if !h.up {
		return errLink
	}
	if h.cut || h.faulty && s.w.drawLoss() != lossNone {
		return nil
	}
	link, seq := h.link, seqOf(reply)
	h.send(func() {
		if !s.w.broker.extend(seq) {
			return
		}
		s.w.e.after(s.w.latency(), func() {
			if h.link == link && !h.cut {
				h.notice(func() { h.q.Claims.Answered(answer) })
			}
		})
	})
	return nil
}

// ServerID implements settle.Store.
func (s store) ServerID() string { return strconv.Itoa(s.w.broker.life) }

// Replicated: see settle.Store.
func (s store) Replicated() bool { return s.w.broker.followers != nil }

// MaxPayload returns a limit that no order in a schedule reaches.
func (s store) MaxPayload() int64 { return 1 << 20 }

// answer sends acknowledgements (settle.Answer).
type answer struct {
	w     *world
	h     *host
	seq   uint64
	claim int
}

func (a answer) Ack() error {
	return a.send("ack", func(bool, time.Duration) { a.w.broker.ack(a.seq, a.claim) })
}

func (a answer) Nak() error { return a.NakWithDelay(0) }

func (a answer) NakWithDelay(d time.Duration) error {
	return a.send("nak", func(paused bool, sent time.Duration) { a.w.broker.nak(a.seq, d, a.claim, paused, sent) })
}

// send runs effect at the broker. paused says whether the process was frozen after its
// last check of the claim, which no protocol can prevent, and sent when the message left it.
func (a answer) send(what string, effect func(paused bool, sent time.Duration)) error {
	began := a.w.e.at
	a.w.e.running.step = StepAck
	if what == "nak" {
		a.w.e.running.step = StepGiveBack
	}
	a.h.boundary(a.w.e.running)
	paused := a.w.e.at > began
	if !a.h.up {
		return errLink
	}
	if a.h.cut || a.h.faulty && a.w.drawLoss() == lossRequest {
		a.w.e.trace.say(a.w.e, a.h.name, what+" lost", "", "sequence %d", a.seq)
		return nil
	}
	sent := a.w.e.at
	a.h.send(func() { effect(paused, sent) })
	return nil
}

func (b *broker) ack(seq uint64, by int) {
	if in := b.intents[seq]; in != nil {
		if !b.leadsConsumer() && !b.stopping(0.5) { // stored without a leader's answer, or lost
			b.w.e.trace.say(b.w.e, "broker", "ack lost", in.orderNo, "nobody leads the consumer")
			return
		}
		if t := b.w.e.trace; t != nil {
			t.say(b.w.e, "broker", "ack", in.orderNo, "%s", in.id)
		}
		if p := b.pending[seq]; p != nil && p.claim != 0 {
			b.w.witness.released(p.claim, "")
		}
		if b.acked[seq] {
			return
		}
		b.w.witness.removed(in, by)
		b.acked[seq] = true
		b.forget(seq)
		if b.w.trims() {
			b.wakeTrimmers()
		} else {
			b.remove(seq)
		}
		b.serve()
	}
}

const subjectPrefix = "orders.new."

func orderNoOf(subject string) string { return strings.TrimPrefix(subject, subjectPrefix) }

func given(m *settle.Message) string { return m.Header.Get(settle.HeaderIntentID) }

// intentID does what settle does for short and valid IDs.
func intentID(m *settle.Message, id string) string {
	if id == "" {
		return "seq:" + strconv.FormatUint(m.Seq, 10) + "@" + strconv.FormatInt(m.Time.UnixNano(), 10)
	}
	return id
}

func replyOf(seq uint64, claim int) string {
	return strconv.FormatUint(seq, 10) + "." + strconv.Itoa(claim)
}

func claimOf(reply string) int {
	_, text, _ := strings.Cut(reply, ".")
	claim, _ := strconv.Atoi(text)
	return claim
}

func seqOf(reply string) uint64 {
	text, _, _ := strings.Cut(reply, ".")
	seq, _ := strconv.ParseUint(text, 10, 64)
	return seq
}

func sortedKeys[V any](m map[uint64]V) []uint64 { return slices.Sorted(maps.Keys(m)) }
