package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"orderpost/internal/submit/gate"
)

// announce gives a sign of life if one is due. What it says of our share is true
// already.
func (m *Member) announce(ctx context.Context) error {
	p := m.Describe()
	m.clockMS = p.ClockMS
	if m.ClockNote() != "" {
		p.Notes = append(p.Notes, m.ClockNote())
	}
	p.Worker, p.ID, p.Joined = m.Name, m.membership.id, m.membership.joined
	p.Limit, p.Share, p.Cancelled = m.Limit, m.share, m.cancelled
	p.Sees = m.membership.joining(m.others)
	last := m.announced
	// Who has joined asks no more who sees it.
	same := !slices.ContainsFunc(p.Sees, func(id string) bool { return !slices.Contains(last.Sees, id) }) && p.Joined == last.Joined && p.ID == last.ID && p.Share == last.Share && p.Cancelled == last.Cancelled
	sent := time.Now()
	every := announceEvery
	if m.membership.nextTerm(sent) == 0 {
		every = overdueEvery
	}
	if same && sent.Sub(m.announcedAt) < every {
		return nil
	}
	m.beat++ // also if this fails: the broker may store it later
	p.Beat = m.beat
	if err := m.Control.Appear(ctx, p); err != nil {
		if m.announcedAt.IsZero() { // no fence is set, and others may count this stay already
			m.mu.Lock()
			m.fenced = true
			m.mu.Unlock()
		}
		return err
	}
	if m.announcedAt.IsZero() && m.limited && len(m.others) > 0 { // they make room
		if err := m.Control.bucket.Put(ctx, joinKey, p.ID); err != nil {
			m.Log.Debug().Err(err).Msg("the others will find out in a second")
		}
	}
	m.announced, m.announcedAt = p, sent
	m.membership.said(p.Beat, sent)
	m.fence.Reset(PresenceTerm - fenceMargin - time.Since(sent))
	return nil
}

// announceThrottle tells the fleet when the API asked this worker for slower
// requests.
func (m *Member) announceThrottle(ctx context.Context) {
	for _, b := range m.Gate.State().Blocks {
		wait := time.Until(b.Until)
		if b.Name != gate.BlockThrottle || wait <= 0 || !b.Until.After(m.throttledUntil.Add(10*time.Millisecond)) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
		defer cancel()
		if err := m.Control.bucket.Put(ctx, throttleKey, Throttle{Worker: m.membership.id, For: wait}); err != nil {
			m.Log.Debug().Err(err).Msg("throttle not passed on")
			return
		}
		m.throttledUntil = b.Until
	}
}

// eraseDead removes the entries of workers that died long ago.
func (m *Member) eraseDead(ctx context.Context, view *View) {
	for _, p := range view.Members {
		if p.ID != m.membership.id && m.membership.expired(p.ID, eraseAfter) {
			if err := m.Control.Remove(ctx, p); err != nil {
				m.Log.Debug().Err(err).Str("gone", p.Worker).Msg("entry of a worker that died not removed")
			}
		}
	}
}

// leave gives our share to the others at once.
func (m *Member) leave() {
	m.fence.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := m.Control.Remove(ctx, Presence{Worker: m.Name, ID: m.membership.id}); err != nil {
		m.Log.Debug().Err(fmt.Errorf("leaving the fleet: %w", err)).Msg("the others will find out in a few seconds")
	}
}
