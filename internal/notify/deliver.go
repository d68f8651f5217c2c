package notify

import (
	"context"
	"time"
)

// hands is how many events are under way at once.
const hands = 16

// hand sends one event after the other until intake ends. work ends an attempt that is
// under way.
func (s *session) hand(intake, work context.Context) {
	for {
		l, j := s.turns.next(intake)
		switch {
		case l == nil:
			return
		case j.aside != nil:
			s.tryAside(intake, work, j.aside)
			s.turns.done(l)
		default:
			s.deliver(intake, work, l, j)
		}
	}
}

// deliver makes one attempt. It closes the event's place only if the receiver has it, or the
// bucket keeps it aside.
func (s *session) deliver(intake, work context.Context, l *line, j job) {
	r, alone, sent := s.attempt(intake, work, j.msg)
	if !sent {
		return // the session is over
	}
	if r.class() == 2 {
		s.overtake(work, j.msg)
	} else {
		if r.after == 0 {
			l.failed(r, time.Now())
		}
		v := judge(&l.trials, s.receiver.takenSince(l.first))
		if v == again || !s.putAside(work, j.msg, l.trials, r, v == parked) {
			s.turns.later(l, alone)
			return
		}
	}
	s.window.close(j.place)
	s.turns.done(l)
}

// attempt makes one attempt when the receiver may be sent something, and counts it. alone is
// as receiver.refused returns it, and false if the receiver asked for a pause. sent is false
// if this process may not send any more, or the attempt was broken off for that.
func (s *session) attempt(intake, work context.Context, m *message) (r reply, alone, sent bool) {
	leave, ok := s.receiver.enter(intake)
	if !ok {
		return r, false, false
	}
	defer leave()
	if !s.lease.Await(intake) {
		return r, false, false
	}
	if r = s.client.post(work, m); work.Err() != nil {
		return r, false, false // whether the receiver has it, nobody knows: it is sent again
	}
	s.stats.attempts[r.class()].Add(1)
	if r.class() == 2 {
		s.receiver.took()
		return r, false, true
	}
	s.log.Debug().Str("event", m.kind).Str("order_no", m.orderNo).Str("webhook_id", m.id).Str("answer", r.String()).Msg("the receiver did not take an event")
	if r.after > 0 {
		return s.receiver.paused(r), false, true
	}
	return r, s.receiver.refused(r, m.aside), true
}
