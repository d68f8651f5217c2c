package service

import (
	"slices"
	"time"

	"orderpost/internal/fleet"
	"orderpost/internal/submit/gate"
)

const (
	// latestAnswers is over how many exchanges latencies are told at most: those of the
	// last ten seconds, or, if there are none, of the last minute.
	latestAnswers = 512
	latestFor     = 10 * time.Second
	longestFor    = time.Minute
	// busySlots is the share of the slots that must be in use for them to hold the rate.
	busySlots = 0.9
)

// latest keeps how long the latest exchanges with the API took. The caller locks.
type latest struct {
	ring [latestAnswers]struct {
		at   time.Time
		took time.Duration
	}
	next int
	last time.Time // the end of the last exchange
	idle time.Time // when no request was at the API, as far as was looked
}

func (l *latest) add(now time.Time, took time.Duration) {
	l.ring[l.next%latestAnswers].at, l.ring[l.next%latestAnswers].took = now, took
	l.next++
	l.last = now
}

// quantiles returns the median and the 99th percentile; 0 if nothing is recent.
func (l *latest) quantiles(now time.Time) (p50, p99 time.Duration) {
	for _, age := range []time.Duration{latestFor, longestFor} {
		var took []time.Duration
		for _, e := range l.ring[:min(l.next, latestAnswers)] {
			if now.Sub(e.at) <= age {
				took = append(took, e.took)
			}
		}
		if len(took) > 0 {
			slices.Sort(took)
			return took[(len(took)-1)*50/100], took[(len(took)-1)*99/100]
		}
	}
	return 0, 0
}

// silence returns for how long no exchange ended while requests were at the API.
func (l *latest) silence(now time.Time, atAPI int) time.Duration {
	if atAPI == 0 || l.idle.IsZero() {
		l.idle = now
	}
	since := l.idle
	if l.last.After(since) {
		since = l.last
	}
	return now.Sub(since)
}

// describe sets what the fleet is told about the API's answers and what holds the rate.
func (p *requestRate) describe(d *fleet.Presence, s gate.State, now time.Time) {
	p.mu.Lock()
	p50, p99 := p.latest.quantiles(now)
	atAPI := s.InFlight
	if s.RateBinds {
		atAPI = 0 // some of these wait for the limit
	}
	silent := p.latest.silence(now, atAPI)
	p.mu.Unlock()
	if p50 > 0 {
		d.P50MS, d.P99MS = inMillis(p50), inMillis(p99)
	}
	if silent >= fleet.SilentAfter {
		d.SilentMS = silent.Milliseconds()
	}
	d.Binds = binds(s, d, p50)
	if !s.Open {
		d.ShutMS = max(1, shutFor(s, now).Milliseconds())
	}
}

// inMillis rounds to a tenth of a millisecond: a presence is a few hundred bytes.
func inMillis(d time.Duration) float64 {
	return max(0.1, float64(d.Round(100*time.Microsecond).Microseconds())/1000)
}

// binds decides what holds the rate of an open gate. A closed one has its reasons.
func binds(s gate.State, d *fleet.Presence, p50 time.Duration) fleet.Binds {
	full := d.Slots > 0 && float64(s.InFlight) >= busySlots*float64(d.Slots)
	waits := full || s.Waiting > 0 // also behind the ramp, which a slow API keeps low
	switch {
	case d.SilentMS > 0, s.Throttled, waits && p50 >= fleet.SlowAnswer && !s.RateBinds:
		return fleet.BindsAPI
	case !s.Open:
		return ""
	case s.RateBinds:
		return fleet.BindsLimit
	case full:
		return fleet.BindsSlots
	default:
		return ""
	}
}

// shutFor returns for how long the first of the present blocks has stood.
func shutFor(s gate.State, now time.Time) (d time.Duration) {
	for _, b := range s.Blocks {
		d = max(d, now.Sub(b.Since))
	}
	return d
}
