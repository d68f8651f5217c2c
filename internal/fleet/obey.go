package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// obey applies what the bucket says, in an order that never lets more through
// than before: holds first, then the share. It returns whether the bucket lists
// this worker.
func (m *Member) obey(view *View) (listed bool) {
	m.obeyCancellations(view)
	m.obeyIdentity(view)
	m.obeyHold(view)
	m.obeyThrottle(view)
	if m.read && view.Resumed != m.resumed {
		m.Log.Info().Msg("a person resumed the fleet")
		m.Gate.ResumeAnswers()
	}
	if m.read && view.lookRevision > m.looked {
		m.look()
	}
	m.resumed, m.looked, m.read = view.Resumed, view.lookRevision, true
	m.others, listed = m.membership.observe(view.Members, time.Now())
	m.divide(sharedLimit(view, m.Limit, m.others))
	return listed
}

// divide keeps to our share of the limit, and holds the gate while we have none.
func (m *Member) divide(limit float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limited = limit > 0
	share := limit / float64(len(m.others)+1)
	if m.limited && !m.membership.joined {
		m.Gate.Pause(holdJoining)
		if len(m.others) > 0 && !m.waiting {
			m.Log.Info().Int("others", len(m.others)).Msg("waiting until the other workers have made room for this one below the rate limit")
		}
		m.waiting = len(m.others) > 0
	}
	if share != m.share || m.Gate.State().Rate != share {
		e := m.Log.Info()
		if len(m.others) == 0 && m.share == 0 { // the setting, of a worker that starts alone
			e = m.Log.Debug()
		}
		e.Float64("limit", limit).Float64("share", share).Int("workers", len(m.others)+1).Msg("share of the rate limit")
		m.Gate.SetLimit(share)
		m.share = share
	}
	if !m.limited || m.membership.joined && !m.fenced {
		m.Gate.Release(holdJoining)
		m.Gate.Release(holdFenced)
	}
}

// obeyCancellations passes the cancellations on. They count as known from the next sign of
// life on.
func (m *Member) obeyCancellations(view *View) {
	if view.Cancelled.Version <= m.cancelled || m.Cancel == nil {
		return
	}
	m.Cancel(view.Cancelled)
	m.cancelled = view.Cancelled.Version
}

// obeyIdentity stops a worker whose fleet was given another API: by a person
// (worker adopt), or by a worker that found nothing stored for this one's.
func (m *Member) obeyIdentity(view *View) {
	text := ""
	if c := view.Identity; c != nil && m.Identity.URL != "" && m.Identity.Contradicts(c.Identity) {
		text = fmt.Sprintf("the fleet posts to %s since %s, and this worker to %s: restart it with the fleet's settings", c.Identity, c.At.Format(time.RFC3339), m.Identity)
	}
	if m.holdAs(&m.foreign, text) && text != "" {
		m.Log.Error().Str("by", view.Identity.By).Msg(text)
	}
}

// holdAs holds the gate for one reason in the place of another; "" = for none. It reports whether that
// changes anything.
func (m *Member) holdAs(was *string, reason string) (changed bool) {
	former := *was
	if former == reason {
		return false
	}
	if *was = reason; reason != "" {
		m.Gate.Hold(reason, time.Time{})
	}
	if former != "" {
		m.Gate.Release(former)
	}
	return true
}

// obeyHold applies a person's hold. A key that cannot be read may be one.
func (m *Member) obeyHold(view *View) {
	text := ""
	if view.holdRevision != m.holdRevision {
		m.holdRevision, m.heldSince = view.holdRevision, time.Now()
	}
	if len(view.Unreadable) > 0 {
		text = "the control bucket's " + strings.Join(view.Unreadable, " and ") + " cannot be read by this version: upgrade it, or use orderpost resume and orderpost limit"
	}
	m.held.Store(view.Hold != nil)
	if view.Hold != nil {
		text = view.Hold.text()
	}
	m.holdAs(&m.hold, text)
}

// text says who holds the fleet, for how long and why.
func (h *Hold) text() string {
	text := "held by " + cmp.Or(h.By, "somebody")
	if h.For > 0 {
		text += " " + h.Lasts()
	}
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return text
}

// holdIsOver reports whether this worker has read the hold for its whole time.
func (m *Member) holdIsOver(view *View) bool {
	return view.Hold != nil && view.Hold.For > 0 && time.Since(m.heldSince) >= view.Hold.For
}

// endHold removes a hold whose time is over, for all workers: one that started later has not
// read it for so long. Somebody may have set another one since.
func (m *Member) endHold(ctx context.Context, view *View) {
	if !m.holdIsOver(view) {
		return
	}
	switch err := m.Control.remove(ctx, holdKey, view.holdRevision); {
	case err == nil:
		m.Log.Info().Str("hold", m.hold).Msg("the time of the hold is over")
	case !errors.Is(err, ErrSteered):
		m.Log.Debug().Err(err).Msg("the time of the hold is over; its entry is not removed yet")
	}
}

// obeyThrottle waits as long as the API asked another worker to wait, from now on.
func (m *Member) obeyThrottle(view *View) {
	t := view.Throttle
	if t == nil || t.Revision == m.throttle {
		return
	}
	m.throttle = t.Revision
	if !m.read || t.Worker == m.membership.id { // what was there before this worker may be long over
		return
	}
	m.throttledUntil = time.Now().Add(t.For)
	m.Gate.ThrottleUntil(m.throttledUntil, "the API asked another worker for slower requests")
}
