package fleet

import (
	"fmt"
	"time"
)

// clocksApart is the difference between two clocks from which on people are told.
const clocksApart = time.Minute

// noteClocks compares the broker's time of our last sign of life with the time at which we sent it.
func (m *Member) noteClocks(members []Presence) {
	own := m.membership.find(members)
	if own < 0 || members[own].Beat != m.membership.beat {
		return
	}
	note := clockNote(members[own].SeenAt.Sub(m.membership.sent.Round(0)), m.clockMS)
	switch before := m.ClockNote(); {
	case note != "" && before == "":
		m.Log.Warn().Msg(note)
	case note == "" && before != "":
		m.Log.Info().Msg("this machine's clock and the broker's agree again")
	}
	m.clockNote.Store(&note)
}

// ClockNote says that this machine's clock and the broker's are more than a minute apart, and which of them
// the API's clock contradicts; "" if they agree. It is safe for concurrent use.
func (m *Member) ClockNote() string {
	if note := m.clockNote.Load(); note != nil {
		return *note
	}
	return ""
}

// clockNote is ClockNote for the broker's and the API's clock minus this machine's.
func clockNote(broker time.Duration, apiMS *int64) string {
	if broker.Abs() <= clocksApart {
		return ""
	}
	text := "this machine's clock is " + apart(broker) + " the broker's"
	if apiMS == nil {
		return text + ": set the one that is wrong"
	}
	switch api := time.Duration(*apiMS) * time.Millisecond; {
	case api.Abs() <= clocksApart:
		return "the broker's clock is " + apart(-broker) + " this machine's and the API's: set it"
	case (api - broker).Abs() <= clocksApart:
		return text + " and the API's: set it"
	default:
		return text + ", and " + apart(api) + " the API's: set those that are wrong"
	}
}

// apart says how a clock differs from another one, given the other one minus it.
func apart(other time.Duration) string {
	if other < 0 {
		return fmt.Sprintf("%s ahead of", -other.Round(time.Second))
	}
	return fmt.Sprintf("%s behind", other.Round(time.Second))
}
