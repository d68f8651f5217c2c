package notify

import "time"

const (
	// asideAfter and asideTries say when an event that the receiver refuses, while it
	// takes others, is put aside.
	asideAfter = 10 * time.Second
	asideTries = 5
	// refusedFor is how long the receiver may refuse one event with the same status of the
	// client's kind (4xx) until it counts as refused for good.
	refusedFor = 24 * time.Hour
	// statusGone says that the receiver does not want an event any more.
	statusGone = 410
)

// verdict is what follows from an answer that is no 2xx.
type verdict uint8

const (
	// again: the event is sent again, before those behind it.
	again verdict = iota
	// aside: the event is tried again beside the others, which go on.
	aside
	// parked: the event is not tried again until a person says so.
	parked
)

// trials is what is known of the attempts for one event.
type trials struct {
	tries       int
	first, last time.Time // of the attempts that failed
	status      int       // of the last attempt
	statusSince time.Time // since when the status is that
}

// failed adds an attempt that failed.
func (t *trials) failed(r reply, now time.Time) {
	if t.tries++; t.tries == 1 {
		t.first = now
	}
	if t.last = now; t.tries == 1 || r.status != t.status {
		t.status, t.statusSince = r.status, now
	}
}

// refusedForGood reports whether the receiver has refused the event with one and the same
// 4xx for a day. 408, 425 and 429 refuse nothing: they ask for a later attempt.
func (t *trials) refusedForGood() bool {
	later := t.status == 408 || t.status == 425 || t.status == 429
	return t.status/100 == 4 && !later && t.last.Sub(t.statusSince) >= refusedFor
}

// judge returns what follows from the trials of an event whose last attempt failed.
// othersTaken says that the receiver took another event since the first of them: without
// that it may be the receiver that fails and not the event, and the events wait in their order.
func judge(t *trials, othersTaken bool) verdict {
	switch {
	case t.refusedForGood(), t.status == statusGone && othersTaken:
		return parked
	case othersTaken && t.tries >= asideTries && t.last.Sub(t.first) >= asideAfter:
		return aside
	default:
		return again
	}
}
