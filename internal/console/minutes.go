package console

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// hour is how many minutes are counted.
const hour = 60

// minute counts the outcomes that were recorded in one minute.
type minute struct {
	At       time.Time
	Outcomes [order.OutcomeUnknown + 1]int
}

// Total is the number of orders that were settled in the minute.
func (m minute) Total() (n int) {
	for _, k := range m.Outcomes {
		n += k
	}
	return n
}

// minutes counts what was settled in the last hour. It reads each result once, by
// its sequence.
type minutes struct {
	queue *queue.Queue

	mu     sync.Mutex
	ring   [hour]minute // by the minute's number modulo hour
	next   uint64       // the sequence to go on from; 0 = nothing was read yet
	stream time.Time    // when the stream was created
	caught time.Time    // what was stored up to then is counted; zero = not all of the hour yet
	behind bool
}

func newMinutes(q *queue.Queue) *minutes { return &minutes{queue: q} }

// errLater ends a round of following early, so that the loop can stop.
var errLater = errors.New("the rest follows")

// followFor is how long one round of following may take.
const followFor = 500 * time.Millisecond

// follow reads the results that were recorded since the last call, for a while. If
// more are left, the next call goes on.
func (m *minutes) follow(ctx context.Context, now time.Time) error {
	results := m.queue.Results()
	state, err := results.State(ctx)
	if err != nil {
		return err
	}
	begin := now.Truncate(time.Minute).Add(-(hour - 1) * time.Minute)
	first, err := results.At(ctx, begin)
	if err != nil {
		return err
	}
	m.mu.Lock()
	if !m.stream.Equal(state.Created) { // another stream counts from 1 again
		m.ring, m.next, m.stream, m.caught = [hour]minute{}, 0, state.Created, time.Time{}
	}
	next := max(m.next, first)
	m.mu.Unlock()
	if first == 0 || next > state.LastSeq { // nothing was recorded in this hour, or nothing new
		m.mu.Lock()
		m.next, m.behind, m.caught = max(m.next, state.LastSeq+1), false, state.LastTime
		m.mu.Unlock()
		return nil
	}
	m.mu.Lock()
	caught := m.caught
	m.mu.Unlock()
	until := time.Now().Add(followFor)
	err = results.Walk(ctx, next, state.LastSeq, func(page []*settle.Message) error {
		m.take(page, caught)
		if time.Now().After(until) {
			return errLater
		}
		return nil
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.behind = errors.Is(err, errLater)
	if err == nil {
		m.next, m.caught = state.LastSeq+1, state.LastTime
	}
	if m.behind {
		err = nil
	}
	return err
}

// take counts a page of results. Earlier rounds have counted what was stored up to
// caught.
func (m *minutes) take(page []*settle.Message, caught time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, msg := range page {
		m.next = msg.Seq + 1
		var o order.Outcome
		if o.UnmarshalText([]byte(msg.Header.Get(settle.HeaderOutcome))) != nil || queue.Kept(msg) {
			continue // a note, or a repetition
		}
		settled := settledAt(msg)
		if settled.Before(msg.Time) && !settled.After(caught) {
			continue // it was counted before a person's act wrote it again
		}
		at := settled.UTC().Truncate(time.Minute)
		slot := &m.ring[at.Unix()/60%hour]
		if at.After(slot.At) || slot.At.After(msg.Time) { // the clock was set back
			*slot = minute{At: at}
		}
		if at.Equal(slot.At) { // else it is older than an hour
			slot.Outcomes[o]++
		}
	}
}

// settledAt returns when the order was settled. A person's act that leaves the
// outcome, such as dropping the dead letter, writes the record again later.
func settledAt(msg *settle.Message) time.Time {
	if !bytes.Contains(msg.Data, []byte(`"interventions"`)) {
		return msg.Time
	}
	entry, err := queue.DecodeRecord(msg)
	if err != nil {
		return msg.Time
	}
	r := entry.Record
	if n := len(r.Interventions); n > 0 && r.Interventions[n-1].At.After(r.SettledAt) && r.SettledAt.Before(msg.Time) {
		return r.SettledAt
	}
	return msg.Time
}

// last returns the minutes of the last hour, oldest first, and whether there are
// results that were not counted yet.
func (m *minutes) last(now time.Time) (out [hour]minute, behind bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := now.UTC().Truncate(time.Minute)
	for i := range out {
		at := end.Add(time.Duration(i-hour+1) * time.Minute)
		if slot := m.ring[at.Unix()/60%hour]; slot.At.Equal(at) {
			out[i] = slot
		}
		out[i].At = at
	}
	return out, m.behind || m.next == 0
}
