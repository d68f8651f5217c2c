package notify

import (
	"context"
	"encoding/json"
	"time"

	"orderpost/internal/fleet"
	"orderpost/internal/settle"
)

// fleetEvery is how often the sender looks whether the fleet is held.
const fleetEvery = 2 * time.Second

// fleetTold is what the receiver was told of the fleet last. Hold names the hold by when it
// began; zero = the fleet goes on.
type fleetTold struct {
	Hold time.Time `json:"hold,omitzero"`
}

// Fleet is the data of fleet.held and fleet.resumed.
type Fleet struct {
	// Reason and By are what the person said who held the fleet, For is how long the hold lasts if
	// nobody resumes. fleet.resumed has none of them.
	Reason string        `json:"reason,omitempty"`
	By     string        `json:"by,omitempty"`
	Since  time.Time     `json:"since"`
	For    time.Duration `json:"for_ns,omitempty"`
}

// watchFleet tells when a person holds the fleet, and when it goes on. What changed back
// before the receiver took it is not told. It believes only what it saw twice, because a
// replica that lags may answer.
func (s *session) watchFleet(intake, work context.Context) {
	waits, control := newBackoff(firstWait, longestWait), fleet.New(s.queue)
	var before *fleet.Hold
	for wait := fleetEvery; settle.Sleep(intake, wait) == nil; {
		wait = fleetEvery
		view, err := control.Read(intake)
		if err != nil || len(view.Unreadable) > 0 {
			continue
		}
		hold := view.Hold
		same := since(hold).Equal(since(before))
		if before = hold; !same || since(hold).Equal(s.lastTold().Fleet.Hold) {
			continue
		}
		m := s.fleetMessage(hold)
		if !s.filter.wants(m.kind) || s.send(intake, work, m) {
			s.noteTold(func(t *allTold) { t.Fleet.Hold = since(hold) })
			waits.Reset()
		} else {
			wait = waits.NextBackOff()
		}
	}
}

// send makes one attempt for an event that is about no record, and reports whether it is over: the
// receiver has the event, or said that it never wants it.
func (s *session) send(intake, work context.Context, m *message) bool {
	r, _, sent := s.attempt(intake, work, m)
	return sent && (r.class() == 2 || r.status == statusGone)
}

// since names a hold.
func since(h *fleet.Hold) time.Time {
	if h == nil {
		return time.Time{}
	}
	return h.Since
}

func (s *session) fleetMessage(h *fleet.Hold) *message {
	kind, data := TypeHeld, Fleet{}
	if h == nil {
		kind, data.Since = TypeResumed, s.lastTold().Fleet.Hold
	} else {
		data = Fleet{Reason: h.Reason, By: h.By, Since: h.Since, For: h.For}
	}
	at := data.Since
	if h == nil {
		at = time.Now().UTC()
	}
	body, _ := json.Marshal(Event{Type: kind, Timestamp: at, Data: data}) // texts and times that JSON brought
	return &message{id: idOf(kind, data.Since.UTC().Format(time.RFC3339Nano)), kind: kind, body: body}
}
