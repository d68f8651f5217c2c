package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/settle"
)

const (
	// alertsEvery is how often the sender looks for what fleet.blocked and person.needed tell.
	alertsEvery = 5 * time.Second
	// blockedAfter is how long the fleet must post nothing, as long as most alerts wait
	// (deployments/prometheus/alerts.yaml).
	blockedAfter = time.Minute
	// alertGap is the least time between two events of one of these types.
	alertGap = 5 * time.Minute
	// lossTime bounds the look at what the broker lost.
	lossTime = 5 * time.Second
)

// pace is alertsEvery, blockedAfter and alertGap; a test shortens them.
type pace struct{ look, after, gap time.Duration }

// blockedTold is what the receiver was told of a blocked fleet.
type blockedTold struct {
	// Since is when a sender first saw that the fleet is blocked, which names the event; zero = it is not.
	Since time.Time `json:"since,omitzero"`
	Told  bool      `json:"told,omitempty"`
	// At is when the last such event was sent.
	At time.Time `json:"at,omitzero"`
}

// neededTold is what the receiver was told of what needs a person.
type neededTold struct {
	// Counts are by kind: those that were told, or fewer where persons did something since.
	Counts map[string]int `json:"counts,omitempty"`
	// At is when the last such event was sent.
	At time.Time `json:"at,omitzero"`
}

// Blocked is the data of fleet.blocked.
type Blocked struct {
	Since time.Time `json:"since"`
	// Reasons are why the fleet posts nothing, in the words of the command fleet.
	Reasons []string `json:"reasons"`
	// Due counts the orders that could be posted.
	Due uint64 `json:"due"`
	// Command shows each worker with its reasons.
	Command string `json:"command"`
}

// Needed is the data of person.needed.
type Needed struct {
	Needs []Need `json:"needs"`
}

// Need is one kind of what needs a person.
type Need struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	// Command lists them; "" = only the console does, at the path Console.
	Command string `json:"command,omitempty"`
	Console string `json:"console,omitempty"`
}

// kinds are what can need a person, in the order in which they are told.
var kinds = []Need{
	{Kind: "losses", Command: "orderpost worker repair"},
	{Kind: "dead_letters", Command: "orderpost deadletter list", Console: "/letters"},
	{Kind: "imports_to_approve", Command: "orderpost enqueue status", Console: "/approvals"},
	{Kind: "acts_to_approve", Console: "/approvals"},
}

// alertWatch is what a session knows of what fleet.blocked and person.needed tell.
type alertWatch struct {
	pace
	mu      sync.Mutex
	blocked blockedTold
	needed  neededTold
}

func (w *alertWatch) resume(b blockedTold, n neededTold, p pace) {
	w.blocked, w.needed, w.pace = b, n, p
}

func (w *alertWatch) told() (blockedTold, neededTold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.blocked, w.needed
}

func (w *alertWatch) setBlocked(b blockedTold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocked = b
}

func (w *alertWatch) setNeeded(n neededTold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.needed = n
}

// watchAlerts tells when the fleet is blocked, and when more needs a person than before.
func (s *session) watchAlerts(intake, work context.Context) {
	looks := []struct {
		kind   string
		look   func(context.Context) (*message, func(), error)
		waits  *backoff.ExponentialBackOff
		next   time.Time
		before string
	}{{kind: TypeBlocked, look: s.lookBlocked}, {kind: TypeNeeded, look: s.lookNeeded}}
	for wait := time.Duration(0); settle.Sleep(intake, wait) == nil; wait = s.alerts.look {
		for i := range looks {
			l := &looks[i]
			if !s.filter.wants(l.kind) || time.Now().Before(l.next) {
				continue
			}
			m, delivered, err := l.look(intake)
			problem := ""
			if err != nil && intake.Err() == nil {
				problem = err.Error()
				s.log.WithLevel(firstTime(problem != l.before)).Err(err).Str("event", l.kind).Msg("cannot look whether there is something to tell; will retry")
			}
			l.before = problem
			switch {
			case err != nil || m == nil:
			case s.send(intake, work, m):
				delivered()
				l.waits = nil
			default:
				if l.waits == nil {
					l.waits = newBackoff(firstWait, longestWait)
				}
				l.next = time.Now().Add(l.waits.NextBackOff())
			}
		}
	}
}

// firstTime is the level of a message about a problem: it is a warning once.
func firstTime(first bool) zerolog.Level {
	if first {
		return zerolog.WarnLevel
	}
	return zerolog.DebugLevel
}

