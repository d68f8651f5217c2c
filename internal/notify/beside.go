package notify

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// putAside keeps an event aside, and reports whether the broker has it. If it has not, the
// event stays where it is.
func (s *session) putAside(work context.Context, m *message, t trials, r reply, park bool) bool {
	a := Aside{OrderNo: m.orderNo, Type: m.kind, ID: m.id, Outcome: m.outcome, Position: m.seq, Token: m.token}.failed(t, r, park)
	switch err := s.asides.add(work, *a); {
	case err == nil:
	case errors.Is(err, errNoSlot):
		s.tell("the receiver refuses too many events; nothing more is put aside, and events wait in their order: orderpost notify parked lists them")
		return false
	default:
		s.log.Warn().Err(err).Msg("a refused event is not put aside, because the broker did not store it; will retry")
		return false
	}
	if park {
		s.log.Error().Str("event", m.kind).Str("order_no", m.orderNo).Str("answer", r.String()).Msg("the receiver refuses an event for good; it is parked: see orderpost notify parked")
	} else {
		s.log.Warn().Str("event", m.kind).Str("order_no", m.orderNo).Str("answer", r.String()).Msg("the receiver refuses an event while it takes others; it is tried again beside them")
	}
	return true
}

// overtake removes what is aside of a record, when a later event of it was delivered: an
// earlier one must not follow.
func (s *session) overtake(work context.Context, m *message) {
	for _, a := range s.asides.of(m.token) {
		if a.Position >= m.seq {
			continue
		}
		if err := s.asides.remove(work, a); err != nil { // tryAside finds it out
			s.log.Debug().Err(err).Msg("an event that is out of date stays aside for now")
		}
	}
}

// watchAside gives the events that are aside their turns when their time comes, and reads
// what persons changed. While the receiver takes nothing, they are tried one at a time as all
// events are: in a quiet fleet no other event would find out that it is back.
func (s *session) watchAside(intake context.Context) {
	for {
		if err := s.asides.read(intake); err != nil && intake.Err() == nil {
			s.log.Warn().Err(err).Msg("cannot read which events are aside; will retry")
		}
		most := mostAside
		if s.receiver.trouble() != "" {
			most = 1
		}
		for _, a := range s.asides.due(time.Now(), most) {
			s.turns.add(a.Token, job{aside: a})
		}
		if settle.Sleep(intake, asideEvery) != nil {
			return
		}
	}
}

// tryAside makes one attempt for an event that is aside. It reads the record again: if that
// was replaced, or has expired, the event is out of date. The later one has its turn before or
// after this, never at the same time.
func (s *session) tryAside(intake, work context.Context, a *Aside) {
	defer s.asides.release(a)
	m, err := s.present(work, a)
	if err == nil && m == nil {
		err = s.asides.remove(work, a)
	} else if err == nil {
		err = s.attemptAside(intake, work, a, m)
	}
	if err != nil && work.Err() == nil {
		s.log.Warn().Err(err).Str("order_no", a.OrderNo).Msg("an event that is aside cannot be read or written; will retry")
	}
}

func (s *session) attemptAside(intake, work context.Context, a *Aside, m *message) error {
	r, _, sent := s.attempt(intake, work, m)
	switch {
	case !sent:
		return nil
	case r.class() == 2:
		return s.asides.remove(work, a)
	}
	t := a.trials()
	t.failed(r, time.Now())
	// A receiver that takes nothing at the moment may answer 410 to every event.
	v := judge(&t, s.receiver.trouble() == "")
	return s.asides.change(work, a.failed(t, r, v == parked))
}

// present returns the event of an Aside as the results hold it; nil if they hold a later
// one, or none.
func (s *session) present(ctx context.Context, a *Aside) (m *message, err error) {
	results, decoded := s.queue.Results(), error(nil)
	err = results.Last(ctx, []string{a.Token}, func(_ int, raw *settle.Message) {
		var entry settle.Entry
		if entry, decoded = queue.DecodeRecord(raw); decoded == nil && entry.Seq == a.Position {
			m, decoded = messageOf(entry, a.Token, raw.Time, &filter{})
			if m != nil {
				m.aside = true
			}
		}
	})
	if errors.Is(decoded, settle.ErrUnreadable) {
		return nil, nil
	}
	return m, errors.Join(err, decoded)
}