// lookBlocked returns the event of a fleet that is blocked, and what to do once it is delivered; nil = there
// is nothing to tell. One that a person holds is not blocked, nor one without an order that is due.
func (s *session) lookBlocked(ctx context.Context) (m *message, delivered func(), err error) {
	view, err := fleet.New(s.queue).Look(ctx)
	if err != nil {
		return nil, nil, err
	}
	since, reasons := view.Stopped()
	due := uint64(0)
	if len(reasons) > 0 && view.Hold == nil {
		if due, err = s.due(ctx); err != nil {
			return nil, nil, err
		}
	}
	told, _ := s.alerts.told()
	now := time.Now().UTC()
	switch {
	case due == 0:
		s.alerts.setBlocked(blockedTold{At: told.At})
		return nil, nil, nil
	case told.Since.IsZero():
		told.Since = now
		s.alerts.setBlocked(told)
	}
	if told.Told || now.Sub(told.Since) < s.alerts.after || now.Sub(told.At) < s.alerts.gap {
		return nil, nil, nil
	}
	if since.IsZero() || since.After(told.Since) {
		since = told.Since
	}
	body, err := json.Marshal(Event{Type: TypeBlocked, Timestamp: since.UTC(), Data: Blocked{Since: since.UTC(), Reasons: reasons, Due: due, Command: "orderpost fleet"}})
	told.Told, told.At = true, now
	return &message{id: idOf(TypeBlocked, told.Since.UTC().Format(time.RFC3339Nano)), kind: TypeBlocked, body: body}, func() { s.alerts.setBlocked(told) }, err
}

// due counts the orders that a fleet could post: those in the queue, and those in the waiting room
// whose time has come and that no person keeps there.
func (s *session) due(ctx context.Context) (uint64, error) {
	counts, err := s.queue.Census.Count(ctx)
	if err != nil || counts.Waiting == 0 {
		return counts.Pending, err
	}
	feeding, err := imports.ReadFeeding(ctx, s.queue, 0)
	if err != nil {
		return 0, err
	}
	waiting, err := s.queue.Waiting.All(ctx)
	for _, w := range waiting {
		if !w.At.After(time.Now()) && feeding.HoldOf(w.Import) == nil {
			counts.Pending += uint64(w.Count)
		}
	}
	return counts.Pending, err
}

// lookNeeded returns the event of what needs a person, and what to do once it is delivered; nil = of
// no kind is more there than was told.
func (s *session) lookNeeded(ctx context.Context) (m *message, delivered func(), err error) {
	counts, err := s.needs(ctx)
	if err != nil {
		return nil, nil, err
	}
	_, told := s.alerts.told()
	now, grew := time.Now().UTC(), false
	before := make(map[string]int)
	for kind, n := range told.Counts {
		before[kind] = min(n, counts[kind])
	}
	data, id := Needed{}, []string{TypeNeeded, told.At.UTC().Format(time.RFC3339Nano)}
	for _, need := range kinds {
		if need.Count = counts[need.Kind]; need.Count > 0 {
			data.Needs, id = append(data.Needs, need), append(id, need.Kind, strconv.Itoa(need.Count))
		}
		grew = grew || need.Count > before[need.Kind]
	}
	if !grew || now.Sub(told.At) < s.alerts.gap {
		if !maps.Equal(before, told.Counts) {
			s.alerts.setNeeded(neededTold{Counts: before, At: told.At})
		}
		return nil, nil, nil
	}
	body, err := json.Marshal(Event{Type: TypeNeeded, Timestamp: now, Data: data})
	return &message{id: idOf(id...), kind: TypeNeeded, body: body}, func() { s.alerts.setNeeded(neededTold{Counts: counts, At: now}) }, err
}

// needs counts what needs a person, by kind. Orders whose outcome is unknown have dead letters.
func (s *session) needs(ctx context.Context) (map[string]int, error) {
	sizes, err := s.queue.Census.Count(ctx)
	if err != nil {
		return nil, err
	}
	feeding, err := imports.ReadFeeding(ctx, s.queue, 0)
	if err != nil {
		return nil, err
	}
	toApprove, acts := feeding.Awaiting()
	look, cancel := context.WithTimeout(ctx, lossTime)
	defer cancel()
	losses, _, err := s.queue.Extents.Losses(look, nil)
	if err != nil {
		return nil, fmt.Errorf("what the broker lost: %w", err)
	}
	all := map[string]int{"losses": len(losses), "dead_letters": int(sizes.Letters), "imports_to_approve": len(toApprove), "acts_to_approve": len(acts)}
	maps.DeleteFunc(all, func(_ string, n int) bool { return n == 0 })
	return all, nil
}
